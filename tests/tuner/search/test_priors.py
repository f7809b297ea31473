from __future__ import annotations

from importlib import resources

import yaml

from spaces import aio, oneccl
from spaces.space import Config
from tuner.search.priors import merge, packaged


def rows(target: str = "aio") -> list[dict[str, object]]:
    text = resources.files("tuner.search").joinpath("priors.yaml").read_text(encoding="utf-8")
    found: list[dict[str, object]] = yaml.safe_load(text)[target]
    return found


def test_every_recipe_of_oneccl_is_a_setting_of_its_space_with_a_source() -> None:
    for row in rows("oneccl"):
        assert str(row["source"]).startswith("https://")
        config = row["config"]
        assert isinstance(config, dict)
        assert oneccl.SPACE.contains({**oneccl.SPACE.default, **config})


def test_every_row_is_a_setting_of_the_space_with_a_source() -> None:
    for row in rows():
        assert set(row) == {"device", "seen", "source", "config"}
        assert str(row["source"]).startswith("https://")
        config = row["config"]
        assert isinstance(config, dict)
        assert set(config) == {knob.name for knob in aio.SPACE.knobs}
        assert aio.SPACE.contains(config)
        assert all(isinstance(config[name], bool) for name in ("single_submit", "overlap_events"))


def test_those_of_the_same_kind_of_device_come_first() -> None:
    by_kind = {kind: [r["config"] for r in rows() if r["device"] == kind] for kind in ("nvme", "raid", "sata")}
    assert packaged("aio", {"devices": [{"transport": "nvme", "model": "X"}]})[:3] == by_kind["nvme"]
    assert packaged("aio", {"devices": [{"transport": "md", "model": ""}]})[:4] == by_kind["raid"]
    assert packaged("aio", {"devices": [{"transport": "sata", "model": None}]})[0] == by_kind["sata"][0]


def test_odd_facts_and_other_targets() -> None:
    generic = packaged("aio", {})
    assert len(generic) == 4
    for facts in ({"devices": None}, {"devices": ["x"]}, {"devices": [{}]}, {"devices": "nvme"}):
        assert packaged("aio", facts) == generic  # type: ignore[arg-type]
    assert packaged("no-such-target", {}) == []


def test_the_users_own_come_first_and_once() -> None:
    own: list[Config] = [{"a": 1}, {"a": 2}, {"a": 1}]
    assert merge(own, [{"a": 2}, {"a": 3}]) == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert len(merge([{"a": n} for n in range(20)], own)) == 8


def test_a_caller_can_not_spoil_the_table() -> None:
    first = packaged("aio", {})
    first[0]["block_size"] = 1  # type: ignore[index]
    assert packaged("aio", {}) != first
