"""Assignments of variables in env files and start scripts, and where torchrun starts a job."""

from __future__ import annotations

import re

from tuner.exporters.shell import Assignment, assign, assignments, code_lines, last, replaced, without

__all__ = ["Assignment", "assign", "assignments", "code_lines", "last", "replaced", "torchrun_line", "without"]

_WORD = re.compile(r"(?:^|[\s/;&|(])(torchrun|torch\.distributed\.(?:run|launch))(?=\s|$)")


def torchrun_line(text: str) -> int | None:
    """The first line that starts a job with torchrun; None where none does."""
    for number, _, line in code_lines(text):
        if _WORD.search(line):
            return number
    return None
