"""What lint finds, with the edit that mends it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Edit = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Issue:
    """A finding with the edit that mends it, None where only a user can decide."""

    line: int
    key: str
    message: str
    mend: str
    edit: Edit | None = None
