"""Prints the CPU time of one proposal and of one look at the stop rule, by length of the history.

python tests/benchmarks/bench_search_cost.py
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]

from surfaces.others import wide  # noqa: E402
from surfaces.reference import reference  # noqa: E402
from surfaces.surface import Surface  # noqa: E402

from spaces import aio  # noqa: E402
from tuner.search.stop import worth  # noqa: E402
from tuner.search.strategy import default_strategy  # noqa: E402
from tuner.trial import Trial  # noqa: E402

LENGTHS = (10, 50, 200, 1000)


def history_of(surface: Surface, length: int, rng: random.Random) -> list[Trial]:
    """The baseline, again after every six settings, and random ones."""
    pool = surface.space.pool(rng, 4 * length)
    drawn = rng.sample(pool, min(length, len(pool)))
    trials: list[Trial] = []
    for config in drawn:
        if len(trials) % 7 == 0:
            trials.append(Trial(surface.space.default, surface.measure(surface.space.default, rng), "baseline"))
        trials.append(Trial(config, surface.measure(config, rng), "search"))
    return trials[:length]


def milliseconds(call: Callable[[], object], repeats: int) -> float:
    spent = []
    for _ in range(repeats):
        begin = time.process_time()
        call()
        spent.append(time.process_time() - begin)
    return 1000 * statistics.median(spent)


def real_aio() -> Surface:
    """The real aio space, rules and folding included, with the truth of a synthetic drive."""
    nvme = reference()[0]
    limits = aio.Limits(tensor_sizes=(64 << 20,), sector=512, ranks=1, handles=4, aio_free=65536)
    space = aio.for_machine(aio.SPACE, limits)
    return Surface("aio", space, lambda c: nvme.truth({**c, "threads": c["intra_op_parallelism"]}), 0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=12)
    repeats = parser.parse_args().repeats
    begin = time.process_time()
    default_strategy(reference()[0].objective).propose(
        reference()[0].space, history_of(reference()[0], 8, random.Random(0)), random.Random(0)
    )
    print(f"first proposal, libraries loaded: {1000 * (time.process_time() - begin):.0f} ms CPU\n")
    print("ms CPU, median over the turns:  " + "".join(f"{n:>8d}" for n in LENGTHS) + "   measurements in the history")
    for surface in (real_aio(), reference()[3], wide()):
        cells, looks = [], []
        for length in LENGTHS:
            history = history_of(surface, length, random.Random(1))
            strategy = default_strategy(surface.objective)
            turns = iter(range(10**6))

            def propose(strategy=strategy, history=history, turns=turns, surface=surface) -> object:
                # A history that ends at another trial each time, so that every turn has its share.
                return strategy.propose(surface.space, history[: len(history) - next(turns) % 4], random.Random(2))

            propose()
            cells.append(milliseconds(propose, repeats))
            looks.append(milliseconds(lambda s=surface, h=history: worth(s.space, h, s.objective), 4))
        print(f"{surface.name:8s} {surface.space.size:>10d} settings  propose" + "".join(f"{c:8.1f}" for c in cells))
        print(f"{'':28s}  worth" + "".join(f"{c:8.1f}" for c in looks), flush=True)


if __name__ == "__main__":
    main()
