"""What the last screen says of settings that can't be told apart."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console
from support.synthetic import SPACE

from tuner import screen
from tuner.recommendation import Gain, Recommendation

BASELINE = SPACE.default
PICK = {**BASELINE, "queue_depth": 32}
ANSWER = Recommendation(
    "s", "aio", "e", "adopt", PICK, BASELINE, Gain(1.2, 1.1, 1.3, 0.9), "proven", {"gbs": 3.0}, {"gbs": 2.5}
)


def shown(answer: Recommendation) -> str:
    out = Console(file=io.StringIO(), width=250)
    screen.show_answer(out, answer, SPACE, {}, "s")
    return out.file.getvalue()  # type: ignore[attr-defined]


def test_a_cheaper_equal_that_was_not_recommended_is_named_with_the_reason() -> None:
    cheaper = {**PICK, "queue_depth": 16}
    dearer = {**PICK, "queue_depth": 64}
    text = shown(replace(ANSWER, equals=(cheaper, dearer)))
    (line,) = [line for line in text.splitlines() if line.startswith("cheaper")]
    assert "queue_depth=16" in line
    assert "64" not in line
    assert "isn't proven" in line


def test_nothing_is_said_where_the_pick_is_the_cheapest() -> None:
    assert "cheaper" not in shown(replace(ANSWER, equals=({**PICK, "queue_depth": 64},)))


def test_a_search_that_was_not_stopped_needs_no_reason() -> None:
    evidence = {"settings_tried": 20, "settings": 1344}
    assert "20 of 1344 settings tried\n" in shown(replace(ANSWER, evidence={**evidence, "stopped": ""}))
    assert "settings tried; the time is used up\n" in shown(
        replace(ANSWER, evidence={**evidence, "stopped": "the time is used up"})
    )
