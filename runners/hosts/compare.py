"""From what hosts told about themselves to the problems that a user should know: no host is asked anything here."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from runners.launch.mpi import TITLES, recognise
from runners.runner import Problem
from spaces.units import format_size

Facts = Mapping[str, Any]
_SHM = 512 << 20
_CLOCK = 1.0


@dataclass(frozen=True, slots=True)
class Told:
    """One host's facts (runners.hosts.probe), with how far its clock is ahead of ours and how sure that is, in seconds."""

    facts: Facts
    ahead: float
    unsure: float


def compared(hosts: Mapping[str, Told]) -> list[Problem]:
    """What is wrong on a host, and where hosts differ that should be alike. Names are those of the user's list."""
    problems = [*_names(hosts), *_clocks(hosts), *_versions(hosts), *_hardware(hosts), *_networks(hosts)]
    for name, told in hosts.items():
        problems += [*_memory(name, told.facts), *_rdma(name, told.facts)]
    return problems


def differing(hosts: Mapping[str, Told], of: Callable[[Facts], Any]) -> dict[str, list[str]]:
    """Hosts by what ``of`` says of each, the most frequent first; empty where all say the same."""
    groups: dict[str, list[str]] = {}
    for name, told in hosts.items():
        groups.setdefault(str(of(told.facts)), []).append(name)
    return dict(sorted(groups.items(), key=lambda item: -len(item[1]))) if len(groups) > 1 else {}


def listed(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"


def spelled(groups: Mapping[str, list[str]]) -> str:
    return "; ".join(f"{value or 'none'} on {listed(names)}" for value, names in groups.items())


def _names(hosts: Mapping[str, Told]) -> Iterator[Problem]:
    nodes = Counter(str(told.facts["node"]) for told in hosts.values())
    for node, count in nodes.items():
        if count > 1:
            same = [name for name, told in hosts.items() if told.facts["node"] == node]
            yield Problem(
                "hosts-same-name",
                "error",
                f"{listed(same)} all call themselves {node!r}: libraries take them for one host with shared memory",
                f"on each of them: sudo hostnamectl set-hostname NAME (NAMEs that differ); or name one of {listed(same)} only",
            )
    for name, told in hosts.items():
        node = str(told.facts["node"])
        for asked, addresses in told.facts["resolved"].items():
            own = asked in (node, name)
            if addresses and all(loopback(each) for each in addresses) and len(hosts) > 1:
                whose = "its own name" if own else "the name"
                yield Problem(
                    "hosts-loopback-name",
                    "warning" if own else "error",
                    f"on {name}, {whose} {asked!r} leads to {addresses[0]}, where no other host can reach it",
                    f"on {name}: in /etc/hosts give {asked} its address in the network instead of {addresses[0]}",
                )
            elif not addresses and not own:
                yield Problem(
                    "hosts-unknown-name",
                    "warning",
                    f"{name} doesn't know the name {asked!r}",
                    f"on {name}: add a line with its address and {asked} to /etc/hosts",
                )


def loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _clocks(hosts: Mapping[str, Told]) -> Iterator[Problem]:
    for name, told in hosts.items():
        if abs(told.ahead) - told.unsure > _CLOCK:
            way = "ahead of" if told.ahead > 0 else "behind"
            yield Problem(
                "hosts-clock",
                "warning",
                f"the clock of {name} is {abs(told.ahead):.1f} s {way} this host's",
                f"on {name}: sudo chronyc makestep (or: sudo timedatectl set-ntp true)",
            )


def _versions(hosts: Mapping[str, Told]) -> Iterator[Problem]:
    for title, of, mend in (
        (
            "Python",
            lambda facts: facts["python"].rpartition(".")[0],
            "use the same Python on all hosts, by a shared folder or --python",
        ),
        (
            "mpirun",
            lambda facts: _mpi(facts["mpi"]),
            "install the same MPI everywhere and put it on the PATH of a plain ssh login",
        ),
        ("machine", lambda facts: facts["machine"], "use hosts of one architecture"),
    ):
        if groups := differing(hosts, of):
            yield Problem(f"hosts-{title.lower()}", "warning", f"hosts differ in {title}: {spelled(groups)}", mend)
    libraries = sorted({library for told in hosts.values() for library in told.facts["libraries"]})
    for library in libraries:
        if groups := differing(hosts, lambda facts, library=library: facts["libraries"].get(library, "")):  # type: ignore[misc]
            version = next(version for version in groups if version)
            others = [name for value, names in groups.items() if value != version for name in names]
            yield Problem(
                f"hosts-{library}",
                "warning",
                f"hosts differ in {library}: {spelled(groups)}",
                f"on {listed(others)}: python3 -m pip install {library}=={version}",
            )


def _mpi(text: str) -> str:
    told = recognise(text)
    return f"{TITLES[told[0]]} {told[1]}" if told else (text.strip().splitlines() or [""])[0][:60]


def _hardware(hosts: Mapping[str, Told]) -> Iterator[Problem]:
    mend = "tune groups of equal hosts one by one: settings for one kind need not fit the other"
    for id, title, of in (
        ("processor", "processor", lambda facts: facts["processor"]["model"]),
        ("cpus", "usable CPUs", lambda facts: facts["processor"]["usable"]),
        ("numa", "NUMA nodes", lambda facts: facts["processor"]["numa"]),
        ("memory", "memory", lambda facts: f"{facts['processor']['memory'] / 2**30:.0f} GiB"),
    ):
        if id == "memory":
            sizes = [told.facts["processor"]["memory"] for told in hosts.values()]
            # Firmware keeps a little for itself, not the same on every host: 5 % is no difference.
            if not sizes or min(sizes) >= 0.95 * max(sizes):
                continue
        if groups := differing(hosts, of):
            yield Problem(f"hosts-{id}", "warning", f"hosts differ in {title}: {spelled(groups)}", mend)


def _networks(hosts: Mapping[str, Told]) -> Iterator[Problem]:
    joined = {name: told for name, told in hosts.items() if _link(told.facts)}
    if groups := differing(joined, lambda facts: f"{_link(facts)['speed'] or 'unknown'} Mbit/s"):
        mend = "the slowest link bounds every collective: check cable, switch port and negotiated speed (ethtool)"
        yield Problem("hosts-link-speed", "warning", f"hosts differ in link speed: {spelled(groups)}", mend)
    if groups := differing(joined, lambda facts: _link(facts)["mtu"]):
        mend = "sudo ip link set dev INTERFACE mtu N, the same N on all hosts and on the switch"
        yield Problem("hosts-mtu", "warning", f"hosts differ in MTU: {spelled(groups)}", mend)
    if groups := differing(hosts, lambda facts: ", ".join(sorted(each["driver"] or "?" for each in facts["rdma"].values()))):
        mend = "leave out the hosts without, or choose a transport that all have (tcp)"
        yield Problem("hosts-rdma", "warning", f"hosts differ in RDMA devices: {spelled(groups)}", mend)


def _link(facts: Facts) -> Mapping[str, Any]:
    """The interface by which we came in, or that the host's own name leads to; empty where neither is known."""
    for address in (facts["address"], *facts["resolved"].get(facts["node"], [])):
        for interface in facts["interfaces"].values():
            if address and interface["address"] == address:
                return dict(interface)
    return {}


def _memory(name: str, facts: Facts) -> Iterator[Problem]:
    if facts["shm"] < _SHM:
        yield Problem(
            "hosts-shm",
            "warning",
            f"{name} has {format_size(facts['shm'])} of shared memory in /dev/shm: ranks crash when it is full",
            f"on {name}: sudo mount -o remount,size=2G /dev/shm (a container: --shm-size=2g)",
        )
    if facts["rdma"] and facts["memlock"] is not None:
        yield Problem(
            "hosts-memlock",
            "warning",
            f"{name} lets a process lock {format_size(facts['memlock'])} only, and RDMA needs all of its buffers locked",
            f"on {name}: add '* - memlock unlimited' to /etc/security/limits.conf and log in again",
        )


def _rdma(name: str, facts: Facts) -> Iterator[Problem]:
    for device, told in facts["rdma"].items():
        for port, state in told["ports"].items():
            if state["state"] != "ACTIVE":
                yield Problem(
                    "hosts-rdma-port",
                    "warning",
                    f"port {port} of {device} on {name} is {state['state'] or 'without state'}",
                    f"on {name}: rdma link show {device}/{port}; then cable and switch port",
                )
        if told["driver"] == "erdma":
            yield Problem(
                "hosts-erdma",
                "note",
                f"{device} on {name} is Alibaba eRDMA; set FI_OFI_RXM_USE_SRX=0 (it has no shared receive queues), check "
                "congestion control and delayed ACK, place the instances in a low-latency deployment set on distinct hosts",
                f"look, change nothing: eadm ver; eadm stat -d {device} -l",
            )
