"""`tune doctor` for targets that mount: what is missing on this machine, before anything is mounted."""

from __future__ import annotations

from collections.abc import Callable

from runners.mount.backend import Backend
from runners.mount.loads import create
from runners.mount.options import LoadOptions, work_of
from runners.runner import Problem, Severity

_ORDER: dict[Severity, int] = {"error": 0, "warning": 1, "note": 2}


def doctor(backend: Callable[[], Backend], options: LoadOptions) -> list[Problem]:
    """Problems of the back end and the load, the worst first. Raises UsageError."""
    found = [*backend().problems(), *create(options.load, work_of(options)).problems()]
    return sorted(found, key=lambda problem: _ORDER[problem.severity])
