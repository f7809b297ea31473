"""`tune rclone` or `tune juicefs` against trying everything, on a store behind a slow link (20 ms, 15 MB/s a connection).

    python tests/benchmarks/bench_mounts.py [--target rclone|juicefs] [--loads sequential,random,streams] [--time 90s]
                                             [--rate 4e6]

For sequential reads by one job, random 4K reads by one job, and sequential reads by four: what each way took and picked, and
what the picks give in interleaved rounds of a fresh comparison. Everything is the whole grid below, a measurement a setting.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))

from support.store import store

from runners import juicefs, rclone
from runners.mount import leftovers
from runners.runner import Failure, Measurement, Runner
from spaces import juicefs as juicefs_space
from spaces import rclone as rclone_space
from spaces.space import Config

MIB = 1 << 20
_LIMIT = 60.0
_FILES = {f"part{number}.bin": 64 * MIB for number in range(4)}
_READ_TIME = "2s"


@dataclass(frozen=True)
class Case:
    name: str
    options: dict[str, Any]


CASES = (
    Case("sequential", {"pattern": "sequential", "jobs": 1, "block_size": "256K"}),
    Case("random", {"pattern": "random", "jobs": 1, "block_size": "4K"}),
    Case("streams", {"pattern": "sequential", "jobs": 4, "block_size": "256K"}),
)
GRIDS: dict[str, dict[str, tuple[int, ...]]] = {
    "rclone": {
        "vfs_read_chunk_streams": (0, 2, 4, 8, 16, 32),
        "vfs_read_chunk_size": (MIB, 4 * MIB, 16 * MIB, 128 * MIB),
        "buffer_size": (0, 16 * MIB),
    },
    "juicefs": {
        "max_readahead": (0, 4 * MIB, 16 * MIB, 32 * MIB, 64 * MIB),
        "prefetch": (0, 1, 4),
        "max_downloads": (4, 16, 200),
    },
}


def everything(runner: Runner, grid: dict[str, tuple[int, ...]]) -> tuple[Config, float, int]:
    """The best of the grid by one measurement each, the seconds that took, and how many there were."""
    begun, best = time.monotonic(), (0.0, runner.space.default)
    configs = {}
    for values in product(*grid.values()):
        config = runner.space.canonical({**runner.space.default, **dict(zip(grid, values, strict=True))})
        if runner.space.legal(config):
            configs[runner.space.key(config)] = config
    for config in configs.values():
        outcome = runner.measure(config, _LIMIT)
        if isinstance(outcome, Measurement):
            best = max(best, (outcome.metrics[runner.objective.metric], dict(config)), key=lambda pair: pair[0])
    return best[1], time.monotonic() - begun, len(configs)


def tuned(target: str, words: list[str], limit: str) -> tuple[Config, float, int]:
    """What the command recommends, its seconds from the start of the process, and the settings that it tried."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tuner", target, *words, "--time", limit, "--json", "--storage", f"{folder}/s.db"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    answer = json.loads(done.stdout)
    if "recommended" not in answer:
        sys.exit(f"tune {target}: {answer['error']['message']}")
    return answer["recommended"], time.monotonic() - begun, answer["evidence"]["settings_tried"]


def compared(runner: Runner, configs: list[Config], rounds: int) -> list[list[float]]:
    """The objective of each of ``configs`` in shuffled rounds, a list a round; rounds with a failure are left out."""
    rng, found = random.Random(0), []
    for _ in range(rounds):
        order = list(range(len(configs)))
        rng.shuffle(order)
        taken: dict[int, float] = {}
        for index in order:
            outcome = runner.measure(configs[index], _LIMIT)
            if isinstance(outcome, Failure):
                print(f"  a failure: {outcome.kind}: {outcome.reason}", flush=True)
                break
            taken[index] = outcome.metrics[runner.objective.metric]
        if len(taken) == len(configs):
            found.append([taken[index] for index in range(len(configs))])
    return found


def told(config: Config, default: Config) -> str:
    changed = [f"{name}={value}" for name, value in config.items() if value != default[name]]
    return " ".join(changed) or "the defaults"


def spread(ratios: list[float]) -> str:
    low, high = sorted(ratios)[len(ratios) // 10], sorted(ratios)[-1 - len(ratios) // 10]
    return f"{median(ratios):.2f} ({low:.2f} to {high:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", choices=("rclone", "juicefs"), default="rclone")
    parser.add_argument("--loads", default=",".join(case.name for case in CASES))
    parser.add_argument("--time", default="90s")
    parser.add_argument("--rate", type=float, default=15e6, help="bytes a second of a connection; less for a busy machine")
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bm") as folder, ExitStack() as undo:
        undo.callback(leftovers.clear, Path(folder))  # an interrupted bench kills the command
        made = undo.enter_context(store(Path(folder) / "store", rate=given.rate))
        if given.target == "rclone":
            for name, size in _FILES.items():
                made.add(name, size)
            own: dict[str, Any] = {"remote": "slow:data", "config": str(made.config)}
            kind, create, space = rclone.Options, rclone.create, rclone_space.SPACE
        else:
            own = {"meta": made.juicefs(_FILES)}
            kind, create, space = juicefs.Options, juicefs.create, juicefs_space.SPACE
        for case in CASES:
            if case.name not in given.loads.split(","):
                continue
            options = {"load": "fio", "read_time": _READ_TIME, "scratch": folder, **own, **case.options}
            words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
            ours, seconds, tried = tuned(given.target, words, given.time)
            print(
                f"{case.name}: tune {given.target}  {seconds:6.1f} s, {tried} settings: {told(ours, space.default)}",
                flush=True,
            )
            with create(kind(**options), space) as runner:
                runner.check()
                runner.prepare()
                theirs, spent, count = everything(runner, GRIDS[given.target])
                found = told(theirs, space.default)
                print(f"{case.name}: everything  {spent:6.1f} s, {count} settings: {found}", flush=True)
                rounds = compared(runner, [ours, theirs, space.default], given.rounds)
            middle = [median(column) for column in zip(*rounds, strict=True)]
            print(
                f"{case.name}: {len(rounds)} rounds, MiB/s: ours {middle[0]:.2f}, everything's best {middle[1]:.2f}, defaults "
                f"{middle[2]:.2f}; ours over everything's best {spread([r[0] / r[1] for r in rounds])}, over the defaults "
                f"{spread([r[0] / r[2] for r in rounds])}",
                flush=True,
            )


if __name__ == "__main__":
    main()
