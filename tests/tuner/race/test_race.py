"""The race: what it must never do, what it must find, and its error rates on surfaces where the truth is known."""

from __future__ import annotations

import importlib.util
import math
import random
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spaces.space import Key
from tuner.race.race import Race, RaceRules, minimum_rounds, plan, rounds_needed
from tuner.race.rules import RaceResult

BASE: Key = ("base",)
A, B, C, D = [(name,) for name in "abcd"]
RULES = RaceRules()


def _bench() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "bench_race.py"
    spec = importlib.util.spec_from_file_location("bench_race", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


bench = _bench()


def race_of(*contenders: Key, rules: RaceRules = RULES, cost: Mapping[Key, float] | None = None) -> Race:
    return Race(contenders, BASE, cost or {key: float(i) for i, key in enumerate(contenders)}, rules)


def run(race: Race, truth: Mapping[Key, float | None], noise: float = 0.0, seed: int = 0, rounds: int = 1000) -> RaceResult:
    """Races performances (1.1: 10 % more than 1); None always fails."""
    rng = random.Random(seed)
    for _ in range(rounds):
        order = race.next_round(rng)
        if not order:
            break
        scores = {key: value if value is None else math.log(value) + rng.gauss(0, noise) for key, value in truth.items()}
        race.record({key: scores[key] for key in order})
    return race.result()


# -- the frame ---------------------------------------------------------------------------------------------------------


def test_every_round_has_the_baseline_and_each_contender_once_in_changing_order() -> None:
    race, rng = race_of(A, B, C), random.Random(1)
    orders = [race.next_round(rng) for _ in range(20)]
    assert all(sorted(order) == sorted([BASE, A, B, C]) for order in orders)
    assert len({tuple(order) for order in orders}) > 5


def test_baseline_among_the_contenders_is_no_contender() -> None:
    race = race_of(A, BASE, A, cost={A: 1.0, BASE: 0.0})
    assert sorted(race.next_round(random.Random(0))) == sorted([A, BASE])
    assert run(race, {A: 1.2, BASE: 1.0}, 0.01).winner == A


@pytest.mark.parametrize("contenders", [(), (BASE,)])
def test_nothing_to_race_keeps_the_baseline(contenders: tuple[Key, ...]) -> None:
    race = Race(contenders, BASE, {BASE: 1.0}, RULES)
    assert race.next_round(random.Random(0)) == []
    result = race.result()
    assert (result.winner, result.adopt, result.decided, result.gain) == (BASE, False, True, None)


def test_result_before_any_round_is_honest() -> None:
    result = race_of(A).result()
    assert (result.winner, result.adopt, result.decided, result.rounds) == (BASE, False, False, 0)
    assert "not enough rounds" in result.reason


def test_stopped_early_nothing_is_adopted_and_the_interval_is_infinite() -> None:
    race = race_of(A, B)
    result = run(race, {A: 2.0, B: 1.9, BASE: 1.0}, 0.02, rounds=race.minimum_rounds - 1)
    assert not result.adopt
    assert not result.decided
    assert result.winner == BASE
    assert result.leader == A
    assert result.gain is not None
    assert (result.gain.low, result.gain.high) == (0.0, math.inf)
    assert result.gain.ratio == pytest.approx(2.0, rel=0.1)
    assert f"not enough rounds to prove it: {race.minimum_rounds - 1} of at least {race.minimum_rounds}" == result.reason


def test_one_round_more_proves_it() -> None:
    race = race_of(A, B)
    result = run(race, {A: 2.0, B: 1.0, BASE: 1.0}, 0.02)
    assert (result.winner, result.adopt, result.decided, result.rounds) == (A, True, True, race.minimum_rounds)
    assert result.gain is not None
    assert 1.8 < result.gain.low < 2.0 < result.gain.high < 2.2
    assert result.gain.confidence == 0.9
    assert race.next_round(random.Random(0)) == []


def test_unknown_settings_are_a_bug() -> None:
    with pytest.raises(ValueError, match="not in this race"):
        race_of(A).record({B: 1.0})


@pytest.mark.parametrize(
    "wrong",
    [{"confidence": 1.0}, {"confidence": 0.1}, {"min_rounds": 0}, {"max_rounds": 2}, {"max_rounds": 201}, {"margin": -0.1}],
)
def test_rules_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"must|are"):
        RaceRules(**wrong)  # type: ignore[arg-type]


# -- what it answers ---------------------------------------------------------------------------------------------------

TIES = (3.189, 3.188, 3.187, 3.187, 3.186, 3.186, 3.185, 3.185, 3.184, 3.183)


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.03])
def test_ten_ties_are_equal_and_the_cheapest_is_recommended(noise: float) -> None:
    contenders = [(f"t{i}",) for i in range(10)]
    truth = {BASE: 2.4, **dict(zip(contenders, TIES, strict=True))}
    cost = {key: float((7 * i + 3) % 10) for i, key in enumerate(contenders)}  # t1 is the cheapest
    for seed in range(5):
        result = run(Race(contenders, BASE, cost, RULES), truth, noise, seed)
        assert result.adopt
        assert result.gain is not None
        assert result.gain.low <= 3.18 / 2.4 <= result.gain.high or noise == 0
        assert 1 + len(result.equals) >= (10 if noise == 0 else 8)
        if noise < 0.03:
            assert result.winner == contenders[1]
            assert result.reason.endswith("the cheapest of 10 settings that can't be told apart")
        else:
            assert cost[result.winner] <= 2


def test_ties_with_the_baseline_keep_it() -> None:
    contenders = [(f"t{i}",) for i in range(10)]
    truth = {BASE: 3.183, **dict(zip(contenders, TIES, strict=True))}
    cost = {key: float(i) for i, key in enumerate(contenders)}
    for noise in (0.0, 0.01):
        result = run(Race(contenders, BASE, cost, RULES), truth, noise)
        assert (result.adopt, result.winner, result.decided) == (False, BASE, True)
        assert result.rounds < RULES.max_rounds
        assert result.reason == "no setting can be proven better than the baseline by 2% or more"


def test_a_cheaper_equal_wins_only_when_it_is_proven_itself() -> None:
    race = race_of(A, B, cost={A: 1.0, B: 9.0}, rules=RaceRules(min_rounds=12, max_rounds=12))
    rng = random.Random(4)
    for i in range(12):
        # A's centre is at B's, but its readings scatter so much that it can't be proven better than the baseline.
        race.next_round(rng)
        race.record({BASE: 0.0, A: 0.1 + (0.4 if i % 2 else -0.4), B: 0.1 + 0.001 * i})
    result = race.result()
    assert (result.adopt, result.winner) == (True, B)
    assert A in result.equals
    assert "one of 2 settings that can't be told apart" in result.reason


def test_a_clearly_worse_contender_is_let_go_early() -> None:
    race = race_of(A, B)
    result = run(race, {A: 1.5, B: 1.2, BASE: 1.0}, 0.02)
    assert result.winner == A
    assert result.dropped == {B: "worse than the best"}
    assert result.equals == ()


def test_a_proven_gain_too_small_to_matter_is_not_adopted() -> None:
    result = run(race_of(A, rules=RaceRules(min_rounds=20)), {A: 1.01, BASE: 1.0}, 0.0001)
    assert not result.adopt
    assert result.gain is not None
    assert result.gain.low > 1
    result = run(race_of(A), {A: 1.01, BASE: 1.0}, 0.0001)
    assert not result.adopt
    assert result.rounds == RULES.min_rounds
    assert result.dropped == {A: "no gain over the baseline worth having"}


def test_drift_larger_than_the_gain_cancels() -> None:
    race, rng, level = race_of(A), random.Random(2), 0.0
    while order := race.next_round(rng):
        level += rng.gauss(0, 0.3)
        race.record({key: level + (0.1 if key == A else 0.0) + rng.gauss(0, 0.02) for key in order})
    result = race.result()
    assert result.adopt
    assert result.gain is not None
    assert result.gain.ratio == pytest.approx(1.105, rel=0.03)


@pytest.mark.parametrize("outlier", [-0.9, 0.9])
def test_one_outlier_decides_nothing(outlier: float) -> None:
    race, rng = race_of(A, B, cost={A: 1.0, B: 2.0}), random.Random(6)
    for number in range(RULES.max_rounds):
        order = race.next_round(rng)
        if not order:
            break
        truth = {BASE: 0.0, A: 0.2, B: 0.0 if number != 1 else outlier}
        race.record({key: truth[key] + rng.gauss(0, 0.02) for key in order})
    assert race.result().winner == A
    assert B not in race.result().equals


# -- failures ----------------------------------------------------------------------------------------------------------


def test_two_failures_drop_a_contender_one_does_not() -> None:
    race = race_of(A, B)
    race.record({BASE: 0.0, A: None, B: 0.2})
    assert A in race.next_round(random.Random(0))
    race.record({BASE: 0.0, A: math.nan, B: 0.2})
    assert A not in race.next_round(random.Random(0))
    result = run(race, {BASE: 1.0, B: 1.2}, 0.01)
    assert result.winner == B
    assert result.dropped[A] == "failed in 2 rounds"
    assert A not in result.equals


def test_all_contenders_failing_keeps_the_baseline() -> None:
    result = run(race_of(A, B), {BASE: 1.0, A: None, B: None})
    assert (result.adopt, result.winner, result.decided, result.rounds) == (False, BASE, True, 2)
    assert result.reason == "every other setting failed when it was measured again"


def test_a_baseline_that_never_works_leaves_the_best_of_the_others_without_a_gain() -> None:
    result = run(race_of(A, B), {BASE: None, A: 1.0, B: 1.3}, 0.02)
    assert (result.adopt, result.winner, result.gain, result.decided) == (True, B, None, True)
    assert "baseline could not be measured" in result.reason
    alone = run(race_of(A), {BASE: None, A: 1.0}, 0.02)
    assert (alone.adopt, alone.winner, alone.gain) == (True, A, None)


def test_nothing_at_all_works() -> None:
    result = run(race_of(A, B), {BASE: None, A: None, B: None})
    assert (result.adopt, result.winner, result.gain, result.decided) == (False, BASE, None, True)


def test_a_baseline_that_fails_now_and_then_only_costs_rounds() -> None:
    race, rng = race_of(A), random.Random(3)
    for number in range(RULES.max_rounds):
        if not (order := race.next_round(rng)):
            break
        race.record({key: None if key == BASE and number % 2 else (0.3 if key == A else 0.0) for key in order})
    result = race.result()
    assert result.adopt
    assert result.rounds == 2 * minimum_rounds(1, RULES) - 1


def test_what_rested_for_a_cheaper_equal_runs_again_when_that_fails() -> None:
    race = race_of(A, B, cost={A: 1.0, B: 2.0, BASE: 0.0})
    rng = random.Random(5)
    for _ in range(4):
        race.record({key: (0.2 if key != BASE else 0.0) + rng.gauss(0, 0.003) for key in race.next_round(rng)})
    rested = [key for key in (A, B) if key not in race.next_round(rng)]
    if not rested:
        pytest.fail("two equals at hardly any noise both still run")
    assert race.result().dropped == {B: "no better than a cheaper one"}
    race.record({BASE: 0.0, A: None})
    race.record({BASE: 0.0, A: None})
    assert B in race.next_round(rng)
    assert run(race, {BASE: 1.0, B: 1.2}, 0.003).winner == B


# -- resume ------------------------------------------------------------------------------------------------------------

score = st.none() | st.floats(-1, 1)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(score, min_size=4, max_size=4), max_size=25), st.integers(0, 1000))
def test_replayed_rounds_give_the_same_race_and_always_a_sound_answer(values: list[list[float | None]], seed: int) -> None:
    first, second = race_of(A, B, C), race_of(A, B, C)
    for row in values:
        one, two = first.next_round(random.Random(seed)), second.next_round(random.Random(seed + 1))
        assert set(one) == set(two)
        if not one:
            break
        scores = dict(zip((BASE, A, B, C), row, strict=True))
        record = {key: scores[key] for key in one}
        first.record(record)
        second.record(dict(reversed(record.items())))
        result = first.result()
        assert result == second.result()
        assert result.adopt == (result.winner != BASE)
        assert result.winner not in result.equals
        assert not set(result.equals) & {key for key, why in result.dropped.items() if why != "no better than a cheaper one"}
        assert not set(one) & set(result.dropped) or result.rounds == first.rounds
        if result.adopt and result.gain is not None:
            assert first.rounds >= first.minimum_rounds
            assert result.gain.low > 1


# -- planning ----------------------------------------------------------------------------------------------------------


def test_least_rounds_grow_with_the_contenders_and_shrink_with_the_plan() -> None:
    least = [minimum_rounds(k, RULES) for k in (1, 2, 4, 8)]
    assert least == sorted(least)
    assert 5 <= least[0] <= 7
    assert least[-1] <= 10
    assert minimum_rounds(1, RaceRules(max_rounds=5)) == 5
    assert minimum_rounds(1, RaceRules(max_rounds=4)) == 5  # can't be


def test_rounds_needed_follow_noise_and_gain() -> None:
    ten, twenty = rounds_needed(1, 0.05, 0.1, RULES), rounds_needed(1, 0.05, 0.2, RULES)
    assert ten is not None
    assert twenty is not None
    assert minimum_rounds(1, RULES) <= twenty <= ten <= 12
    assert rounds_needed(4, 0.15, 0.05, RULES) is None


@pytest.mark.parametrize("measurements", range(0, 120, 7))
def test_a_plan_can_prove_a_plain_gain_within_its_measurements(measurements: int) -> None:
    planned = plan(measurements, RULES)
    if planned is None:
        assert measurements < 10
        return
    count, rules = planned
    contenders = [(f"c{i}",) for i in range(count)]
    truth = {BASE: 1.0, **{key: 2.0 * 0.85**i for i, key in enumerate(contenders)}}
    race, used, rng = Race(contenders, BASE, dict.fromkeys(truth, 1.0), rules), 0, random.Random(measurements)
    while order := race.next_round(rng):
        used += len(order)
        race.record({key: math.log(truth[key]) + rng.gauss(0, 0.02) for key in order})
    assert race.result().adopt
    assert used <= measurements


# -- error rates, seeds fixed ------------------------------------------------------------------------------------------


def rates(gains: Sequence[float], source: object, runs: int, rules: RaceRules = RULES) -> tuple[float, float, float]:
    """Share adopted, share whose interval covers the truth, mean rounds."""
    races = [bench.race(gains, source, seed, rules) for seed in range(runs)]
    adopted = bench.share([r.result.adopt for r in races])
    return adopted, bench.share([r.covered for r in races]), sum(r.result.rounds for r in races) / runs


@pytest.mark.parametrize("sigma", [0.02, 0.05, 0.15])
@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_no_better_setting_is_seldom_adopted_whatever_noise_and_drift(count: int, sigma: float) -> None:
    found = [rates([0.0] * count, bench.simulated(sigma, drift), 200) for drift in bench.DRIFTS]
    # At most 5 % are promised; 600 races leave 1.8 % (two deviations) to chance.
    assert sum(adopted for adopted, _, _ in found) / 3 <= 0.068
    assert sum(covered for _, covered, _ in found) / 3 >= 0.9
    assert all(rounds < 12 for _, _, rounds in found), "futile races must end early"


@pytest.mark.parametrize("direction", ["read", "write"])
@pytest.mark.parametrize("count", [1, 5])
def test_no_better_setting_is_seldom_adopted_on_a_real_disk(direction: str, count: int) -> None:
    adopted, covered, _ = rates([0.0] * count, bench.recorded(direction), 500)
    assert adopted <= 0.07
    assert covered >= 0.9


def test_restless_contenders_are_no_winners() -> None:
    adopted = 0
    for seed in range(400):
        rng = random.Random(seed)
        race = race_of(A, B, C, D)
        while order := race.next_round(rng):
            race.record({key: rng.gauss(0, 0.02 if key == BASE else 0.3) for key in order})
        adopted += race.result().adopt
    assert adopted / 400 <= 0.07


@pytest.mark.parametrize(
    ("gains", "sigma", "least", "rounds"),
    [
        ([0.1], 0.05, 0.9, 9),
        ([0.1, 0.075, 0.05, 0.025], 0.05, 0.85, 13),
        ([0.2], 0.05, 0.95, 7.5),
        ([0.2, 0.0, 0.0, 0.0], 0.05, 0.95, 10),
        ([0.05], 0.03, 0.85, 10),
        ([1.0] * 4, 0.1, 0.99, 11),
    ],
)
def test_true_gains_are_found_and_covered(gains: list[float], sigma: float, least: float, rounds: float) -> None:
    adopted, covered, mean_rounds = rates(gains, bench.simulated(sigma, "walk"), 200, RaceRules(precision=1e9))
    assert adopted >= least
    assert covered >= 0.93
    assert mean_rounds <= rounds


def test_an_end_by_the_budget_does_not_spoil_the_error_rate() -> None:
    races = [bench.race([0.0] * 4, bench.simulated(0.05, "none"), seed, RULES, stop_after=9 + seed % 4) for seed in range(400)]
    assert bench.share([r.result.adopt for r in races]) <= 0.07
    assert bench.share([r.covered for r in races]) >= 0.9


@pytest.mark.parametrize(("gain", "sigma"), [(0.1, 0.05), (0.3, 0.08), (1.0, 0.1)])
def test_a_proven_gain_is_sharpened_while_rounds_are_left(gain: float, sigma: float) -> None:
    def widths(precision: float) -> tuple[float, float]:
        races = [
            bench.race([gain], bench.simulated(sigma, "none"), seed, RaceRules(precision=precision)) for seed in range(100)
        ]
        found = [r.result.gain for r in races if r.result.adopt]
        assert len(found) > 80
        assert bench.share([r.covered for r in races]) >= 0.9
        return statistics.median(g.high / g.low for g in found if g is not None), bench.share([r.result.adopt for r in races])

    blunt, adopted_blunt = widths(1e9)
    sharp, adopted_sharp = widths(0.15)
    assert sharp < blunt
    assert sharp < max(1.25, (1 + gain) ** 0.55)
    assert adopted_sharp >= adopted_blunt, "what is proven stays proven"


def test_a_thinned_race_keeps_its_best_and_proves_it() -> None:
    race = race_of(A, B, C)
    race.thin(1)
    assert race.contenders == 3, "nothing is known yet that would say which is best"
    truth: Mapping[Key, float | None] = {BASE: 1.0, A: 1.2, B: 1.3, C: 1.25}
    run(race, truth, 0.02, rounds=2)
    race.thin(1)
    assert set(race.next_round(random.Random(0))) == {BASE, B}
    result = run(race, truth, 0.02)
    assert (result.winner, result.adopt) == (B, True)
    assert result.dropped[A] == result.dropped[C] == "no time was left to race so many"


def test_thinning_adopts_nothing_falsely() -> None:
    adopted = 0
    for seed in range(60):
        race = race_of(A, B, C, D)
        truth: Mapping[Key, float | None] = dict.fromkeys((BASE, A, B, C, D), 1.0)
        run(race, truth, 0.05, seed, rounds=2)
        race.thin(1)
        adopted += run(race, truth, 0.05, seed + 1000).adopt
    assert adopted <= 6  # 1 in 20 at most is promised
