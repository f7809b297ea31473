"""What an engine is to the worker that drives it: buffers, one setting at a time, synchronous reads and writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from runners.aio.content import Bytes
from runners.runner import FailureKind


@dataclass(frozen=True, slots=True)
class Setting:
    """The five knobs; sizes in bytes."""

    block_size: int
    queue_depth: int
    threads: int
    single_submit: bool
    overlap_events: bool


class EngineFailure(Exception):
    """The engine itself says that an operation did not work."""

    def __init__(self, kind: FailureKind, reason: str) -> None:
        self.kind, self.reason = kind, reason
        super().__init__(reason)


class Engine(Protocol):
    """Moves whole files between a device and page-locked buffers, one open file and O_DIRECT an operation.

    Operations raise EngineFailure, or OSError as the kernel gave it; an engine may also say nothing and be wrong, which is
    for the caller to find out.
    """

    def versions(self) -> dict[str, str]: ...

    def configure(self, setting: Setting, sizes: Sequence[int]) -> list[Bytes]:
        """Makes ready for ``setting``; gives a buffer of at least each size, the same ones as before where it can."""

    def read(self, path: str, slot: int, size: int) -> None:
        """Reads the first ``size`` bytes of a file into buffer ``slot``."""

    def write(self, path: str, slot: int, size: int) -> None: ...

    def release(self) -> None:
        """Gives back what the setting took from the kernel. Buffers stay."""

    def close(self) -> None: ...
