"""From what every rank saw to what a start took: pure arithmetic, on one clock or on several with known differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import Any

from runners.tcpstore.crowd import Round
from runners.tcpstore.job import Reading
from runners.tcpstore.weigh import Weights


@dataclass(frozen=True, slots=True)
class Start:
    """One start of the job, in milliseconds.

    ``creation`` until the slowest rank had its store, ``middle`` until half of them had; ``rank0`` is the server's own.
    ``barrier`` is the median over the barriers of the time from the last rank's coming to the last one's leaving.
    ``server_cpu`` is what rank 0's process computed in ``creation`` and in all barriers, ``clients_cpu`` what the others
    computed in ``creation``, spread over their host's cores, on the host where that is most. ``early`` says that a rank left a
    barrier before another came to it. Of ranks on several hosts: ``apart`` between the first host's beginning and the last
    one's, ``unsure`` how far the hosts' clocks may be from what is assumed.
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
    apart: float = 0.0
    unsure: float = 0.0

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Start:
        return cls(**{**record, "server_cpu": tuple(record["server_cpu"])})


@dataclass(frozen=True, slots=True)
class Part:
    """What the ranks of one host saw of one start, in seconds of that host's clock.

    ``barriers`` gives for each barrier when the last rank of the host came, when the first one left and when the last one did;
    ``added`` when the last one began the common add and when the last one was through.
    """

    released: float
    serving: float
    created: list[float]
    rank0: float | None
    barriers: list[tuple[float, float, float]]
    added: tuple[float, float]
    cpu: float
    counters: dict[str, int]
    server: dict[str, Any] | None
    operations: dict[str, list[float]] | None

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Part:
        return cls(**{**record, "barriers": [tuple(each) for each in record["barriers"]], "added": tuple(record["added"])})

    def shifted(self, seconds: float) -> Part:
        """The same on a clock that is ``seconds`` ahead of this one."""
        return Part(
            self.released + seconds,
            self.serving,
            [each + seconds for each in self.created],
            None if self.rank0 is None else self.rank0 + seconds,
            [(came + seconds, first + seconds, last + seconds) for came, first, last in self.barriers],
            (self.added[0] + seconds, self.added[1] + seconds),
            self.cpu,
            self.counters,
            self.server,
            self.operations,
        )


def part(seen: Round, cores: int) -> Part:
    """What the readings of a host's ranks come to; ``cores`` are those that they share."""
    readings = sorted(seen.readings, key=lambda reading: reading.rank)
    head = readings[0] if readings[0].rank == 0 else None
    return Part(
        seen.released,
        seen.serving,
        sorted(reading.created for reading in readings),
        None if head is None else head.created,
        [_barrier(readings, number) for number in range(len(readings[0].barriers))],
        (max(r.added[0] for r in readings), max(r.added[1] for r in readings)),
        sum(reading.cpu for reading in readings if reading.rank) / cores,
        asdict(seen.counters),
        None if head is None else head.server,
        readings[-1].operations,
    )


def _barrier(readings: Sequence[Reading], number: int) -> tuple[float, float, float]:
    came = [reading.barriers[number][0] for reading in readings]
    left = [reading.barriers[number][1] for reading in readings]
    return max(came), min(left), max(left)


def start(parts: Sequence[Part], unsure: float = 0.0) -> Start:
    """One start of all ranks from the parts of all hosts, on one clock; no two hosts' clocks differ by more than ``unsure``
    seconds from what was assumed.

    Nobody is later than the last host that began, and what it took to tell the hosts to begin is nobody's: time counts from
    there, plus what rank 0's server took to listen where all others waited for that.
    """
    head = next(each for each in parts if each.server is not None)
    assert head.server is not None
    assert head.rank0 is not None
    released = max(each.released for each in parts)
    created = sorted(moment for each in parts for moment in each.created)
    barriers = [_over_hosts([each.barriers[n] for each in parts], unsure) for n in range(len(head.barriers))]
    early = next((number for number, (_, left_before) in enumerate(barriers) if left_before), None)

    def since(moment: float) -> float:
        return _ms(max(0.0, moment - released) + head.serving)

    return Start(
        creation=since(created[-1]),
        middle=since(created[len(created) // 2]),
        rank0=since(head.rank0),
        barrier=_ms(median(seconds for seconds, _ in barriers)) if barriers else 0.0,
        add_all=_ms(max(0.0, max(each.added[1] for each in parts) - max(each.added[0] for each in parts))),
        server_cpu=(_ms(head.server["cpu_creation"]), _ms(head.server["cpu_barriers"])),
        clients_cpu=_ms(max(each.cpu for each in parts)),
        early="" if early is None else f"a rank left barrier {early + 1} before another had come to it",
        counters={name: sum(each.counters[name] for each in parts) for name in head.counters},
        apart=_ms(released - min(each.released for each in parts)),
        unsure=_ms(unsure),
    )


def _over_hosts(barriers: Sequence[tuple[float, float, float]], unsure: float) -> tuple[float, bool]:
    """Seconds from the last coming to the last leaving, and whether somebody surely left before all had come."""
    last_came = max(came for came, _, _ in barriers)
    first_left = min(first for _, first, _ in barriers)
    return max(0.0, max(last for _, _, last in barriers) - last_came), first_left < last_came - unsure


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 4)


def metrics(starts: Sequence[Start], operations: Mapping[str, Sequence[float]], weights: Weights) -> dict[str, float]:
    """The objective ``startup_ms`` (what ``weights`` make of creation and barrier) and its parts.

    The objective is the mean of the starts: clients that come too early back off in some starts and not in others, and what
    starts cost on the whole is what counts. The parts are medians.

    ``operations`` gives by name the median and 90 % quantile of one call, in seconds.
    """
    weighed = samples(starts, weights)
    found = {
        "startup_ms": fmean(weighed),
        "startup_half_ms": median(weighed),
        "creation_ms": median(each.creation for each in starts),
        "creation_half_ms": median(each.middle for each in starts),
        "rank0_ms": median(each.rank0 for each in starts),
        "barrier_ms": median(each.barrier for each in starts),
        "startup_worst_ms": max(weighed),
        "add_all_ms": median(each.add_all for each in starts),
        "server_cpu_ms": median(sum(each.server_cpu) for each in starts),
    }
    for name, (middle, _) in operations.items():
        found[f"{name}_us"] = 1e6 * middle
    return {name: float(f"{value:.6g}") for name, value in found.items()}


def samples(starts: Sequence[Start], weights: Weights) -> tuple[float, ...]:
    """The objective of each start, in milliseconds."""
    return tuple(round(weights.of(each.creation, each.barrier), 4) for each in starts)
