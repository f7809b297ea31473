from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from runners.runner import Failure, FailureKind, Measurement, Objective, Outcome
from spaces.space import Config, Domain, Knob, Rule, Space, choice, flag, integers, log2
from tuner.search.strategy import Strategy, default_strategy
from tuner.trial import Trial

OBJECTIVE = Objective("value", "")


def knob(name: str, domain: Domain) -> Knob:
    return Knob(name, domain, domain.values[0], "", "test")


SPACE = Space((knob("a", log2(1, 64)), knob("b", integers(0, 5)), knob("c", choice("x", "y", "z")), knob("d", flag())))


def measured(value: float) -> Measurement:
    return Measurement({"value": value}, (value,), 1.0)


def hill(config: Config) -> Outcome:
    score = -((math.log2(int(config["a"])) - 4) ** 2) / 10 - (int(config["b"]) - 3) ** 2 / 8 + 0.3 * (config["c"] == "y")
    return measured(math.exp(score - 0.2 * bool(config["d"])))


def searched(
    space: Space, measure: Callable[[Config], Outcome], count: int, strategy: Strategy | None = None, seed: int = 0
) -> list[Trial]:
    strategy = strategy or default_strategy(OBJECTIVE)
    rng = random.Random(seed)
    history = [Trial(space.default, measure(space.default), "baseline")]
    for _ in range(count):
        config = strategy.propose(space, history, rng)
        if config is None:
            break
        history.append(Trial(config, measure(config), "search"))
    return history


def keys(space: Space, history: list[Trial]) -> list[object]:
    return [space.key(trial.config) for trial in history]


def test_it_climbs_a_hill_in_a_tenth_of_the_space() -> None:
    assert SPACE.size == 252
    history = searched(SPACE, hill, 25)
    best = max(history, key=lambda t: t.outcome.metrics["value"]).config  # type: ignore[union-attr]
    assert best == {"a": 16, "b": 3, "c": "y", "d": False}


def test_a_time_is_minimised() -> None:
    def slow(config: Config) -> Outcome:
        return measured(1 / hill(config).metrics["value"])  # type: ignore[union-attr]

    strategy = default_strategy(Objective("value", "s", maximise=False))
    history = searched(SPACE, slow, 25, strategy)
    best = min(history, key=lambda t: t.outcome.metrics["value"]).config  # type: ignore[union-attr]
    assert best == {"a": 16, "b": 3, "c": "y", "d": False}


@pytest.mark.parametrize("length", [1, 4, 8, 9, 30])
def test_the_same_history_and_seed_give_the_same_proposal(length: int) -> None:
    history = searched(SPACE, hill, length)
    used = default_strategy(OBJECTIVE)
    used.propose(SPACE, history[:5], random.Random(9))
    proposals = [s.propose(SPACE, history, random.Random(5)) for s in (used, used, default_strategy(OBJECTIVE))]
    assert proposals[0] == proposals[1] == proposals[2]


def test_priors_come_first_in_order_and_unfit_ones_are_passed_over() -> None:
    good: list[Config] = [{"a": 8, "b": 1, "c": "z", "d": True}, {"a": 2, "b": 2, "c": "x", "d": False}]
    unfit: list[Config] = [{"a": 3, "b": 1, "c": "z", "d": True}, {"a": 8}, SPACE.default]
    start: Config = {"a": 4, "b": 0, "c": "x", "d": False}
    strategy = default_strategy(OBJECTIVE, priors=[unfit[0], good[0], unfit[1], unfit[2], good[1], good[0]], start=[start])
    history = searched(SPACE, hill, 4, strategy)
    assert [t.config for t in history[1:4]] == [start, *good]
    assert len(set(keys(SPACE, history))) == 5


def test_extra_keys_of_a_prior_are_dropped() -> None:
    strategy = default_strategy(OBJECTIVE, priors=[{"a": 8, "b": 1, "c": "z", "d": True, "gone": 1}])
    assert searched(SPACE, hill, 1, strategy)[1].config == {"a": 8, "b": 1, "c": "z", "d": True}


def test_a_space_of_one_setting() -> None:
    space = Space((knob("a", log2(4, 4)),))
    strategy = default_strategy(OBJECTIVE)
    assert strategy.propose(space, [], random.Random(0)) == {"a": 4}
    assert strategy.propose(space, [Trial({"a": 4}, measured(1), "baseline")], random.Random(0)) is None


def test_none_when_all_is_measured() -> None:
    space = Space((knob("a", log2(1, 8)), knob("d", flag())))
    history = searched(space, lambda c: measured(1.0 + int(c["a"])), 50)
    assert len(history) == 8
    assert sorted(map(str, keys(space, history))) == sorted(str(space.key(c)) for c in space.configs())


def test_folded_settings_are_measured_once() -> None:
    def fold(config: Config) -> Config:
        return {**config, "d": False} if int(config["a"]) > 2 else config

    space = Space((knob("a", log2(1, 8)), knob("d", flag())), canonical=fold)
    history = searched(space, lambda c: measured(1.0 + int(c["a"])), 50)
    assert len(history) == 6
    # A baseline that the user wrote in another form is the same setting.
    left = [c for c in space.configs() if c != {"a": 8, "d": False}]
    told = [Trial(c, measured(1.0), "search") for c in left] + [Trial({"a": 8, "d": True}, measured(1.0), "baseline")]
    assert default_strategy(OBJECTIVE).propose(space, told, random.Random(0)) is None


def test_an_infeasible_half_is_avoided() -> None:
    def half(config: Config) -> Outcome:
        return Failure("infeasible", "no") if config["d"] else hill(config)

    history = searched(SPACE, half, 40)
    late = [t for t in history[15:] if isinstance(t.outcome, Failure)]
    assert len(late) <= 5  # half of them at random


def test_when_all_failed_it_goes_on_elsewhere() -> None:
    history = searched(SPACE, lambda _: Failure("timeout", "slow"), 30)
    assert len(history) == 31
    assert len(set(keys(SPACE, history))) == 31


@pytest.mark.parametrize(
    ("kinds", "again"),
    [(["infeasible"], False), (["timeout"], False), (["wrong"], False), (["crash"], True), (["crash", "crash"], False)],
)
def test_only_a_first_crash_gets_a_second_chance(kinds: list[FailureKind], again: bool) -> None:
    space = Space((knob("a", log2(1, 2)),))
    history = [Trial({"a": 1}, measured(1.0), "baseline")] + [Trial({"a": 2}, Failure(k, ""), "search") for k in kinds]
    proposal = default_strategy(OBJECTIVE).propose(space, history, random.Random(0))
    assert proposal == ({"a": 2} if again else None)


def test_warmups_and_environment_failures_say_nothing() -> None:
    space = Space((knob("a", log2(1, 2)),))
    history = [
        Trial({"a": 1}, measured(1.0), "baseline"),
        Trial({"a": 2}, measured(1.0), "warmup"),
        Trial({"a": 2}, Failure("environment", "disk full"), "search"),
    ]
    assert default_strategy(OBJECTIVE).propose(space, history, random.Random(0)) == {"a": 2}


def test_a_baseline_outside_the_narrowed_space() -> None:
    space = SPACE.narrow({"a": "8:64", "c": "y,z"})
    assert not space.contains(space.default)
    history = searched(space, hill, 20)
    assert len(history) == 21
    assert all(space.contains(t.config) for t in history[1:])


def test_a_space_too_large_to_list() -> None:
    space = Space(
        tuple(knob(f"k{i}", integers(0, 9)) for i in range(8)),
        (Rule("sum", lambda c: "odd" if sum(map(int, c.values())) % 2 else None),),
    )

    def value(config: Config) -> Outcome:
        return measured(math.exp(-sum((int(v) - 6) ** 2 for v in config.values()) / 40))

    history = searched(space, value, 60)
    assert all(space.legal(t.config) for t in history)
    assert len(set(keys(space, history))) == 61
    # A random search of 60 finds 0.6 of 1; no legal setting has a legal neighbour here.
    assert max(t.outcome.metrics["value"] for t in history) > 0.8  # type: ignore[union-attr]


def test_nothing_legal() -> None:
    space = Space((knob("a", log2(1, 8)),), (Rule("never", lambda _: "no"),))
    assert default_strategy(OBJECTIVE).propose(space, [], random.Random(0)) is None


domains = st.one_of(
    st.integers(0, 4).map(lambda n: log2(1, 1 << n)),
    st.integers(0, 4).map(lambda n: integers(0, n)),
    st.integers(1, 3).map(lambda n: choice(*"xyz"[:n])),
    st.just(flag()),
)


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    knobs = tuple(knob(f"k{i}", d) for i, d in enumerate(draw(st.lists(domains, min_size=1, max_size=4))))
    banned = draw(st.integers(0, 6))
    rules = (Rule("some", lambda c: "banned" if banned and hash_of(c) % 7 < banned else None),)
    folds = draw(st.booleans())
    first = knobs[0]
    value = first.domain.values[0]
    fold = (lambda c: {**c, first.name: value} if hash_of({**c, first.name: value}) % 3 == 0 else dict(c)) if folds else dict
    return Space(knobs, rules, canonical=fold)


def hash_of(config: Config) -> int:
    return sum((i + 3) * sum(map(ord, str(v))) for i, v in enumerate(config.values()))


@effort(max_examples=60, deadline=None)
@given(spaces(), st.integers(0, 2**30), st.data())
def test_proposals_are_legal_canonical_and_new(space: Space, seed: int, data: st.DataObject) -> None:
    rng, strategy = random.Random(seed), default_strategy(OBJECTIVE)
    history: list[Trial] = []
    seen: set[object] = set()
    kinds = st.sampled_from(["good", "good", "good", "infeasible", "timeout", "wrong"])
    legal = {space.key(c) for c in space.configs()}
    for _ in range(12):
        config = strategy.propose(space, history, rng)
        if config is None:
            assert seen == legal
            break
        assert space.legal(config)
        assert space.contains(config)
        assert dict(space.canonical(config)) == dict(config)
        assert space.key(config) not in seen
        seen.add(space.key(config))
        kind = data.draw(kinds)
        outcome = measured(1.0 + hash_of(config) % 13) if kind == "good" else Failure(kind, "")
        history.append(Trial(config, outcome, "search"))
