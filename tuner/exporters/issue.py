"""A finding together with the edit that mends it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tuner.exporters.format import Finding

Edit = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Issue:
    """``edit`` turns the text that the issue was found in into one without it; None when only a user can decide."""

    line: int
    key: str
    message: str
    mend: str
    edit: Edit | None = None

    @property
    def finding(self) -> Finding:
        return Finding(self.line, self.key, self.message, self.mend, self.edit is not None)


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
