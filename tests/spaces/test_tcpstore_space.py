"""What torch and a launch path refuse is not measured, and of equals the one that takes least to bring about wins."""

from __future__ import annotations

from spaces.tcpstore import SPACE, Limits, cost, for_job

BOTH = frozenset({"libuv", "legacy"})


def test_default_is_torch_s_own_and_costs_nothing():
    defaults = {"backend": "libuv", "barrier": "keys", "address": "name", "start": "together", "backlog": "present"}
    assert SPACE.default == defaults
    assert cost(SPACE.default) == 0
    assert all(cost(config) > 0 for config in SPACE.configs() if config != SPACE.default)


def test_refused_values_say_why():
    space = for_job(SPACE, Limits({("start", "listening"): "torchrun takes none"}, BOTH))
    assert space.broken({**SPACE.default, "start": "listening"}) == ["torchrun takes none"]
    assert len(space.configs()) == 48


def test_listening_goes_with_a_server_that_takes_it():
    space = for_job(SPACE, Limits({}, frozenset({"legacy"})))
    assert "tried" in space.broken({**SPACE.default, "start": "listening"})[0]
    assert space.legal({**SPACE.default, "start": "listening", "backend": "legacy"})


def test_no_barriers_no_forms_of_them():
    space = for_job(SPACE, Limits({}, BOTH, barriers=False))
    assert {config["barrier"] for config in space.configs()} == {"keys"}
    narrowed = for_job(SPACE.narrow({"barrier": "counter,store_barrier"}), Limits({}, BOTH, barriers=False))
    assert {config["barrier"] for config in narrowed.configs()} == {"counter"}


def test_long_enough_backlogs_are_one_setting():
    space = for_job(SPACE, Limits({}, BOTH, short=False))
    assert {config["backlog"] for config in space.configs()} == {"present"}
    raised = {**SPACE.default, "backlog": "raised"}
    assert space.canonical(raised) == SPACE.default
    assert for_job(SPACE, Limits({}, BOTH)).canonical(raised) == raised
