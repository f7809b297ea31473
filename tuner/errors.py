"""What a user can be told instead of a traceback.

TunerError            exit code, message, mend
├── WrongUsage        2   an option, file or name that can't be used
│   └── NoStudies     2   there is no storage yet
├── NotUsable         4   this machine can't measure what was asked
├── BudgetTooSmall    5   not enough time, trials or bytes for an answer
└── Interrupted       130 stopped by the user; the study goes on with `tune resume`
"""

from __future__ import annotations


class TunerError(Exception):
    """Something to tell the user in one sentence, with what mends it; ``kind`` is its name in ``--json``."""

    kind = "error"
    exit_code = 1

    def __init__(self, message: str, mend: str = "") -> None:
        self.message, self.mend = message, mend
        super().__init__(message)


class WrongUsage(TunerError):
    kind, exit_code = "usage", 2


class NoStudies(WrongUsage):
    """The storage that was named, or the usual one, does not exist yet."""


class NotUsable(TunerError):
    kind, exit_code = "environment", 4


class BudgetTooSmall(TunerError):
    kind, exit_code = "budget", 5


class Interrupted(TunerError):
    kind, exit_code = "interrupted", 130
