"""`tune oneccl` against trying everything: all of transport x algorithm x yield for a size, a job each, as a script would.

    python tests/benchmarks/bench_oneccl.py --few-bytes [--sizes 1K,64K,4M]
    python tests/benchmarks/bench_oneccl.py [--sizes 64K] [--time 60s] [--hosts a,b --ppn 1 ...]

Prints what each one took and picked, and what the picks give in interleaved rounds of a fresh comparison; with --few-bytes
what the sizes that algorithms are timed with change, by one algorithm in one job. Other options are those of `tune oneccl`.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import fields
from itertools import product
from statistics import median
from typing import Any

from runners.oneccl import figures
from runners.oneccl.options import Options
from runners.oneccl.runner import CclRunner
from runners.oneccl.setup import Setup
from runners.oneccl.table import layout
from runners.oneccl.warm import Step
from runners.runner import Failure, Measurement
from spaces.oneccl import ALGORITHMS, SIZE_CLASSES, SPACE, environment
from spaces.space import Config

_LIMIT = 30.0


def everything(setup: Setup) -> tuple[Config, float, int, int]:
    """The best of all combinations, seconds, how many were tried and how many failed."""
    begun, work = time.monotonic(), setup.work
    best: tuple[float, Config] = (float("inf"), SPACE.default)
    algorithms = SPACE["algorithm_small"].domain.values
    combinations = list(product(("default", "ofi"), algorithms, SPACE["yield"].domain.values))
    tried = failed = 0
    for transport, algorithm, yielding in combinations:
        config = {**SPACE.default, "transport": transport, "yield": yielding,
                  **{knob: algorithm for knob, _, _ in SIZE_CLASSES}}  # fmt: skip
        if SPACE.broken(config):
            continue
        tried += 1
        env = {**environment(config, work.selected, setup.transport), **setup.interface()}
        job = setup.starter.start(env, _LIMIT)
        answers = Failure("crash", "") if isinstance(job, Failure) else job.calls(
            [Step(size // work.element, tried, 5, 400) for size in work.plain], 0.06, _LIMIT)  # fmt: skip
        found = answers if isinstance(answers, Failure) else figures.sorted_out(answers, work.plain)
        if not isinstance(job, Failure):
            job.close()
        if isinstance(found, Failure):
            failed += 1
            continue
        taken = figures.metrics(found, dict(work.sizes))["time_us"]
        best = min(best, (taken, config), key=lambda pair: pair[0])
    return best[1], time.monotonic() - begun, tried, failed


def tuned(options: list[str], limit: str) -> tuple[Config, float, int]:
    """What the command recommends, its seconds from the start of the process, and the settings that it tried."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tuner", "oneccl", *options, "--time", limit, "--json", "--storage", f"{folder}/s.db"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    answer = json.loads(done.stdout)
    if "recommended" not in answer:
        sys.exit(f"tune oneccl: {answer['error']['message']}")
    return answer["recommended"], time.monotonic() - begun, answer["evidence"]["settings_tried"]


def compared(runner: CclRunner, one: Config, other: Config, rounds: int) -> list[tuple[float, float]]:
    """Times of both in shuffled rounds."""
    rng, pairs = random.Random(0), []
    for number in range(rounds + 1):
        order = [(0, one), (1, other)]
        rng.shuffle(order)
        taken: dict[int, float] = {}
        for index, config in order:
            outcome = runner.measure(config, _LIMIT)
            if isinstance(outcome, Measurement):
                taken[index] = outcome.metrics["time_us"]
        if number and len(taken) == 2:  # the first round starts the jobs
            pairs.append((taken[0], taken[1]))
    return pairs


def few_bytes(setup: Setup, rounds: int) -> None:
    """The sizes beside the asked one against it, in shuffled rounds, all by the algorithm that oneCCL chooses itself."""
    work, rng = setup.work, random.Random(0)
    job = setup.starter.start({}, _LIMIT)
    if isinstance(job, Failure):
        sys.exit(job.reason)
    names = ALGORITHMS[work.selected]
    for size in work.plain:
        sizes = sorted(layout((size,), {size: names}, work.element).values(), reverse=True)
        taken: dict[int, list[float]] = {each: [] for each in sizes}
        for number in range(rounds):
            order = rng.sample(sizes, len(sizes))
            answers = job.calls([Step(each // work.element, 100 * number, 3, 400) for each in order], 0.02, _LIMIT)
            found = answers if isinstance(answers, Failure) else figures.sorted_out(answers, order)
            if isinstance(found, Failure):
                sys.exit(found.reason)
            for each, times in found.items():
                taken[each].append(figures.typical(times))
        own = taken.pop(size)
        ratios = [f"{each}: {median(a / b for a, b in zip(times, own, strict=True)):.3f}" for each, times in taken.items()]
        print(f"{size} bytes: {median(own):.2f} us; times as long with {', '.join(ratios)}", flush=True)
    job.close()


def told(config: Config) -> str:
    changed = [f"{name}={value}" for name, value in config.items() if value != SPACE.default[name]]
    return " ".join(changed) or "the baseline"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--time", default="60s")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--few-bytes", action="store_true")
    for field in fields(Options):
        default: Any = "64K" if field.name == "sizes" else field.default
        parser.add_argument(f"--{field.name.replace('_', '-')}", default=default, type=type(field.default))
    given = vars(parser.parse_args())
    limit, rounds, few = given.pop("time"), given.pop("rounds"), given.pop("few_bytes")
    options = Options(**given)
    if few:
        few_bytes(Setup.of(options), rounds)
        return
    words = [word for name, value in given.items() if value != "" for word in (f"--{name.replace('_', '-')}", str(value))]
    ours, seconds, settings = tuned(words, limit)
    print(f"{options.sizes}: tune oneccl      {seconds:6.1f} s, {settings} settings: {told(ours)}", flush=True)
    with CclRunner(Setup.of(options), SPACE) as runner:
        theirs, spent, tried, failed = everything(runner._setup)
        print(
            f"{options.sizes}: everything       {spent:6.1f} s, {tried} settings, {failed} failed: {told(theirs)}", flush=True
        )
        pairs = compared(runner, ours, runner.space.canonical(theirs), rounds)
    ratios = sorted(second / first for first, second in pairs)
    low, high = ratios[len(ratios) // 10], ratios[-1 - len(ratios) // 10]
    print(
        f"{options.sizes}: {len(pairs)} rounds: ours {median(a for a, _ in pairs):.1f} us, everything's best "
        f"{median(b for _, b in pairs):.1f} us; it takes {median(ratios):.2f} times as long as ours ({low:.2f} to {high:.2f})"
    )


if __name__ == "__main__":
    main()
