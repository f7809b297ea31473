"""What paired measurements say, as a comparison and in words: better, worse, equal, or not to be told."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from runners.runner import Measurement
from spaces.space import Config, Value
from tuner.recommendation import Gain
from tuner.stats import fixed_interval, hodges_lehmann, middle, moderated_noise, pooled_noise
from tuner.trial import History

Verdict = Literal["better", "worse", "equal", "unclear"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A setting against another over ``rounds`` rounds that measured both; ``gain`` is None when there was no such round.

    better, worse: the interval leaves 1 out and the difference is more than the margin of equality. equal: the interval lies
    within the margin. unclear: neither.
    """

    verdict: Verdict
    gain: Gain | None
    rounds: int
    sentence: str

    @property
    def clause(self) -> str:
        """The sentence with its verb, to follow a subject."""
        return self.sentence if self.sentence.startswith("can't") else f"is {self.sentence}"


def compare(pairs: Iterable[tuple[float | None, float | None]], confidence: float = 0.9, margin: float = 0.03) -> Comparison:
    """Compares by the scores (log performance) of interleaved rounds, (setting, other); None is a failed measurement.

    For a number of rounds that was fixed beforehand: a race that stops when it likes needs Race's wider intervals.
    """
    differences = [a - b for a, b in pairs if a is not None and b is not None and math.isfinite(a) and math.isfinite(b)]
    if not differences:
        return Comparison("unclear", None, 0, "can't be compared: no round measured both")
    low, high = fixed_interval(differences, confidence)
    gain = Gain(
        math.exp(hodges_lehmann(differences)), math.exp(low), math.exp(high) if high < math.inf else math.inf, confidence
    )
    verdict = _verdict(gain, margin)
    return Comparison(verdict, gain, len(differences), sentence(gain, verdict, margin))


def _verdict(gain: Gain, margin: float) -> Verdict:
    if 1 - margin <= gain.low and gain.high <= 1 + margin:
        return "equal"
    if gain.low > 1:
        return "better"
    return "worse" if gain.high < 1 else "unclear"


def sentence(gain: Gain, verdict: Verdict, margin: float = 0.03) -> str:
    """ "12 % faster (90 % interval 8 to 17 %)", "equal within 3 %", "can't be told apart with these rounds (…)"."""
    if verdict == "equal":
        return f"equal within {margin * 100:.2g} %"
    if verdict == "unclear":
        if not interval_known(gain):
            return f"can't be told apart with these rounds ({faster(gain.ratio)}, too few rounds for an interval)"
        return f"can't be told apart with these rounds ({interval(gain)})"
    return f"{faster(gain.ratio)} ({interval(gain)})"


def interval_known(gain: Gain) -> bool:
    return gain.low > 0 and math.isfinite(gain.high)


def percent(ratio: float) -> str:
    """The size of a change without its direction: 1.12 -> "12 %", 0.95 -> "5 %", 1.004 -> "0.4 %"."""
    change = abs(ratio - 1) * 100
    return f"{change:.0f} %" if change >= 9.5 else f"{change:.1f} %".replace(".0 %", " %")


def faster(ratio: float) -> str:
    """A ratio of performances in words: 1.12 -> "12 % faster", 0.95 -> "5 % slower", 2.4 -> "2.4 times as fast"."""
    if ratio >= 1.995:
        return f"{ratio:.1f} times as fast" if ratio < 9.95 else f"{ratio:.0f} times as fast"
    if percent(ratio) == "0 %":
        return "just as fast"
    return f"{percent(ratio)} {'faster' if ratio > 1 else 'slower'}"


def interval(gain: Gain) -> str:
    """The interval of a gain in words: "90 % interval 8 to 17 %", "… 3 % slower to 2 % faster", "… 1.8 to 2.3 times"."""
    name = f"{gain.confidence * 100:.3g} % interval"
    if not interval_known(gain):
        return f"too few rounds for a {name}"
    low, high = faster(gain.low), faster(gain.high)
    if low == high:
        return f"{name} {low}"
    if gain.low >= 1.995:
        return f"{name} {low.split()[0]} to {high.split()[0]} times"
    for word in (" % faster", " % slower"):
        if low.endswith(word) and high.endswith(word):
            near, far = sorted((low.removesuffix(word), high.removesuffix(word)), key=float)
            return f"{name} {near} to {far} %"
    return f"{name} {low} to {high}"


def per_metric(history: History, metric: str, maximise: bool = True) -> tuple[Config, float] | None:
    """The setting that is best at ``metric`` alone and what it is believed to reach; None when nothing was measured.

    Belief, not the record: a setting's median is drawn towards the middle of all settings by as much as its few readings are
    likely to be luck. Warm-ups are left out.
    """
    readings: dict[tuple[tuple[str, Value], ...], list[float]] = {}
    for trial in history:
        if trial.phase == "warmup" or not isinstance(trial.outcome, Measurement):
            continue
        value = trial.outcome.metrics.get(metric, math.nan)
        if math.isfinite(value) and value > 0:
            readings.setdefault(tuple(sorted(trial.config.items())), []).append(math.log(value))
    if not readings:
        return None
    beliefs = _beliefs(list(readings.values()))
    sign = 1 if maximise else -1
    belief, config = max(zip(beliefs, readings, strict=True), key=lambda pair: sign * pair[0])
    return dict(config), math.exp(belief)


def _beliefs(groups: Sequence[Sequence[float]]) -> list[float]:
    """Centres of ``groups``, each drawn to the middle of all by the share of its variance that noise explains."""
    centres = [hodges_lehmann(group) for group in groups]
    noise = pooled_noise(groups)
    spread = statistics.pstdev(centres)
    if math.isnan(noise) or noise == 0:
        return centres
    centre = middle(sorted(centres))
    # The centres' own spread holds their noise too; what is left is how much settings truly differ.
    true = max(spread**2 - noise**2 * statistics.fmean(1 / len(group) for group in groups), 0.1 * spread**2)
    beliefs = []
    for group, own in zip(groups, centres, strict=True):
        error = moderated_noise(group, noise) ** 2 / len(group)
        beliefs.append(centre + (own - centre) * true / (true + error))
    return beliefs
