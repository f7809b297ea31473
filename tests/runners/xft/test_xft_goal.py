"""Requests' times become the figure that was asked for, and bad options get their sentence."""

from __future__ import annotations

from typing import Any

import pytest

from runners.runner import UsageError
from runners.xft.goal import Goal, Request
from runners.xft.options import Options

REQUESTS = (Request(100.0, (10.0, 10.0, 10.0)), Request(120.0, (20.0, 20.0, 50.0)), Request(90.0, (12.0, 12.0, 12.0)))


def goal(**options: Any) -> Goal:
    return Goal.of(Options(**{"batch": 2, "output_tokens": 4, **options}))


def test_medians_over_requests_are_what_is_told() -> None:
    found = goal().metrics(REQUESTS)
    assert found["first_token_ms"] == 100.0
    assert found["next_token_ms"] == 12.0
    assert found["decode_tokens_per_s"] == pytest.approx(1000 * 2 / 12)
    assert found["tokens_per_s"] == pytest.approx(1000 * 2 * 4 / (100 + 30))
    assert found["next_token_p90_ms"] == 50.0
    assert "goodput_tokens_per_s" not in found


@pytest.mark.parametrize(
    ("options", "metric", "maximise"),
    [
        ({}, "next_token_ms", False),
        ({"goal": "first-token"}, "first_token_ms", False),
        ({"goal": "throughput"}, "tokens_per_s", True),
        ({"ttft": "95ms"}, "goodput_tokens_per_s", True),
    ],
)
def test_every_goal_has_its_objective_and_samples(options: dict[str, Any], metric: str, maximise: bool) -> None:
    asked = goal(**options)
    assert (asked.objective.metric, asked.objective.maximise) == (metric, maximise)
    assert len(asked.samples(REQUESTS)) == 3
    assert asked.missing(REQUESTS) == ""


def test_a_late_first_token_costs_more_than_it_can_bring() -> None:
    asked = goal(ttft="50ms")
    early, late = asked.of_request(Request(50.0, (10.0,))), asked.of_request(Request(100.0, (10.0,)))
    assert early["goodput_tokens_per_s"] == early["tokens_per_s"]
    assert late["goodput_tokens_per_s"] == pytest.approx(late["tokens_per_s"] / 8)
    assert "after 100 ms and the goal is 50 ms" in asked.late(REQUESTS)
    assert goal(ttft="1s").late(REQUESTS) == ""


def test_what_a_program_does_not_tell_is_said() -> None:
    assert "does not tell what first_token_ms" in goal(goal="first-token").missing([Request(None, (10.0,))])
    assert "nothing" in goal().missing([])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"batch": 0}, "--batch 0: must be a whole number from 1"),
        ({"output_tokens": 1}, "--output-tokens 1: must be a whole number from 2"),
        ({"input_tokens": -5}, "--input-tokens -5"),
        ({"ttft": "soon"}, "--ttft soon: 'soon' is not a duration"),
        ({"ttft": "0ms"}, "--ttft 0ms"),
        ({"ttft": "1s", "goal": "first-token"}, "leave out --goal first-token"),
    ],
)
def test_bad_options_are_named_with_what_would_be_right(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        goal(**options)
    assert said in str(caught.value)
