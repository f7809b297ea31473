"""What reads from a mounted folder: the protocol of a load, and the loads by name.

A load is a module ``runners.mount.loads.<name>`` with a function ``create(name: str, work: Work) -> Load``, imported when
asked for. ``create`` checks options (UsageError) and starts nothing.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, cast, runtime_checkable

from runners.mount.work import Able, Epoch, Reading, Work
from runners.runner import Failure, Json, Objective, Problem, UsageError
from spaces.space import Config, Space

# What --load takes, and the module that makes it.
LOADS = {
    "fio": "fio",
    "torch": "torch",
    "dlio": "dlio",
    "unet3d": "dlio",
    "bert": "dlio",
    "resnet50": "dlio",
    "cosmoflow": "dlio",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a load works: ``folder`` is the mounted one, ``scratch`` an empty folder of ours for files of its own.

    ``mark`` may be called between two epochs: the mount's counters are read then, and need not be guessed from others.
    ``environment`` is for the load's processes: by what it adds to ours they are found again should we be killed.
    """

    folder: Path
    scratch: Path
    mark: Callable[[], object] = lambda: None
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


class Load(Protocol):
    """Reads for a while and tells what it read. Owns nothing global; processes of its own end with ``close``.

    ``objective`` names a metric that ``figures`` gives. ``open_files`` is how many files are open at once, at most;
    ``largest`` the size in bytes of the largest one, None before ``choose``.
    """

    name: str
    objective: Objective
    open_files: int
    largest: int | None

    def facts(self) -> Mapping[str, Json]:
        """What the numbers hold for: version, jobs, pattern; part of the study's fingerprint."""

    def problems(self) -> list[Problem]:
        """What stands in the way, each with its mend; cheap."""

    def choose(self, place: Place) -> Mapping[str, Json]:
        """Looks once at a mounted folder and settles what all measurements will read; returns what that is, as evidence.

        Raises EnvironmentProblem where there is nothing to read, UsageError("data", ...) where --data names nothing.
        """

    def run(self, place: Place, limit: float) -> Reading | Failure:
        """Reads, for at most ``limit`` seconds, what ``choose`` settled. With ``work.warm`` the first epoch only fills caches.

        Keeps the page cache out of all epochs as well as it can (O_DIRECT, POSIX_FADV_DONTNEED); the runner verifies it by
        the bytes that left the store and drops the epochs that they don't account for. A mount that hangs is killed by the
        runner shortly before ``limit``: reads then fail with EIO or ENOTCONN.
        """

    def figures(self, epochs: Sequence[Epoch]) -> tuple[Mapping[str, float], tuple[float, ...]]:
        """Metrics (the objective among them) and single readings in the objective's unit, of the epochs that count (>= 1)."""

    def close(self) -> None:
        """May be called twice."""


@runtime_checkable
class TunableLoad(Load, Protocol):
    """A load with knobs of its own, tuned together with the mount's where ``work.reader`` asks for it."""

    def able(self) -> Able:
        """What the reader of this host can do. Raises EnvironmentProblem."""

    def extend(self, space: Space, able: Sequence[Able]) -> Space:
        """``space`` with the knobs beside its own that all hosts are able to turn."""

    def read_with(self, config: Config) -> None:
        """The values for the next ``run``; ``config`` holds the mount's too."""


def chosen(name: str) -> str:
    """The load that --load ``name`` means here. Raises UsageError."""
    found = ("torch" if importlib.util.find_spec("torch") else "fio") if name == "auto" else name
    if found not in LOADS:
        raise UsageError("load", name, f"is none of auto, {', '.join(LOADS)}")
    return found


def create(name: str, work: Work) -> Load:
    """The load that --load names. Raises UsageError."""
    load = chosen(name)
    if work.reader and LOADS[load] != "dlio":
        raise UsageError("load", load, "has no reader that --tune-reader could tune; dlio and MLPerf's workloads have")
    module = importlib.import_module(f"{__name__}.{LOADS[load]}")
    return cast(Load, module.create(load, work))


def rate(epochs: Sequence[Epoch]) -> tuple[dict[str, float], tuple[float, ...]]:
    """Throughput in MiB/s over all epochs, the first told apart from later ones; a reading an epoch."""
    each = tuple(epoch.bytes_read / max(epoch.seconds, 1e-6) / 2**20 for epoch in epochs)
    total = sum(epoch.bytes_read for epoch in epochs) / max(sum(epoch.seconds for epoch in epochs), 1e-6) / 2**20
    metrics = {"read_mib_s": total}
    if len(each) > 1:
        metrics["first_epoch_mib_s"] = each[0]
        metrics["later_epochs_mib_s"] = sum(each[1:]) / (len(each) - 1)
    return metrics, each
