"""What a study keeps to lay out any of its settings later."""

import json
from dataclasses import replace
from typing import Any

import pytest
from support.sysfs import SHAPES, shaped

from runners.xft.known_models import KNOWN
from runners.xft.layout import Layout
from runners.xft.model import Demand
from runners.xft.plan import BadPlan, Plan
from spaces.xft import SPACE, Software

DEMAND = Demand(KNOWN["llama-2-7b"], "int8", 2, 64, 16)


@pytest.mark.parametrize("shape", SHAPES)
def test_layouts_are_the_same_from_what_was_kept(shape: str) -> None:
    plan = Plan({"a": shaped(shape), "b": shaped("quad")}, DEMAND, Software("torch", "gomp", "/x/libiomp5.so", ccl=False))
    again = Plan.of_json(json.loads(json.dumps(plan.json())))
    for change in ({}, {"ranks": 2}, {"threads": 1}, {"memory": "interleave"}, {"siblings": "both"}, {"sockets": 1}):
        config = {**SPACE.default, **change}
        assert again.layout(config) == plan.layout(config)
    assert again.demand == plan.demand
    assert again.software == plan.software


def test_free_memory_is_no_part_of_it() -> None:
    busy = shaped("quad")
    busy = replace(busy, nodes=tuple(replace(node, free=1) for node in busy.nodes))
    assert Plan({"a": busy}, DEMAND, Software()).json() == Plan({"a": shaped("quad")}, DEMAND, Software()).json()


@pytest.mark.parametrize("broken", [None, {}, [], {"hosts": []}, {"hosts": 3, "demand": {}, "software": {}}, "x"])
def test_what_is_no_plan(broken: Any) -> None:
    with pytest.raises(BadPlan):
        Plan.of_json(broken)


def test_a_plan_with_a_broken_host() -> None:
    told = json.loads(json.dumps(Plan({"a": shaped("quad")}, DEMAND, Software()).json()))
    told["hosts"][0]["topology"]["allowed_cpus"] = ""
    with pytest.raises(BadPlan, match="a host's topology can't be read: it has no CPU"):
        Plan.of_json(told)
    told["hosts"] = []
    with pytest.raises(BadPlan, match="it has no host"):
        Plan.of_json(told)


def test_a_plan_gives_reasons() -> None:
    plan = Plan({"a": shaped("small")}, DEMAND, Software())
    assert isinstance(plan.layout(SPACE.default), Layout)
    assert plan.layout({**SPACE.default, "ranks": 8}) == "8 ranks have 2 cores, and no core serves two"
