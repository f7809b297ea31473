"""One figure for hosts that read together."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from runners.mount.hosts import joined
from runners.runner import Failure, FailureKind, Measurement


def measured(rate: float, **evidence: Any) -> Measurement:
    metrics = {"read_mib_s": rate, "reads_s": 2 * rate, "utilisation": rate / 2, "step_ms": rate}
    return Measurement(metrics, (rate,), 3.0, 5, {"bytes_read": 100, "bytes_from_store": 150, **evidence})


def test_rates_add_up_and_shares_do_not() -> None:
    found = joined.outcome({"a": measured(60), "b": measured(40)}, "read_mib_s")
    assert isinstance(found, Measurement)
    assert found.metrics == {"read_mib_s": 100, "reads_s": 200, "utilisation": 20, "step_ms": 50}
    assert found.samples == (100,)
    assert found.bytes_written == 10
    assert found.evidence["fetched_for_each_byte_read"] == 1.5
    assert list(found.evidence["hosts"]) == ["a", "b"]  # type: ignore[arg-type]


def test_the_likeliest_cause_is_told_with_its_host() -> None:
    kinds: tuple[FailureKind, ...] = ("timeout", "environment", "crash")
    told = {kind: Failure(kind, "why") for kind in kinds}
    found = joined.outcome({"ok": measured(1), **told}, "read_mib_s")
    assert isinstance(found, Failure)
    assert (found.kind, found.reason) == ("environment", "environment: why")
    assert found.bytes_written == 5


def test_what_all_hosts_say_is_said_once() -> None:
    both = {"a": measured(60, warnings=["same", "mine"]), "b": measured(20, warnings=["same"])}
    found = joined.outcome(both, "read_mib_s")
    assert found.evidence["warnings"] == [  # type: ignore[union-attr]
        "same", "a: mine", "b gets 0.33 times what the best host gets: the figure is their sum"
    ]  # fmt: skip


def test_it_is_kept_only_where_no_host_can_gain() -> None:
    for keeps, wanted in ((("full", "full"), "full"), (("full", ""), None)):
        told = {name: measured(1, keep=keep) for name, keep in zip("ab", keeps, strict=True)}
        assert joined.outcome(told, "read_mib_s").evidence.get("keep") == wanted  # type: ignore[union-attr]


def test_limits_are_those_of_the_weakest_host() -> None:
    told = [{"memory": 8, "largest": None, "system": True}, {"memory": 4, "largest": 7, "system": True}]
    assert joined.limits(told) == {"memory": 4, "largest": 7, "system": True}
    assert joined.limits([{"open_files": 4}, {"open_files": 8}]) == {"open_files": 8}
    assert joined.limits([{"fusectl": True}, {"fusectl": False}]) == {"fusectl": False}
    assert joined.limits([{"memory": 8, "present": None}]) == {"memory": 8, "present": None}


def test_outcomes_survive_the_wire() -> None:
    for outcome in (measured(3), Failure("crash", "why", "log")):
        wire = json.loads(json.dumps({"outcome": asdict(outcome), "failed": isinstance(outcome, Failure)}))
        assert joined.outcome_of(wire) == outcome


@pytest.mark.parametrize("answer", [{}, {"outcome": 3, "failed": True}, {"outcome": {"x": 1}, "failed": False}])
def test_an_answer_that_makes_no_sense_is_a_failure(answer: dict[str, Any]) -> None:
    found = joined.outcome_of(answer)
    assert isinstance(found, Failure)
    assert found.kind == "environment"
