"""Knobs, narrowing, rules, folding and neighbours."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spaces.space import BadValue, Config, Domain, Knob, Rule, Space, choice, flag, integers, log2, off_or_log2

SIZE = Knob("block", log2(64 << 10, 1 << 20), 128 << 10, "a size", "here", unit="bytes", option="block-size")
DEPTH = Knob("depth", log2(1, 8), 2, "a count", "here", unit="count")
MODE = Knob("mode", choice("ring", "tree"), "ring", "a choice", "here")
EAGER = Knob("eager", flag(), False, "a flag", "here")
SPACE = Space((SIZE, DEPTH, MODE, EAGER))


def test_every_setting_once() -> None:
    assert SPACE.size == len(SPACE.configs()) == 5 * 4 * 2 * 2


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("128K:512K", (128 << 10, 256 << 10, 512 << 10)),
        ("128K:512K:128K", (128 << 10, 256 << 10, 384 << 10, 512 << 10)),
        ("1M,64K", (64 << 10, 1 << 20)),
        ("2M", (2 << 20,)),
        ("64K,64K:128K", (64 << 10, 128 << 10)),
    ],
)
def test_narrowing_a_size(option: str, values: tuple[int, ...]) -> None:
    assert SPACE.narrow({"block": option})["block"].domain.values == values


def test_narrowing_a_choice_and_a_flag() -> None:
    narrowed = SPACE.narrow({"mode": "tree", "eager": "yes"})
    assert [narrowed[name].domain.values for name in ("mode", "eager")] == [("tree",), (True,)]
    assert len(narrowed.configs()) == 5 * 4
    assert narrowed.default["mode"] == "ring", "what the user has without tuning does not change"


@pytest.mark.parametrize(
    ("knob", "text", "says"),
    [
        ("block", "1M:64K", "ends before it begins"),
        ("block", "", "empty value"),
        ("block", "1M,,2M", "empty value"),
        ("block", "3Q", "not a size"),
        ("block", "4G", "from 1 to"),
        ("depth", "0", "from 1 to"),
        ("depth", "1:2000000:1", "take a larger step"),
        ("depth", "two", "not a whole number"),
        ("mode", "star", "ring, tree"),
        ("mode", "ring:tree", "ring, tree"),
        ("eager", "maybe", "neither true nor false"),
    ],
)
def test_bad_values_get_a_sentence_with_the_option(knob: str, text: str, says: str) -> None:
    with pytest.raises(BadValue, match=says) as caught:
        SPACE.narrow({knob: text})
    assert str(caught.value).startswith(f"--{SPACE[knob].option} ")


@given(st.text(max_size=30))
def test_any_text_narrows_or_is_refused(text: str) -> None:
    for knob in SPACE.knobs:
        try:
            domain = knob.narrow(text)
        except BadValue:
            continue
        assert domain.values
        assert list(domain.values) == list(dict.fromkeys(domain.values))


def no_deep_trees(config: Config) -> str | None:
    return "a tree can't be deep" if config["mode"] == "tree" and int(config["depth"]) > 2 else None


def fold(config: Config) -> Config:
    return {**config, "eager": False} if config["mode"] == "tree" else config


RULED = Space((SIZE, DEPTH, MODE, EAGER), (Rule("trees", no_deep_trees),), fold)


def test_rules_and_folding() -> None:
    configs = RULED.configs()
    assert len(configs) == 5 * (4 * 2 + 2)
    assert all(RULED.legal(c) and RULED.canonical(c) == c for c in configs)
    assert RULED.broken({**RULED.default, "mode": "tree", "depth": 8}) == ["a tree can't be deep"]


@given(st.integers(0, 2**32))
def test_neighbours_are_legal_one_step_away_and_mutual(seed: int) -> None:
    config = random.Random(seed).choice(RULED.configs())
    for other in RULED.neighbours(config):
        assert RULED.legal(other)
        assert RULED.key(other) != RULED.key(config)
        changed = [name for name in config if config[name] != other[name]]
        assert len(changed) == 1 or "mode" in changed
        if "mode" not in changed:
            assert config in RULED.neighbours(other)


def test_neighbours_of_a_setting_outside_the_domain() -> None:
    depths = [c["depth"] for c in SPACE.neighbours({**SPACE.default, "depth": 3}) if c["depth"] != 3]
    assert depths == [2, 4]


def test_a_space_too_large_to_list_is_sampled() -> None:
    huge = Space(tuple(Knob(f"k{i}", integers(1, 30), 1, "", "") for i in range(6)))
    with pytest.raises(OverflowError):
        huge.configs()
    pool = huge.pool(random.Random(1), 500)
    assert 400 < len(pool) <= 500
    assert huge.pool(random.Random(1), 500) == pool


def test_the_fingerprint_follows_domains_and_rules() -> None:
    prints = {SPACE.fingerprint, RULED.fingerprint, SPACE.narrow({"depth": "1,2"}).fingerprint}
    assert len(prints) == 3
    assert Space((SIZE, DEPTH, MODE, EAGER)).fingerprint == SPACE.fingerprint


@pytest.mark.parametrize("values", [(), (1, 1)])
def test_domains_refuse_nonsense(values: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="value"):
        Domain("int", values)


def test_a_knob_named_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        Space((SIZE, SIZE))


def test_a_knob_that_can_be_off_has_nothing_as_its_lowest_value() -> None:
    knob = Knob("ahead", off_or_log2(4, 32), 8, "How much is read ahead.", "a test", lowest=0)
    assert knob.domain.values == (0, 4, 8, 16, 32)
    assert knob.parse("0") == 0
    assert knob.narrow("0:16").values == (0, 4, 8, 16)
    with pytest.raises(BadValue, match="must be from 1 to"):
        Knob("threads", log2(1, 8), 1, "Threads at work.", "a test").parse("0")
