"""What `tune xft` picks against its baseline and against one thread alone, in shuffled rounds of fresh measurements.

    python tests/benchmarks/bench_xft.py [--time 3m] [--rounds 10] [--model tiny] [--hosts a,b ...]

Other options are those of `tune xft`. Prints what the study took, and for each of the three the objective and its ratio.
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
from statistics import median
from typing import Any

from runners.runner import Failure
from runners.xft.controls import layouts
from runners.xft.layout import Layout
from runners.xft.options import Options
from runners.xft.runner import XftRunner
from spaces.space import Config
from spaces.xft import SPACE

_LIMIT = 60.0


def tuned(words: list[str], limit: str) -> tuple[Config, float, dict[str, Any]]:
    """What the command recommends, its seconds from the start of the process, and its answer."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tuner", "xft", *words, "--time", limit, "--json", "--storage", f"{folder}/s.db"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    answer = json.loads(done.stdout)
    if "recommended" not in answer:
        sys.exit(f"tune xft: {answer['error']['message']}")
    return answer["recommended"], time.monotonic() - begun, answer


def compared(runner: XftRunner, layouts_of: dict[str, Layout], rounds: int) -> dict[str, list[float]]:
    """The objective of each layout in shuffled rounds; rounds in which one failed are left out."""
    rng, found = random.Random(0), {name: list[float]() for name in layouts_of}
    metric = runner.objective.metric
    for _ in range(rounds):
        taken: dict[str, float] = {}
        for name in rng.sample(sorted(layouts_of), len(layouts_of)):
            run = runner.chosen.engine.measure(layouts_of[name], _LIMIT)
            if not isinstance(run, Failure):
                taken[name] = runner.goal.metrics(run.requests)[metric]
        if len(taken) == len(layouts_of):
            for name, value in taken.items():
                found[name].append(value)
    return found


def laid_out(runner: XftRunner, config: Config) -> Layout:
    layout = runner.plan.layout(config)
    if isinstance(layout, str):
        sys.exit(layout)
    return layout


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--time", default="3m")
    parser.add_argument("--rounds", type=int, default=10)
    for field in fields(Options):
        parser.add_argument(f"--{field.name.replace('_', '-')}", default=field.default, type=type(field.default))
    given = vars(parser.parse_args())
    limit, rounds = given.pop("time"), given.pop("rounds")
    words = [word for name, value in given.items() if value != "" for word in (f"--{name.replace('_', '-')}", str(value))]
    ours, seconds, answer = tuned(words, limit)
    changed = " ".join(f"{name}={value}" for name, value in ours.items() if value != SPACE.default[name]) or "the baseline"
    print(f"tune xft: {seconds:.0f} s, {answer['trials']} measurements, {answer['decision']}: {changed}", flush=True)
    with XftRunner.create(Options(**given), SPACE) as runner:
        three = {"ours": laid_out(runner, ours), "baseline": laid_out(runner, SPACE.default)}
        alone = layouts(runner.plan, runner.chosen.engine)["one_thread"]
        if not isinstance(alone, str):
            three["one thread"] = alone
        found = compared(runner, three, rounds)
        unit, better = runner.objective.unit, runner.objective.maximise
    for name, values in found.items():
        if not values:
            print(f"{name}: no round in which all were measured")
            continue
        ratios = sorted((a / b if better else b / a) for a, b in zip(found["ours"], values, strict=True))
        low, high = ratios[len(ratios) // 10], ratios[-1 - len(ratios) // 10]
        print(
            f"{name}: {median(values):.4g} {unit} over {len(values)} rounds; ours is {median(ratios):.2f} times as good "
            f"({low:.2f} to {high:.2f})"
        )


if __name__ == "__main__":
    main()
