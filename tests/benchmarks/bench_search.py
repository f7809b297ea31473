"""Prints how fast each way to search finds good settings of the synthetic surfaces, and what its final answer costs.

    python tests/benchmarks/bench_search.py --seeds 20 --jobs 2

Table 1 counts search trials until a setting of true 95 % and 98 % of the best was measured (the baseline is trial 1). Table 2
runs everything inside the budget: two baseline measurements, one more every six trials, the search, and a race of finalists
against the baseline from 20 trials up; below that the best by posterior is taken. With `--remeasure` the race, which also pays
for a proof against the baseline, makes way for as many more samples of a few finalists, and the baseline is measured once.
The answer is found alike for every strategy. Regret: what the recommended setting truly lacks to the best, in per cent.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]

from surfaces.others import HELD_BACK, others  # noqa: E402
from surfaces.reference import reference  # noqa: E402
from surfaces.surface import Surface  # noqa: E402

from spaces.space import Config  # noqa: E402
from tuner.compare.opponents import ds_nvme_tune_order, opponent  # noqa: E402
from tuner.race.race import Race, RaceRules, plan  # noqa: E402
from tuner.search.finalists import finalist_share, finalists  # noqa: E402
from tuner.search.priors import packaged  # noqa: E402
from tuner.search.stop import worth  # noqa: E402
from tuner.search.strategy import Strategy, default_strategy  # noqa: E402
from tuner.trial import Trial, score  # noqa: E402

TRIALS = 60
BUDGETS = (15, 30, 60)
LONG = 120
FINALS = {15: 0, 30: 3, 60: 4}
SENTINEL = 6
Seeds = Callable[[str], int]  # how many a strategy of that name gets
NAMES = ("ours", "ours+priors", "tpe", "tpe+priors", "gp", "random", "ds-grid", "descent")
CLASS = {"aio-nvme": "nvme", "aio-cloud": "virtio", "aio-raid": "raid"}


def surfaces() -> dict[str, Surface]:
    return {surface.name: surface for surface in (*reference(), *others())}


def renamed(configs: Sequence[Config]) -> list[Config]:
    return [{("threads" if name == "intra_op_parallelism" else name): v for name, v in c.items()} for c in configs]


def first_of(name: str, surface: Surface) -> list[Config]:
    if name.endswith("+priors"):
        return surface.priors
    if name.endswith("+packaged"):
        facts = {"devices": [{"transport": CLASS.get(surface.name, "")}]}
        return renamed(packaged("aio", facts)) if surface.name in CLASS else []
    return []


def strategy(name: str, surface: Surface) -> Strategy:
    kind = name.partition("+")[0]
    first = first_of(name, surface)
    if kind == "ours":
        return default_strategy(surface.objective, priors=first)
    if kind == "ds-grid":
        return opponent("grid", surface.objective, ds_nvme_tune_order("threads") if surface.name.startswith("aio") else [])
    return opponent(kind, surface.objective, first)


class Run:
    """One search on one surface with a seed of its own; history as `tune` keeps it."""

    def __init__(self, name: str, surface: Surface, seed: int) -> None:
        self.surface, self.history = surface, []
        self.strategy = strategy(name, surface)
        self.rng, self.noise = random.Random(7919 * seed + 1), random.Random(10**6 + seed)
        self.cpu = 0.0

    def measure(self, config: Config, phase: str, round: int = -1) -> float | None:
        outcome = self.surface.measure(config, self.noise)
        self.history.append(Trial(config, outcome, phase, round))  # type: ignore[arg-type]
        return score(outcome, self.surface.objective)

    def search(self) -> bool:
        begin = time.process_time()
        config = self.strategy.propose(self.surface.space, self.history, self.rng)
        self.cpu += time.process_time() - begin
        if config is not None:
            self.measure(config, "search")
        return config is not None


def to_target(name: str, surface: Surface, seed: int) -> tuple[list[float], float]:
    """The true share of the best that was measured at each trial, and CPU seconds of the proposals."""
    run = Run(name, surface, seed)
    run.measure(surface.space.default, "baseline")
    while len(run.history) < TRIALS and run.search():
        pass
    return [surface.share(trial.config) for trial in run.history], run.cpu


def answer(name: str, surface: Surface, seed: int, budget: int, stops: bool = False) -> tuple[float, int]:
    """Regret of the recommendation (share) after ``budget`` measurements in all, and how many were used."""
    space, objective = surface.space, surface.objective
    run, since = Run(name, surface, seed), 0
    run.measure(space.default, "baseline")
    run.measure(space.default, "baseline")
    searching = budget - finalist_share(budget)
    while len(run.history) < searching:
        if stops and worth(space, run.history, objective):
            break
        if since == SENTINEL:
            run.measure(space.default, "baseline")
            since = 0
        elif run.search():
            since += 1
        else:
            break
    pick = raced(run, budget) or next(iter(finalists(space, run.history, objective, 1)), space.default)
    return 1 - surface.share(pick), len(run.history)


def remeasured(name: str, surface: Surface, seed: int, budget: int) -> tuple[float, int]:
    """As ``answer``, with k finalists measured k times more and the best by posterior taken: no proof, no baseline rounds."""
    run = Run(name, surface, seed)
    run.measure(surface.space.default, "baseline")
    finals = FINALS[budget]
    while len(run.history) < budget - finals**2 and run.search():
        pass
    for config in finalists(surface.space, run.history, surface.objective, finals) * finals:
        run.measure(config, "race")
    pick = next(iter(finalists(surface.space, run.history, surface.objective, 1)), surface.space.default)
    return 1 - surface.share(pick), len(run.history)


def raced(run: Run, budget: int) -> Config | None:
    """The leader of a race on what the budget leaves; None where that proves nothing or can't be raced."""
    space = run.surface.space
    if not finalist_share(budget):
        return None
    planned = plan(budget - len(run.history), RaceRules())
    count, rules = planned or (3, RaceRules(max_rounds=max(3, finalist_share(budget) // 4)))
    contenders = finalists(space, run.history, run.surface.objective, count)
    baseline = space.key(space.default)
    race = Race([space.key(c) for c in contenders], baseline, {space.key(c): space.cost(c) for c in contenders}, rules)
    number = 0
    while (keys := race.next_round(run.rng)) and len(run.history) + len(keys) <= budget:
        race.record({key: run.measure(space.config(key), "race", number) for key in keys})
        number += 1
    result = race.result()
    if result.adopt:
        return space.config(result.winner)
    # Nothing proven: what the samples say by now is still the best guess.
    return next(iter(finalists(space, run.history, run.surface.objective, 1)), None)


def quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def reached(shares: Sequence[float], target: float) -> int:
    return next((number for number, share in enumerate(shares, 1) if share >= target), TRIALS + 1)


def shown(counts: Sequence[int]) -> str:
    def number(value: float) -> str:
        return f">{TRIALS}" if value > TRIALS else f"{value:.0f}"

    got = 100 * sum(count <= TRIALS for count in counts) / len(counts)
    return f"{number(quantile(counts, 0.5))}/{number(quantile(counts, 0.9))} ({got:.0f})"


def parallel(jobs: int, calls: Iterator) -> list:
    from joblib import Parallel

    return Parallel(jobs)(calls)


def evaluations(names: Sequence[str], chosen: Sequence[Surface], seeds: Seeds, jobs: int) -> None:
    from joblib import delayed

    print(f"Trials to true 95 % | 98 % of the best: median/90th percentile (% of runs that got there in {TRIALS})")
    print(f"{'':14s}" + "".join(f"{s.name:>30s}" for s in chosen) + "   CPU ms/proposal")
    for name in names:
        count = seeds(name)
        rows = parallel(jobs, (delayed(to_target)(name, s, seed) for s in chosen for seed in range(count)))
        cells = []
        for index in range(len(chosen)):
            runs = [shares for shares, _ in rows[index * count : (index + 1) * count]]
            cells.append(" | ".join(shown([reached(shares, target) for shares in runs]) for target in (0.95, 0.98)))
        cpu = 1000 * statistics.fmean(seconds for _, seconds in rows) / TRIALS
        print(f"{name:14s}" + "".join(f"{cell:>30s}" for cell in cells) + f"   {cpu:.1f}", flush=True)


def regrets(names: Sequence[str], chosen: Sequence[Surface], seeds: Seeds, jobs: int, way: Callable) -> None:
    from joblib import delayed

    print(f"\nTrue regret of the recommendation after {BUDGETS} measurements, all counted, in %; last: mean (% within 3 %)")
    print(f"{'':14s}" + "".join(f"{s.name:>18s}" for s in chosen))
    for name in names:
        count = seeds(name)
        rows = parallel(jobs, (delayed(way)(name, s, seed, n) for n in BUDGETS for s in chosen for seed in range(count)))
        by_budget = [rows[i * len(chosen) * count :][: len(chosen) * count] for i in range(len(BUDGETS))]
        cells = [
            "/".join(f"{100 * statistics.fmean(r for r, _ in part[i * count : (i + 1) * count]):.1f}" for part in by_budget)
            for i in range(len(chosen))
        ]
        whole = "   ".join(
            f"{100 * statistics.fmean(r for r, _ in part):.2f} ({100 * statistics.fmean(r <= 0.03 for r, _ in part):.0f})"
            for part in by_budget
        )
        print(f"{name:14s}" + "".join(f"{cell:>18s}" for cell in cells) + "   " + whole, flush=True)


def savings(chosen: Sequence[Surface], seeds: int, jobs: int) -> None:
    from joblib import delayed

    print(f"\nStop rule: measurements used of {LONG} (median), regret with and without it in % (ours, no priors)")
    for surface in chosen:
        stopped = parallel(jobs, (delayed(answer)("ours", surface, seed, LONG, True) for seed in range(seeds)))
        full = parallel(jobs, (delayed(answer)("ours", surface, seed, LONG) for seed in range(seeds)))
        used = [quantile([n for _, n in runs], 0.5) for runs in (stopped, full)]
        lost = [100 * statistics.fmean(regret for regret, _ in runs) for runs in (stopped, full)]
        print(
            f"{surface.name:12s} {used[0]:3.0f} instead of {used[1]:3.0f}   regret {lost[0]:5.2f} instead of {lost[1]:5.2f}",
            flush=True,
        )


def main() -> None:
    known = surfaces()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--gp-seeds", type=int, default=6, help="Optuna's GP takes up to a second a proposal")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--strategies", nargs="+", default=list(NAMES), metavar="NAME", help=" ".join(NAMES) + " ours+packaged"
    )
    parser.add_argument("--surfaces", nargs="+", default=list(known), choices=list(known), metavar="NAME")
    parser.add_argument("--skip", nargs="*", default=[], choices=["evaluations", "regret", "stop"])
    parser.add_argument("--remeasure", action="store_true", help="finalists measured again instead of raced")
    options = parser.parse_args()
    chosen = [known[name] for name in options.surfaces]

    def seeds(name: str) -> int:
        return options.gp_seeds if name.startswith("gp") else options.seeds

    print(f"{options.seeds} seeds ({options.gp_seeds} for gp); held back while tuning: {', '.join(HELD_BACK)}\n")
    if "evaluations" not in options.skip:
        evaluations(options.strategies, chosen, seeds, options.jobs)
    if "regret" not in options.skip:
        regrets(options.strategies, chosen, seeds, options.jobs, remeasured if options.remeasure else answer)
    if "stop" not in options.skip:
        savings(chosen, options.seeds, options.jobs)


if __name__ == "__main__":
    main()
