"""From what every rank saw to what a start took: pure arithmetic on one clock's readings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import Any

from runners.tcpstore.crowd import Round
from runners.tcpstore.job import Reading


@dataclass(frozen=True, slots=True)
class Start:
    """One start of the job, in milliseconds.

    ``creation`` until the slowest rank had its store, ``middle`` until half of them had; ``rank0`` is the server's own.
    ``barrier`` is the median over the barriers of the time from the last rank's coming to the last one's leaving.
    ``server_cpu`` is what rank 0's process computed in ``creation`` and in all barriers, ``clients_cpu`` what all the others
    computed together in ``creation``. ``early`` says that a rank left a barrier before another came to it.
    """

    creation: float
    middle: float
    rank0: float
    barrier: float
    add_all: float
    server_cpu: tuple[float, float]
    clients_cpu: float
    early: str
    counters: dict[str, int]

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Start:
        return cls(**{**record, "server_cpu": tuple(record["server_cpu"])})


def start(seen: Round) -> Start:
    """What the readings of all ranks come to."""
    by_rank = sorted(seen.readings, key=lambda reading: reading.rank)
    created = sorted(reading.created for reading in by_rank)
    server = by_rank[0].server
    assert server is not None
    barriers = [_barrier(by_rank, number) for number in range(len(by_rank[0].barriers))]
    early = next((number for number, (_, left_before) in enumerate(barriers) if left_before), None)
    return Start(
        creation=_ms(created[-1] - seen.released),
        middle=_ms(created[len(created) // 2] - seen.released),
        rank0=_ms(by_rank[0].created - seen.released),
        barrier=_ms(median(seconds for seconds, _ in barriers)) if barriers else 0.0,
        add_all=_ms(max(r.added[1] for r in by_rank) - max(r.added[0] for r in by_rank)),
        server_cpu=(_ms(server["cpu_creation"]), _ms(server["cpu_barriers"])),
        clients_cpu=_ms(sum(reading.cpu for reading in by_rank[1:])),
        early="" if early is None else f"a rank left barrier {early + 1} before another had come to it",
        counters=asdict(seen.counters),
    )


def _barrier(readings: Sequence[Reading], number: int) -> tuple[float, bool]:
    """Seconds from the last coming to the last leaving, and whether somebody left before all had come."""
    came = [reading.barriers[number][0] for reading in readings]
    left = [reading.barriers[number][1] for reading in readings]
    return max(left) - max(came), min(left) < max(came)


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 4)


def metrics(starts: Sequence[Start], operations: Mapping[str, Sequence[float]], barriers: int) -> dict[str, float]:
    """The objective ``startup_ms`` (creation plus ``barriers`` barriers) and its parts.

    The objective is the mean of the starts: clients that come too early back off in some starts and not in others, and what
    starts cost on the whole is what counts. The parts are medians.


    ``operations`` gives by name the median and 90 % quantile of one call, in seconds.
    """
    found = {
        "startup_ms": fmean(_startup(each, barriers) for each in starts),
        "startup_half_ms": median(_startup(each, barriers) for each in starts),
        "creation_ms": median(each.creation for each in starts),
        "creation_half_ms": median(each.middle for each in starts),
        "rank0_ms": median(each.rank0 for each in starts),
        "barrier_ms": median(each.barrier for each in starts),
        "startup_worst_ms": max(_startup(each, barriers) for each in starts),
        "add_all_ms": median(each.add_all for each in starts),
        "server_cpu_ms": median(sum(each.server_cpu) for each in starts),
    }
    for name, (middle, _) in operations.items():
        found[f"{name}_us"] = 1e6 * middle
    return {name: float(f"{value:.6g}") for name, value in found.items()}


def samples(starts: Sequence[Start], barriers: int) -> tuple[float, ...]:
    """The objective of each start, in milliseconds."""
    return tuple(round(_startup(each, barriers), 4) for each in starts)


def _startup(each: Start, barriers: int) -> float:
    return each.creation + barriers * each.barrier
