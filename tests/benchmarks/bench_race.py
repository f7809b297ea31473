"""How honest and how keen the race is: `python tests/benchmarks/bench_race.py [RUNS]` prints its rates beside two simple ways.

Simulated: log-normal noise with 3 % of readings slowed to 0.4-0.85 and 1 % sped up to 1.08-1.25, drifting from reading to
reading. Recorded: blocks of a real disk's readings, drawn anew.
"""

from __future__ import annotations

import json
import math
import random
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.race.race import Race, RaceResult, RaceRules

NOISE_FOLDER = Path(__file__).resolve().parents[1] / "data" / "noise"
BASELINE = ("baseline",)
DRIFTS = ("none", "walk", "steps")
# One reading after the other, what to add to the log of a setting's true performance.
Source = Callable[[random.Random], Iterator[float]]


def simulated(sigma: float, drift: str) -> Source:
    """Noise of standard deviation ``sigma``; "walk" moves by a quarter of it a reading, "steps" by 15 % now and then."""

    def readings(rng: random.Random) -> Iterator[float]:
        level = 0.0
        while True:
            if drift == "walk":
                level += rng.gauss(0, sigma / 4)
            elif drift == "steps" and rng.random() < 0.05:
                level = rng.gauss(0, 0.15)
            u = rng.random()
            odd = math.log(rng.uniform(0.4, 0.85)) if u < 0.03 else math.log(rng.uniform(1.08, 1.25)) if u > 0.99 else 0.0
            yield level + rng.gauss(0, sigma) + odd

    return readings


def recorded(direction: str, block: int = 20) -> Source:
    """Blocks of ``block`` consecutive readings of the recorded disk, in random order: its spread, outliers and short drift."""
    values = json.loads((NOISE_FOLDER / "virtio_ext4.json").read_text(encoding="utf-8"))[direction]
    logs = [math.log(value) for value in values]

    def readings(rng: random.Random) -> Iterator[float]:
        while True:
            start = rng.randrange(len(logs) - block)
            yield from logs[start : start + block]

    return readings


@dataclass(frozen=True, slots=True)
class Run:
    result: RaceResult
    truth: dict[tuple[str, ...], float]
    measurements: int

    @property
    def covered(self) -> bool:
        gain = self.result.gain
        return gain is None or math.log(gain.low or 1e-300) <= self.truth[self.result.leader] <= math.log(gain.high)

    @property
    def regret(self) -> float:
        return max(self.truth.values()) - self.truth[self.result.winner]


def race(gains: Sequence[float], source: Source, seed: int, rules: RaceRules, stop_after: int | None = None) -> Run:
    """One race of contenders with true ``gains`` (0.1: 10 %) over the baseline; costs are random."""
    rng = random.Random(seed)
    contenders = [(f"c{i}",) for i in range(len(gains))]
    truth = {BASELINE: 0.0, **{key: math.log1p(gain) for key, gain in zip(contenders, gains, strict=True)}}
    readings = source(rng)
    contest = Race(contenders, BASELINE, {key: rng.random() for key in truth}, rules)
    count = 0
    while order := contest.next_round(rng):
        if contest.rounds == stop_after:
            break
        contest.record({key: truth[key] + next(readings) for key in order})
        count += len(order)
    return Run(contest.result(), truth, count)


def simple(gains: Sequence[float], source: Source, seed: int, repeats: int, least: float = 0.02) -> tuple[bool, float]:
    """The usual way: each setting ``repeats`` times in a row, the highest mean is taken when over the baseline by ``least``.

    Gives whether something was adopted and by what ratio the claimed gain overstates the true one.
    """
    rng = random.Random(seed)
    truth = [0.0, *(math.log1p(gain) for gain in gains)]
    readings = source(rng)
    means = [statistics.fmean(math.exp(true + next(readings)) for _ in range(repeats)) for true in truth]
    best = max(range(1, len(means)), key=means.__getitem__)
    claimed = means[best] / means[0]
    return claimed >= 1 + least, claimed / math.exp(truth[best])


def share(flags: Sequence[bool]) -> float:
    return sum(flags) / len(flags)


def row(label: str, gains: Sequence[float], source: Source, runs: int, rules: RaceRules) -> str:
    races = [race(gains, source, seed, rules) for seed in range(runs)]
    adopted = [run for run in races if run.result.adopt]
    claims = [run.result.gain.ratio / math.exp(run.truth[run.result.leader]) for run in adopted if run.result.gain]
    cells = [
        f"{label:36}",
        f"{share([run.result.adopt for run in races]):7.1%}",
        f"{share([run.covered for run in races]):7.1%}",
        f"{statistics.fmean(run.result.rounds for run in races):6.1f}",
        f"{statistics.fmean(run.measurements for run in races):6.1f}",
        f"{statistics.fmean(run.regret for run in races):7.2%}",
        f"{statistics.median(claims or [math.nan]) - 1:+7.1%}",
    ]
    for repeats in (1, 3):
        ways = [simple(gains, source, seed, repeats) for seed in range(runs)]
        overstated = statistics.median([over for hit, over in ways if hit] or [math.nan]) - 1
        cells.append(f"| {share([hit for hit, _ in ways]):7.1%} {overstated:+7.1%}")
    return " ".join(cells)


HEAD = (
    f"{'':36} {'adopted':>7} {'covers':>7} {'rounds':>6} {'meas.':>6} {'regret':>7} {'claim':>7}"
    f" | {'single':>7} {'claim':>7} | {'mean 3':>7} {'claim':>7}"
)


def spread(gain: float, contenders: int) -> list[float]:
    """The best has ``gain``, the others evenly less, down to nothing: what finalists of a search look like."""
    return [gain * (contenders - i) / contenders for i in range(contenders)]


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    rules = RaceRules()
    print(f"{runs} races a line, at most {rules.max_rounds} rounds. covers: the 90 % interval holds the true gain. claim: the")
    print("claimed over the true gain, median of the adopted. single, mean 3: the highest of single readings, of means of 3.")
    print(f"\nNo setting is better than the baseline: every adoption is false\n{HEAD}")
    for sigma in (0.02, 0.05, 0.15):
        for count in (1, 2, 4, 8):
            for drift in DRIFTS:
                source = simulated(sigma, drift)
                print(row(f"noise {sigma:.0%}, {count} contenders, drift {drift}", [0.0] * count, source, runs, rules))
    for direction in ("read", "write"):
        for count in (1, 4, 8):
            print(row(f"recorded {direction}s, {count} contenders", [0.0] * count, recorded(direction), runs, rules))
    print(f"\nTrue gains; one: the others are no better than the baseline, spread: evenly less, equal: all alike\n{HEAD}")
    for gain, sigma in ((0.05, 0.03), (0.05, 0.05), (0.1, 0.05), (0.2, 0.05), (0.2, 0.1), (0.5, 0.15), (1.0, 0.1)):
        for count in (1, 4, 8):
            fields = {"one": [gain] + [0.0] * (count - 1), "spread": spread(gain, count), "equal": [gain] * count}
            for kind, gains in fields.items() if count > 1 else [("one", [gain])]:
                print(row(f"{gain:.0%} at noise {sigma:.0%}, {count} {kind}", gains, simulated(sigma, "walk"), runs, rules))
    for direction in ("read", "write"):
        for gain in (0.1, 0.2):
            print(row(f"{gain:.0%}, recorded {direction}s, 4 spread", spread(gain, 4), recorded(direction), runs, rules))


if __name__ == "__main__":
    main()
