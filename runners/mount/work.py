"""What is read in every measurement of a study, and what came of it: the data that loads and the runner share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from runners.runner import Json


@dataclass(frozen=True, slots=True)
class Work:
    """The load options in numbers: ``block_size`` and ``memory`` in bytes (None: not given), ``seconds`` of reading.

    ``data`` is a path or pattern below the mount, "" for the largest files. ``extra`` is the load's own business. ``reader``
    is the division of MLPerf that a load's own knobs keep to, "" where they are not tuned. ``generate`` are the bytes of a set
    that is made for the study, 0 where the data are the user's.
    """

    pattern: Literal["sequential", "random"] = "sequential"
    block_size: int = 256 << 10
    jobs: int = 4
    seconds: float = 5.0
    warm: bool = False
    direct: bool = False
    data: str = ""
    memory: int | None = None
    accelerators: int = 1
    extra: tuple[tuple[str, str], ...] = ()
    reader: str = ""
    generate: int = 0


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a setting must fit into: ``memory`` bytes that it may hold with ``open_files`` open at once.

    ``largest`` is the size in bytes of the largest file that is read, None before the data were looked at. ``system``: what
    the kernel grants only on request of root may be tuned too.
    """

    work: Work
    open_files: int
    memory: int
    largest: int | None = None
    system: bool = False


@dataclass(frozen=True, slots=True)
class Able:
    """What a load's reader can do on a host: ``names`` of settings that it reads, ``threads`` that a job may have."""

    names: tuple[str, ...]
    threads: int

    @classmethod
    def of_all(cls, hosts: Sequence[Able]) -> Able:
        """What the readers of all ``hosts`` (>= 1) can do."""
        common = set.intersection(*(set(host.names) for host in hosts))
        return cls(tuple(sorted(common)), min(host.threads for host in hosts))


@dataclass(frozen=True, slots=True)
class Epoch:
    """One pass over the data or a part of it. ``began`` and ``ended`` are time.time() of this host.

    ``bytes_read`` is what the reading programs got, wherever it came from. ``metrics`` are the load's own figures of this
    epoch (samples_s, utilisation, ...). ``filling`` marks a pass that only fills caches and is not to be counted.
    """

    began: float
    ended: float
    bytes_read: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    filling: bool = False

    @property
    def seconds(self) -> float:
        return self.ended - self.began


@dataclass(frozen=True, slots=True)
class Reading:
    """What a load did: all that it read, as epochs in order. ``warnings`` are sentences for the user.

    ``keep`` is the reason, as a sentence, why no setting of the mount can make this faster ("" where one may).
    """

    epochs: tuple[Epoch, ...]
    evidence: Mapping[str, Json] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    keep: str = ""
