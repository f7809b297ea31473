"""What other people's tuning tools are asked for and answer, whatever the target, for `tune compare`.

A target's opponents are a module `opponents` beside its runner: ``OPPONENTS``, by name; ``OPTIONS``, a dataclass of options
like a runner's; and ``check(options, more)``, which raises UsageError before anything is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from runners.runner import Problem
from spaces.space import Config


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a tool may spend: seconds of wall time, and bytes that it may write to the device."""

    seconds: float
    bytes_written: int


@dataclass(frozen=True, slots=True)
class Pasted:
    """What the tuned system makes of a tool's answer, pasted as it was printed.

    ``config`` is the setting then in effect, after ``mended`` by hand where it does not load: None when even that fails.
    ``problem`` is what the system says to it as it is.
    """

    loads: bool
    problem: str
    config: Config | None
    mended: str = ""


@dataclass(frozen=True, slots=True)
class Pick:
    """What a tool chose, None where it had nothing to choose from, and what that took.

    ``claimed`` are the tool's own figures for its choice, in the runner's units; ``note`` says how it ended, in a sentence;
    ``finished`` is False when it was stopped or broke down, and ``config`` then the best of what it had.
    """

    config: Config | None
    seconds: float
    bytes_written: int
    settings_tried: int
    finished: bool
    note: str
    claimed: Mapping[str, float] = field(default_factory=dict)
    printed: str = ""
    pasted: Pasted | None = None


# The runner's options, the opponents' own, what may be spent, and whom to tell how far it is. A Problem where it can't run.
Opponent = Callable[[Any, Any, Allowance, Callable[[str], None]], "Pick | Problem"]
