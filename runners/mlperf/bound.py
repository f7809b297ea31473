"""What bounds a training run: its accelerators, this host's processors, or the reading of its data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# Idle is never quite nothing; from here on readers wait for processors.
_BUSY = 0.95


@dataclass(frozen=True, slots=True)
class Bound:
    """``by`` and a sentence on it. ``enough``: faster storage would change nothing that counts, so settings are to be kept."""

    by: Literal["accelerators", "processors", "reading"]
    enough: bool
    sentence: str


def bound(au: float, threshold: float, busy: float | None = None) -> Bound:
    """``au`` and ``threshold`` are utilisations in %, ``busy`` the share of processor time that was not idle while it read."""
    if au >= threshold:
        most = max(0.0, 100 / au - 1)
        return Bound(
            "accelerators",
            True,
            f"not storage-bound: the accelerators compute {au:.1f} % of the time where {threshold:.0f} % is asked for, and "
            f"the fastest storage there is would give {most * 100:.1f} % more",
        )
    if busy is not None and busy >= _BUSY:
        return Bound(
            "processors",
            False,
            f"the accelerators compute {au:.1f} % of the time where {threshold:.0f} % is asked for, and this host's "
            f"processors were busy {busy * 100:.0f} % of it: readers may wait for them more than for storage",
        )
    return Bound(
        "reading",
        False,
        f"the accelerators compute {au:.1f} % of the time where {threshold:.0f} % is asked for: they wait for data",
    )
