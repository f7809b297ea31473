"""Which host has how many ranks, and whether each has what they take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runners.hosts.host import Host
from runners.runner import Problem, UsageError
from runners.tcpstore import fit

_MOST = 1 << 24


@dataclass(frozen=True, slots=True)
class Share:
    """The ranks ``first`` to ``first + count - 1``, on ``host``."""

    host: Host
    first: int
    count: int


def spread(hosts: Sequence[Host], ranks: int) -> list[Share]:
    """Blocks of ranks in the order of the hosts, by their slots, as launchers place them; every host has one at least.

    Raises UsageError where there are more hosts than ranks.
    """
    if ranks < len(hosts):
        raise UsageError("world-size", ranks, f"{len(hosts)} hosts are named; each holds at least one rank")
    slots = sum(host.slots for host in hosts)
    ideal = [ranks * host.slots / slots for host in hosts]
    counts = [max(1, int(each)) for each in ideal]
    while (left := ranks - sum(counts)) != 0:
        step = 1 if left > 0 else -1
        able = [place for place, count in enumerate(counts) if count + step >= 1]
        place = max(able, key=lambda each: step * (ideal[each] - counts[each]))
        counts[place] += step
    found, first = [], 0
    for host, count in zip(hosts, counts, strict=True):
        found.append(Share(host, first, count))
        first += count
    return found


def processes(share: Share, wanted: int, has: fit.Machine) -> int:
    """Processes of the share's ranks; rank 0's own comes on top of them."""
    return fit.processes(share.count + (share.first > 0), wanted, has)


def problems(
    hosts: Sequence[Host],
    ranks: int,
    wanted: int,
    has: Sequence[fit.Machine],
    *,
    force: bool,
    raised: bool = False,
    search: bool = True,
) -> list[Problem]:
    """What there is not enough of on which host; ``has`` is what each of ``hosts`` has. ``search``: say what would fit."""

    def of(size: int, way: Callable[[], str]) -> list[Problem]:
        found = []
        for share, machine in zip(spread(hosts, size), has, strict=True):
            need = fit.Need(size if share.first == 0 else 0, share.count, processes(share, wanted, machine))
            found += fit.lacking(need, machine, way, force=force, raised=raised, host=share.host.name)
        return found

    return of(ranks, (lambda: way_out(largest(lambda size: not of(size, str), len(hosts)), ranks)) if search else str)


def way_out(most: int, ranks: int) -> str:
    return f"--world-size {most} is the largest that fits there, --predict {ranks} extrapolates from there"


def largest(fits: Callable[[int], bool], least: int) -> int:
    """The largest size that fits: what is taken grows with the size."""
    low, high = max(2, least), _MOST
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low
