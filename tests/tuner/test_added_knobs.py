"""Knobs that a runner adds to its target's own are shown like the others."""

import io

from rich.console import Console
from support.synthetic import SPACE

from tuner.recommendation import Gain, Recommendation
from tuner.screen import show_answer


def test_an_added_knob_stands_in_the_answer_with_its_old_value() -> None:
    config = {**SPACE.default, "threads": 4, "reader_read_threads": 8}
    baseline = {**SPACE.default, "reader_read_threads": 4}
    answer = Recommendation(
        "s", "rclone", "dlio", "adopt", config, baseline, Gain(1.2, 1.1, 1.3, 0.9), "proven", {"x": 1.0}, {"x": 0.8}
    )
    out = io.StringIO()
    show_answer(Console(file=out, width=200, no_color=True), answer, SPACE, {}, "s")
    line = next(line for line in out.getvalue().splitlines() if "reader_read_threads" in line)
    assert line.split()[:3] == ["reader_read_threads", "8", "4"]
