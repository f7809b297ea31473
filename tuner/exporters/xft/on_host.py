"""Checks the cores that a script's ranks get against the hosts that they are on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from runners.topology import Topology, format_list
from runners.topology.drawing import listed
from tuner.exporters.issue import Issue
from tuner.exporters.xft.calls import Call


def on_hosts(found: Sequence[Call], hosts: Mapping[str, Topology]) -> Iterator[Issue]:
    """Ranks on CPUs or memory that are not there, and on both siblings of cores while others do nothing."""
    for call in found:
        host = hosts.get(call.host or "localhost")
        if host is None:
            continue
        if call.memory is not None and (missing := [node for node in call.memory[1] if node not in host.memory_nodes]):
            have = format_list(host.memory_nodes)
            message = f"there is no memory that may be used on node {missing[0]}: numactl ends the rank"
            yield Issue(call.line, call.tool, message, f"of these nodes: {have}")
        if call.cpus is None:
            continue
        if missing := [cpu for cpu in call.cpus if cpu not in host.cpus]:
            message = f"CPU {missing[0]} may not be used on {host.hostname}: numactl ends the rank"
            yield Issue(call.line, call.tool, message, f"of these CPUs: {listed(list(host.cpus))}")
            continue
        cores = [core for core in host.cores if set(core.cpus) & set(call.cpus)]
        nodes = {core.node for core in cores}
        near = [core for core in host.cores if core.node in nodes]
        if len(cores) < len(call.cpus) and len(cores) < len(near):
            one = format_list([core.cpus[0] for core in near][: len(call.cpus)])
            often = "each twice" if host.smt == 2 else "each several times"
            where = f"CPUs {listed(list(call.cpus))}{f' of {call.host}' if call.host else ''}"
            message = f"{where} are {len(cores)} cores, {often}, and {len(near) - len(cores)} cores beside them do nothing"
            yield Issue(call.line, call.tool, message, f"one CPU of each core: -C {one}")
