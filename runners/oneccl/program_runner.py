"""The runner of `tune oneccl --engine benchmark`: every measurement is a run of oneCCL's own program."""

from __future__ import annotations

import time
from collections.abc import Sequence

from runners.oneccl import benchmark, checks, figures
from runners.oneccl.figures import Rounds
from runners.oneccl.proof import Proof
from runners.oneccl.runner import CclRunner
from runners.oneccl.seen import Seen, selected
from runners.oneccl.setup import Setup
from runners.oneccl.table import DEFAULT
from runners.runner import Failure, Json, Measurement, Outcome, Problem
from spaces.oneccl import class_of, environment, interface_environment, transport_of
from spaces.space import Config, Space
from spaces.units import format_size

# Small messages are timed apart: they take many more calls to be known as well.
_SMALL = 64 << 10
_FLOOR = 1.0


class ProgramRunner(CclRunner):
    """The same space, place and checks as the runner with ranks of ours; a start of the program for each reading."""

    def __init__(self, setup: Setup, narrowed: Space) -> None:
        super().__init__(setup, narrowed)
        self._known: dict[tuple[int, ...], float] = {}
        self._seen: dict[str, Proof] = {}

    @property
    def engine(self) -> str:
        return "benchmark"

    @property
    def engine_reason(self) -> str:
        return f"oneCCL's own program {self._setup.program}, started for each setting"

    def check(self) -> list[Problem]:
        """Providers are not tried: those that don't start fail when they are measured."""
        return checks.of_setup(self._setup)

    def prepare(self) -> None:
        """Nothing is kept between measurements."""

    def _measure(self, config: Config, limit: float, begun: float) -> Outcome:
        broken = self.space.broken(config)
        if broken:
            return Failure("infeasible", broken[0])
        work = self._setup.work
        env = self.variables(config, transport_of(config, self._setup.transport))
        against = self._against(config, env, limit)
        if isinstance(against, Failure):
            return against
        found: dict[int, tuple[float, int]] = {}
        told: Seen | None = None
        for sizes in filter(None, ([s for s in work.plain if s <= _SMALL], [s for s in work.plain if s > _SMALL])):
            left = max(_FLOOR, limit - (time.monotonic() - begun))
            first = benchmark.run(self._setup.program, self._setup.starter, env, left, self._repeat(sizes), sizes)
            if isinstance(first, Failure):
                return first
            table, told, _ = first
            timed = benchmark.times(table, sizes)
            if isinstance(timed, Failure):
                return timed
            found |= timed
            self._known[tuple(sizes)] = sum(seconds for seconds, _ in timed.values())
        assert told is not None
        seconds = time.monotonic() - begun
        missing = told.missing(env)
        if missing:
            return Failure("infeasible", missing, "", seconds)
        rounds: dict[int, Rounds] = {size: [[round(1e9 * mean)]] for size, (mean, _) in found.items()}
        doubt = self._doubt(config, rounds)
        if doubt:
            return Failure("wrong", doubt, "", seconds)
        weights = dict(work.sizes)
        calls: dict[str, Json] = {format_size(size): count for size, (_, count) in found.items()}
        evidence: dict[str, Json] = {
            **told.json(),
            "calls": calls,
            "algorithms": self._ran(config),
            "ranks": self._setup.place.ranks,
        }
        return Measurement(figures.metrics(rounds, weights), figures.samples(rounds, weights), seconds, 0, evidence)

    def variables(self, config: Config, transport: str) -> dict[str, str]:
        """The setting's own variables, as a job of the user's has them."""
        del transport
        own = environment(config, self._setup.work.selected, self._setup.transport)
        return {**own, **interface_environment(self._setup.network.iface, config)}

    def _repeat(self, sizes: Sequence[int]) -> int:
        return benchmark.repetitions(self._known.get(tuple(sizes)))

    def _key(self, config: Config) -> str:
        chosen = [f"{size}:{config[class_of(size)]}" for size in self._setup.work.plain]
        return " ".join([transport_of(config, self._setup.transport), *chosen])

    def _against(self, config: Config, env: dict[str, str], limit: float) -> Failure | None:
        """A short run at debug level tells which algorithms run: once for each table and transport."""
        key, work = self._key(config), self._setup.work
        wanted = [(size, str(config[class_of(size)])) for size in work.plain]
        if key not in self._seen and any(algorithm != DEFAULT for _, algorithm in wanted):
            debug = {**env, "CCL_LOG_LEVEL": "debug"}
            done = benchmark.run(self._setup.program, self._setup.starter, debug, limit, 1, warmup=0)
            if isinstance(done, Failure):
                return done
            ran = selected(done[2], work.selected)
            self._seen[key] = Proof({(size, name): ran.get(size // work.element, "") for size, name in wanted}, {})
        against = self._seen[key].against(wanted) if key in self._seen else ""
        return Failure("infeasible", against) if against else None

    def _ran(self, config: Config) -> dict[str, Json]:
        proof = self._seen.get(self._key(config))
        return {format_size(size): algorithm for (size, _), algorithm in proof.ran.items()} if proof else {}
