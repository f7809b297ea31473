"""Milliseconds a measurement that the benchmark itself does not take, by part, over a real study file."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))

from support.synthetic import SPACE, Synthetic

from tuner.budget import Budget, Limits
from tuner.race.race import RaceRules
from tuner.search import stop
from tuner.search.strategy import default_strategy
from tuner.storage import Storage
from tuner.study import Header, Study
from tuner.tuning import Tuning


class Stopwatch:
    """Adds up the wall time spent inside wrapped calls."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def timing(self, part: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[part] += time.perf_counter() - start

    def wrap(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            with self.timing(part):
                return function(*arguments, **named)

        return timed


def one(trials: int, folder: Path) -> tuple[float, dict[str, float], int]:
    """Whole seconds, seconds by part and measurements of one run of ``trials`` over a surface that costs nothing."""
    watch = Stopwatch()
    runner = Synthetic(noise=0.05)
    with Storage(str(folder / "s.db")) as storage:
        header = Header("aio", SPACE.fingerprint, runner.objective, SPACE.default, {}, {}, {}, {}, 0.0)
        study = storage.create(f"s{trials}", header)
        strategy = default_strategy(runner.objective)
        for name in ("begin", "finish"):
            setattr(study, name, watch.wrap("storage", getattr(Study, name).__get__(study)))
        strategy.propose = watch.wrap("proposal", strategy.propose)  # type: ignore[method-assign]
        runner.measure = watch.wrap("benchmark", runner.measure)  # type: ignore[method-assign]
        kept, stop.worth = stop.worth, lambda *_arguments, **_named: None  # use the whole budget
        try:
            budget = Budget(Limits(None, trials, None), clock=runner.clock)
            tuning = Tuning(runner, study, strategy, budget, SPACE.default, random.Random(0), rules=RaceRules())
            start = time.perf_counter()
            tuning.run()
            whole = time.perf_counter() - start
        finally:
            stop.worth = kept
    return whole, dict(watch.seconds), len(runner.measured)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, nargs="+", default=[20, 100, 1000])
    sizes = parser.parse_args().trials
    print(f"{'measurements':>12} {'proposal':>9} {'storage':>9} {'the rest':>9} {'all':>9}   ms a measurement")
    for trials in sizes:
        with tempfile.TemporaryDirectory() as folder:
            whole, parts, count = one(trials, Path(folder))
        scale = 1000 / count
        proposal, storage = parts["proposal"] * scale, parts["storage"] * scale
        rest = (whole - sum(parts.values())) * scale
        print(f"{count:12} {proposal:9.2f} {storage:9.2f} {rest:9.2f} {proposal + storage + rest:9.2f}")


if __name__ == "__main__":
    main()
