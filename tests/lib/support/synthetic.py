"""A runner over a known surface with known noise: the loop is tested against the truth, without a device or a clock."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from runners.runner import Failure, Json, Measurement, Objective, Outcome, Problem
from spaces.space import Config, Knob, Space, flag, log2

SPACE = Space(
    (
        Knob("block_size", log2(64 << 10, 16 << 20), 1 << 20, "", "", unit="bytes"),
        Knob("queue_depth", log2(1, 256), 8, "", "", unit="count"),
        Knob("threads", log2(1, 16), 1, "", "", unit="count"),
        Knob("eager", flag(), False, "", ""),
    ),
    cost=lambda c: float(int(c["block_size"]) * int(c["queue_depth"]) * int(c["threads"])),
)


def hill(config: Config) -> float:
    """GB/s; best at 2M, depth 32, 4 threads; the default reaches about 0.6 of it."""
    block = math.log2(int(config["block_size"])) - 21
    depth = math.log2(int(config["queue_depth"])) - 5
    threads = math.log2(int(config["threads"])) - 2
    return 4.0 * math.exp(-0.03 * block**2 - 0.03 * depth**2 - 0.05 * threads**2) * (1.02 if config["eager"] else 1.0)


def flat(_config: Config) -> float:
    """GB/s; nothing matters."""
    return 3.0


@dataclass(slots=True)
class Clock:
    """Seconds that only pass when something is measured."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Synthetic:
    """``planted`` returns a failure for a setting, or None to measure it; ``before`` is called before each measurement."""

    truth: Callable[[Config], float] = hill
    noise: float = 0.03
    seed: int = 0
    space: Space = SPACE
    clock: Clock = field(default_factory=Clock)
    planted: Callable[[Config, int], Failure | None] = lambda _config, _count: None
    before: Callable[[int], None] = lambda _count: None
    seconds: float = 1.0
    written: int = 1 << 20
    objective: Objective = field(default=Objective("effective_gbs", "GB/s"))
    message: Callable[[str], None] = lambda _text: None
    engine: str = "synthetic"
    engine_reason: str = ""
    measured: list[dict[str, object]] = field(default_factory=list)
    closed: int = 0
    _rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)

    def facts(self) -> Mapping[str, Json]:
        return {"engine": self.engine}

    def check(self) -> list[Problem]:
        return []

    def prepare(self) -> None:
        self.clock.now += 1.0

    def bytes_per_measurement(self) -> int:
        return self.written

    def bytes_to_prepare(self) -> int:
        return 4 * self.written

    @property
    def bytes_prepared(self) -> int:
        return 4 * self.written

    def measure(self, config: Config, limit: float) -> Outcome:
        count = len(self.measured)
        self.before(count)
        self.measured.append(dict(config))
        self.clock.now += self.seconds
        failure = self.planted(config, count)
        if failure is not None:
            return failure
        value = self.truth(config) * math.exp(self._rng.gauss(0, self.noise))
        return Measurement({"effective_gbs": value, "read_gbs": value}, (value,), self.seconds, self.written)

    def cross_check(self, config: Config) -> None: ...

    def close(self) -> None:
        self.closed += 1

    def __enter__(self) -> Synthetic:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
