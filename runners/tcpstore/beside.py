"""What is measured beside the settings: what holding several clients in a process changes, and how a start grows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from runners.runner import EnvironmentProblem, Json
from runners.tcpstore import fit
from runners.tcpstore.figures import Start
from runners.tcpstore.growth import PUBLISHED, Growth, grow
from spaces.units import format_duration

# One start of (clients, processes, backend); None when it failed.
Measure = Callable[[int, int, str], Start | None]

_REPEATS = 3
_SIZES = 6
_LEAST = 8
_ENOUGH = 2048


@dataclass(frozen=True, slots=True)
class Correction:
    """By number of clients: how many times as long joining and a barrier take with a process a client."""

    creation: dict[int, float]
    barrier: dict[int, float]
    processes: int
    hosts: int = 0

    def json(self) -> Json:
        return {
            "processes": self.processes,
            "creation": {str(n): round(ratio, 3) for n, ratio in self.creation.items()},
            "barrier": {str(n): round(ratio, 3) for n, ratio in self.barrier.items()},
        }

    def sentence(self) -> str:
        sizes = " and ".join(map(str, self.creation))
        joined = " and ".join(f"{ratio:.1f}x" for ratio in self.creation.values())
        waited = " and ".join(f"{ratio:.1f}x" for ratio in self.barrier.values())
        return (
            f"{self.processes} processes held all clients; with a process a client, {sizes} of them took {joined} as long to "
            f"join and {waited} as long in a barrier {_where(self.hosts)} (measured), so the milliseconds are not a job's"
        )


def _where(hosts: int) -> str:
    return f"on these {hosts} hosts" if hosts > 1 else "on this machine"


def correction(measure: Measure, world_size: int, has: fit.Machine, few: int, hosts: int = 0) -> Correction | None:
    """Two sizes that fit both ways, in turn; None where a start failed.

    ``has`` is the leanest of the hosts, ``few`` the processes a host that held the clients; ``hosts`` 0 is this machine.
    """
    most = world_size - 1
    while fit.processes(most, 0, has) < most - 1 and most > _LEAST:
        most //= 2
    sizes = (max(_LEAST, most // 4), most)
    creation, barrier = {}, {}
    for size in dict.fromkeys(sizes):
        seen: dict[int, list[Start]] = {few: [], size - 1: []}
        for _ in range(_REPEATS):
            for processes, found in seen.items():
                start = measure(size, processes, "libuv")
                if start is None:
                    return None
                found.append(start)
        one_each, held = seen[size - 1], seen[few]
        creation[size] = _ratio([s.creation for s in one_each], [s.creation for s in held])
        barrier[size] = _ratio([s.barrier for s in one_each], [s.barrier for s in held])
    return Correction(creation, barrier, few * max(1, hosts) + 1, hosts)


def _ratio(above: Sequence[float], below: Sequence[float]) -> float:
    return median(above) / median(below)


@dataclass(frozen=True, slots=True)
class Prediction:
    """``growths`` by server: milliseconds until all are in, and milliseconds of rank 0's CPU for that."""

    sizes: tuple[int, ...]
    growths: dict[str, tuple[Growth, Growth]]
    hosts: int = 0

    def json(self) -> Json:
        return {
            "extrapolated": True,
            "servers": {name: [_json(growth, self.sizes) for growth in pair] for name, pair in self.growths.items()},
            "published": [{key: str(value) for key, value in row.items()} for row in PUBLISHED],
        }

    def sentences(self) -> list[str]:
        found = []
        measured = sorted({n for pair in self.growths.values() for n, _ in pair[0].points})
        for size in self.sizes:
            parts = []
            for name, (creation, cpu) in self.growths.items():
                low, high = creation.interval(size)
                parts.append(
                    f"{name} {_time(creation.at(size))} ({_time(low)} to {_time(high)}), of which rank 0 computes "
                    f"{_time(cpu.at(size))}"
                )
            how = "extrapolated and not measured" if size > measured[-1] else "by the fit through what was measured"
            found.append(f"{size} ranks, {how}: {'; '.join(parts)}")
        models = ", ".join(
            f"{name} {'with' if pair[0].square_chosen else 'without'} a square" for name, pair in self.growths.items()
        )
        others = "; ".join(f"{row['ranks']} ranks {row['server']} {row['said']} ({row['source']})" for row in PUBLISHED)
        where = (
            f"{self.hosts} hosts, each of whose clients share"
            if self.hosts > 1
            else "this one host, all of whose clients share"
        )
        found.append(
            f"measured from {measured[0]} to {measured[-1]} ranks on {where} its cores; growth {models}; published: {others}"
        )
        return found


def _json(growth: Growth, sizes: Sequence[int]) -> Json:
    return {
        "points": [[n, value] for n, value in growth.points],
        "coefficients": list(growth.coefficients),
        "square": growth.square_chosen,
        "held_out_errors": list(growth.errors),
        "at": {str(size): [growth.at(size), *growth.interval(size)] for size in sizes},
    }


def _time(milliseconds: float) -> str:
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else format_duration(milliseconds / 1000)


def ladder(world_size: int, largest: int, hosts: int = 0) -> list[int]:
    """Sizes to extrapolate from: the largest is the job's own, or more where that fits, for growth shows above 1,000."""
    top = min(max(world_size, _ENOUGH), largest)
    return [n for n in (top >> shift for shift in range(_SIZES)) if n >= max(_LEAST, hosts)]


def prediction(
    measure: Measure, world_size: int, sizes: tuple[int, ...], largest: int, few: int, hosts: int = 0
) -> Prediction:
    """Both servers in turn at each size of the ladder, all with ``few`` processes a host that hold the clients.

    ``largest`` is the size that fits; ``hosts`` 0 is this machine. Raises EnvironmentProblem
    where too few sizes could be measured.
    """
    creation: dict[str, list[tuple[int, float]]] = {"libuv": [], "legacy": []}
    cpu: dict[str, list[tuple[int, float]]] = {"libuv": [], "legacy": []}
    for repeat in range(2):
        for size in reversed(ladder(world_size, largest, hosts)):
            for name in ("libuv", "legacy") if repeat else ("legacy", "libuv"):
                start = measure(size, few, name)
                if start is not None:
                    creation[name].append((size, start.creation))
                    cpu[name].append((size, start.server_cpu[0]))
    growths = {}
    for name, points in creation.items():
        pair = grow(points), grow(cpu[name])
        if pair[0] is not None and pair[1] is not None:
            growths[name] = (pair[0], pair[1])
    if not growths:
        raise EnvironmentProblem(
            "an extrapolation needs starts of at least four sizes and this machine has room for fewer",
            "a larger ulimit -n, or no --predict",
        )
    return Prediction(sizes, growths, hosts)
