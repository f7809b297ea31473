"""Where a start's time goes, and what mends the largest part of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from runners.tcpstore import names
from runners.tcpstore.figures import Start
from runners.tcpstore.names import Lookup

# A part below this share of the start is not what bounds it.
_SHARE = 0.3
_CLIENTS_HERE, _CLIENTS_THERE = "the clients' CPU on this machine", "the clients' CPU on their hosts"
_WORTH = 20.0


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """``parts`` are milliseconds of a start that add up to it; ``bound_by`` is the largest, ``sentence`` says so, ``mend``
    what to do. ``outside`` says that it is a large part and that no choice of a server or barrier changes it.
    """

    parts: dict[str, float]
    bound_by: str
    sentence: str
    mend: str
    outside: bool


def diagnose(
    starts: Sequence[Start], barriers: float, lookup: Lookup, *, by_name: bool, backend: str, ranks: int,
    somaxconn: int | None, hosts: Sequence[str] = (),
) -> Diagnosis:  # fmt: skip
    """Splits the median of ``starts``; ``lookup`` is what ranks see that look the host up at once, ``hosts`` are those of the
    ranks, () for this machine alone.
    """
    clients = _CLIENTS_THERE if hosts else _CLIENTS_HERE
    creation = median(each.creation for each in starts)
    left = creation
    parts: dict[str, float] = {}

    def take(name: str, amount: float) -> None:
        nonlocal left
        parts[name] = round(max(0.0, min(left, amount)), 2)
        left -= parts[name]

    overflows = sum(each.counters["overflows"] for each in starts)
    refused = sum(each.counters["refused"] for each in starts)
    take("reverse look-up", 1000 * lookup.reverse * _in_a_row(lookup, creation))
    take("forward look-up", 1000 * lookup.forward if by_name else 0.0)
    take("server CPU", median(each.server_cpu[0] for each in starts))
    take(clients, median(each.clients_cpu for each in starts))
    waiting = "backlog" if overflows else "start order" if refused else "waiting"
    parts[waiting] = round(left, 2)
    parts["barriers"] = round(barriers * median(each.barrier for each in starts), 2)
    name = max(parts, key=lambda each: parts[each])
    total = creation + parts["barriers"]
    counts = {"backlog": overflows, "start order": refused}.get(waiting, 0)
    sentence = f"{name} takes {parts[name]:.0f} of {total:.0f} ms of this start" + (
        f" ({counts} connections were {'thrown away' if overflows else 'refused'})" if name == waiting and counts else ""
    )
    mend = _mend(name, lookup, backend, ranks, somaxconn)
    ours = name in ("server CPU", clients, "waiting", "barriers")
    return Diagnosis(parts, name, sentence, mend, not ours and parts[name] >= max(_WORTH, _SHARE * total))


def _in_a_row(lookup: Lookup, creation: float) -> int:
    """Slow look-ups that a start of ``creation`` ms waited for one after the other: a client's, then the server's of it.

    Present torch gives up look-ups in a process after the first that failed; older servers make one a client.
    """
    if lookup.reverse < names.SLOW:
        return 1
    return max(1, int(creation / (1000 * lookup.reverse) + 0.05))


def _mend(name: str, lookup: Lookup, backend: str, ranks: int, somaxconn: int | None) -> str:
    if name == "reverse look-up":
        return names.mend(lookup)
    if name == "forward look-up":
        return f"a line for {lookup.host} in every host's /etc/hosts, or --address ip"
    if name == "backlog":
        line = f"sudo sysctl -w net.core.somaxconn={wanted_backlog(ranks)}"
        return f"{line} on rank 0's host (now {somaxconn}), before the server starts"
    if name == "start order":
        return "let the other ranks begin when rank 0's port listens (--start server_first or listening)"
    if name == "server CPU":
        return "the libuv server" if backend == "legacy" else "a core for rank 0's process alone"
    if name == "barriers":
        return "store.barrier, or fewer barriers on the store"
    if name == _CLIENTS_HERE:
        return "nothing on the store: in the job these ranks run on machines of their own"
    if name == _CLIENTS_THERE:
        return "nothing on the store: fewer ranks a host, or cores that are idle when the job starts"
    return "nothing on the store: the ranks waited for their turns and for packets"


def wanted_backlog(ranks: int) -> int:
    return max(4096, 1 << (ranks - 1).bit_length())
