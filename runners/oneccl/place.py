"""Where the ranks of a job are: hosts, ranks on each, their cores, and how they find each other."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from runners.hosts import hosts_for
from runners.hosts.host import Host
from runners.oneccl.options import Options
from runners.runner import UsageError

Facts = Mapping[str, Any]
HERE = Host("localhost")
_MOST_RANKS = 4096
_MOST_CPU = 65535


@dataclass(frozen=True, slots=True)
class Place:
    """``pins`` has the cores of each rank in order of ranks, or is empty: then the launcher pins."""

    hosts: tuple[Host, ...]
    ppn: int
    pins: tuple[tuple[int, ...], ...] = ()

    @property
    def ranks(self) -> int:
        return len(self.hosts) * self.ppn

    @property
    def alone(self) -> bool:
        """All ranks on one host."""
        return len(self.hosts) == 1

    @property
    def here(self) -> bool:
        """The one host is this one."""
        return self.hosts == (HERE,)

    def host_of(self, rank: int) -> Host:
        return self.hosts[rank // self.ppn]

    def pinned(self, rank: int) -> dict[str, str]:
        """Intel MPI's variable for a rank, the list of its host: it takes one core a rank so."""
        if any(len(cores) > 1 for cores in self.pins) or not self.pins:
            return {}
        first = rank // self.ppn * self.ppn
        return {"I_MPI_PIN_PROCESSOR_LIST": ",".join(str(cores[0]) for cores in self.pins[first : first + self.ppn])}

    def pinned_by_mpirun(self) -> dict[str, str]:
        """Intel MPI's variable for whole sets of cores, which it reads once for all hosts."""
        if all(len(cores) == 1 for cores in self.pins):
            return {}
        masks = (sum(1 << core for core in cores) for cores in self.pins[: self.ppn])
        return {"I_MPI_PIN_DOMAIN": f"[{','.join(f'{mask:x}' for mask in masks)}]"}


def place(options: Options) -> Place:
    """Raises UsageError."""
    hosts = hosts_for(options.hosts) or (HERE,)
    if len(hosts) == 1 and hosts[0].name in ("localhost", socket.gethostname()) and hosts[0].user is None:
        hosts = (Host("localhost", hosts[0].slots),)
    if options.ppn < 0:
        raise UsageError("ppn", options.ppn, "must be a whole number of at least 1, or 0 for what the hosts file says")
    slots = [host.slots for host in hosts]
    if not options.ppn and len(set(slots)) > 1:
        raise UsageError("ppn", options.ppn, "the hosts file gives hosts different numbers of ranks; name one number for all")
    ppn = options.ppn or (slots[0] if slots[0] > 1 else 2)
    plain = tuple(Host(host.name, 1, host.user, host.port) for host in hosts)
    if len(plain) * ppn < 2:
        raise UsageError("ppn", options.ppn, "one rank alone moves nothing; take at least 2 ranks")
    if len(plain) * ppn > _MOST_RANKS:
        raise UsageError("ppn", options.ppn, f"{len(plain) * ppn} ranks are more than the {_MOST_RANKS} that can be started")
    return Place(plain, ppn, _pins(options.pin, len(plain), ppn))


def _pins(text: str, hosts: int, ppn: int) -> tuple[tuple[int, ...], ...]:
    if not text:
        return ()
    entries = [_cores(text, entry.strip()) for entry in text.split(",")]
    for first, second in combinations(entries[:ppn], 2):
        if len(first) + len(second) > 2 and (both := set(first) & set(second)):
            raise UsageError("pin", text, f"two ranks of a host have the core {min(both)}; ranges must not overlap")
    if len(entries) == ppn:
        return tuple(entries) * hosts
    if len(entries) == hosts * ppn and any(len(cores) > 1 for cores in entries):
        raise UsageError("pin", text, f"ranges of cores are the same on all hosts; name {ppn} of them, or one core a rank")
    if len(entries) == hosts * ppn:
        return tuple(entries)
    want = f"{ppn} for the ranks of a host" + (f" or {hosts * ppn} for all ranks" if hosts > 1 else "")
    raise UsageError("pin", text, f"names cores for {len(entries)} ranks; it takes {want}")


def _cores(text: str, entry: str) -> tuple[int, ...]:
    first, dash, last = entry.partition("-")
    if not first.isdecimal() or (dash and not last.isdecimal()):
        raise UsageError("pin", text, f"{entry!r} is no core; write a number or a range for each rank, like 0-3,4-7")
    low, high = int(first), int(last or first)
    if low > high:
        raise UsageError("pin", text, f"{entry!r} is no range of cores; write the smaller number first")
    if high > _MOST_CPU:
        raise UsageError("pin", text, f"{entry!r}: no host has so many cores")
    return tuple(range(low, high + 1))


def check_pins(options: Options, place: Place, told: Mapping[str, Facts]) -> None:
    """Raises UsageError for cores that a host doesn't have, or doesn't let us use."""
    for rank, cores in enumerate(place.pins):
        host = place.host_of(rank).name
        usable = set(told[host]["cpus"])
        if strange := sorted(set(cores) - usable):
            have = ",".join(map(str, sorted(usable)))
            raise UsageError("pin", options.pin, f"{host} has no core {strange[0]} that can be used; it has {have}")


def words(option: str, command: str) -> tuple[str, ...]:
    """A command as typed in one option."""
    try:
        found = tuple(shlex.split(command))
    except ValueError:
        raise UsageError(option, command, "a quote is not closed") from None
    if not found:
        raise UsageError(option, "''", f"name a program, like {option}")
    return found


@dataclass(frozen=True, slots=True)
class Network:
    """``iface`` is what oneCCL and MPI are told, "" where they may choose; ``address`` is where rank 0 can be reached.

    ``speed`` of the link in Mbit/s, None where it is not known. ``reason`` says how the interface was chosen.
    """

    iface: str
    address: str
    speed: int | None
    reason: str = ""


def network(options: Options, hosts: Sequence[str], told: Mapping[str, Facts]) -> Network:
    """The network between ``hosts``, from what each told. Raises UsageError for an interface that they don't all have."""
    all_names = [set(told[host]["interfaces"]) for host in hosts]
    shared = set.intersection(*all_names)
    if options.iface:
        if options.iface != "lo" and options.iface not in shared:
            have = "; ".join(f"{host} has {', '.join(sorted(told[host]['interfaces'])) or 'none'}" for host in hosts)
            missing = next(host for host in hosts if options.iface not in told[host]["interfaces"])
            raise UsageError("iface", options.iface, f"{missing} has no such interface; {have}")
        return Network(
            options.iface, _address(told[hosts[0]], options.iface), _speed(hosts, told, options.iface), "--iface names it"
        )
    if len(hosts) == 1:
        return Network("", "", None)
    used = {_used(host, hosts, told) for host in hosts}
    if len(used) == 1 and (name := used.pop()):
        several = any(len(_usable(told[host])) > 1 for host in hosts)
        reason = f"the hosts reach each other by {name}"
        return Network(name if several else "", _address(told[hosts[0]], name), _speed(hosts, told, name), reason)
    own = told[hosts[0]]["interfaces"].get(_used(hosts[0], hosts, told), {})
    return Network("", str(own.get("address", "")), None)


def _usable(facts: Facts) -> list[str]:
    return [name for name, each in facts["interfaces"].items() if each["address"]]


def _used(host: str, hosts: Sequence[str], told: Mapping[str, Facts]) -> str:
    """The interface of ``host`` by which the others know it: that of its ssh connection, or of its name's address."""
    wanted = [told[host]["address"]]
    wanted += [told[other]["caller"] for other in hosts if other != host and not told[host]["address"]]
    wanted += [address for other in hosts if other != host for address in told[other]["resolved"].get(host, [])]
    for address in wanted:
        for name, each in told[host]["interfaces"].items():
            if address and each["address"] == address:
                return str(name)
    return ""


def _address(facts: Facts, name: str) -> str:
    return str(facts["interfaces"].get(name, {}).get("address", "")) or ("127.0.0.1" if name == "lo" else "")


def _speed(hosts: Sequence[str], told: Mapping[str, Facts], name: str) -> int | None:
    speeds = [told[host]["interfaces"].get(name, {}).get("speed") for host in hosts]
    known = [speed for speed in speeds if speed]
    return min(known) if len(known) == len(hosts) else None
