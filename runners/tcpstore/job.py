"""One measurement as the worker process gets it, and what the ranks of it write down."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from runners.runner import Json

# Where a rank is, one byte each in memory that all processes of a measurement share.
WAITING, CREATING, IN, BARRIER, DONE = range(5)
PLACES = ("before its start", "while it joined", "after it joined", "in a barrier", "after its work")


@dataclass(frozen=True, slots=True)
class Job:
    """``clients`` counts all ranks, rank 0 and its server included; ``processes`` (a host) hold all but 0, which has its own.

    ``host`` is what every rank is told rank 0 is called. ``port`` 0 takes a free one for each start. Of at most ``rounds``
    starts none begins after ``enough`` seconds; ``timeout`` bounds each, in seconds. ``late_rank`` comes ``late_seconds`` late
    to ``late_to``, "join" or "barrier" (the first one); -1 for none. Of several hosts this one holds ``count`` ranks from
    ``first`` on; -1 is all from there on. ``nofile`` is the least that rank 0's soft limit of open files shall be, if the hard
    one allows it; 0 leaves it.
    """

    backend: str
    barrier: str
    host: str
    start: str
    clients: int
    processes: int
    rounds: int
    barriers: int
    timeout: float
    enough: float = 5.0
    port: int = 0
    operations: int = 50
    late_rank: int = -1
    late_seconds: float = 0.0
    late_to: str = "barrier"
    first: int = 0
    count: int = -1
    nofile: int = 0

    @property
    def mine(self) -> range:
        """The ranks of this host."""
        return range(self.first, self.clients if self.count < 0 else self.first + self.count)

    def json(self) -> dict[str, Json]:
        return asdict(self)

    @classmethod
    def of(cls, record: dict[str, Any]) -> Job:
        return cls(**record)

    def shares(self) -> list[list[int]]:
        """The ranks of each process of this host; rank 0 has the first one alone."""
        others = [rank for rank in self.mine if rank != 0]
        count = min(self.processes, len(others))
        head = [[0]] if 0 in self.mine else []
        return [*head, *(others[place::count] for place in range(count))]


@dataclass(frozen=True, slots=True)
class Reading:
    """What one rank saw in one round: CLOCK_MONOTONIC seconds, the same clock in every process of a host.

    ``created`` is when its store was made, ``barriers`` when it came to each and when it left, ``added`` the same of the one
    add that all ranks do at once. ``cpu`` are the seconds of its own thread until created. ``server`` and ``operations`` are
    rank 0's and the last rank's.
    """

    rank: int
    began: float
    created: float
    barriers: list[tuple[float, float]]
    added: tuple[float, float]
    cpu: float
    server: dict[str, Any] | None = None
    operations: dict[str, list[float]] | None = None
