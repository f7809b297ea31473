"""How creation and barriers count in the objective: ``--weigh creation=1,barrier=50``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from runners.runner import UsageError

_PARTS = ("creation", "barrier")
_NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Weights:
    """``barrier`` is the number of barriers that count where nothing else was said; neither is below zero, one is above."""

    creation: float = 1.0
    barrier: float = 1.0

    def of(self, creation: float, barrier: float) -> float:
        """Both in milliseconds."""
        return self.creation * creation + self.barrier * barrier


def weights(text: str, barriers: int) -> Weights:
    """What ``text`` says (``--weigh``), with ``barriers`` (``--barriers``) where it names none. Raises UsageError."""
    found: dict[str, float] = {}
    for part in text.split(",") if text.strip() else []:
        name, equals, value = (each.strip() for each in part.partition("="))
        if name not in _PARTS or not equals:
            raise UsageError("weigh", text, f"{part.strip() or 'nothing'!r} is none of creation=W and barrier=W")
        if name in found:
            raise UsageError("weigh", text, f"{name} is named twice")
        if not _NUMBER.fullmatch(value):
            raise UsageError("weigh", text, f"{name} must be a number from 0 to 999999999, like {name}=2 or {name}=0.5")
        found[name] = float(value)
    if "barrier" in found and barriers != 1:
        raise UsageError("weigh", text, f"barrier={found['barrier']:g} and --barriers {barriers} say the same thing; give one")
    made = Weights(found.get("creation", 1.0), found.get("barrier", float(barriers)))
    if not made.creation and not made.barrier:
        raise UsageError("weigh", text, "something must count: creation or barrier above 0")
    return made
