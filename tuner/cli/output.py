"""Chooses between text and JSON for progress and answers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tuner import targets
from tuner.database import default_storage, spelled
from tuner.recommendation import Recommendation
from tuner.reporter import Reporter

KEEP = 3  # exit code: nothing beat the baseline


@contextlib.contextmanager
def reporting(*, as_json: bool, events: bool) -> Iterator[Reporter]:
    """A reporter for one run; the terminal is given back however the run ends."""
    if events:
        from tuner.as_json import Events

        yield Events()
    elif as_json:
        yield Reporter()
    else:
        from tuner.screen import Progress

        progress = Progress()
        try:
            yield progress
        finally:
            progress.close()


def show(answer: Recommendation, storage: str | None, *, as_json: bool) -> int:
    """Prints an answer and returns the command's exit code."""
    target = targets.load(answer.target)
    exporter = target.exporter
    files = exporter.render(answer, exporter.FORMATS[0].name, {}) if answer.decision == "adopt" else {}
    if as_json:
        from tuner import as_json as json_form

        json_form.dump(json_form.recommendation(answer, files))
    else:
        from tuner import screen

        study = spelled(answer.study, storage or default_storage())
        screen.show_answer(screen.console(), answer, target.space, files, study)
    return 0 if answer.decision == "adopt" else KEEP
