"""Recorded topologies: from a host's record (runners.topology.probe) to a Topology, and JSON files of them.

A file holds one host's record, or {"schema": 1, "hosts": {name: record}}; `python -m runners.topology` prints one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runners.runner import UsageError
from runners.topology import probe
from runners.topology.cpulist import format_list, parse_list
from runners.topology.topology import Core, Node, Topology

Record = Mapping[str, Any]
_NEAR, _FAR = 10, 20
_MOST_BYTES = 16 << 20


class BadRecord(ValueError):
    """A record that can't be read; the message says what is wrong, as the end of a sentence."""


def here(root: str = "") -> Topology:
    """The topology of this host, or of the one whose /sys and /proc are below ``root``."""
    return topology(probe.gather(root))


def topology(told: Record) -> Topology:
    """Raises BadRecord for what is no record, or one without a CPU that may be used."""
    try:
        return _topology(told)
    except BadRecord:
        raise
    except KeyError as error:
        raise BadRecord(f"{error} is missing") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise BadRecord(str(error) or "its values are of another kind") from None


def _topology(told: Record) -> Topology:
    if told["schema"] != probe.SCHEMA:
        raise BadRecord(f"its schema is {told['schema']!r}, and {probe.SCHEMA} is read")
    online, slow = parse_list(told["online"]), parse_list(told.get("slow", ""))
    usable = set(parse_list(told["allowed_cpus"])) & set(online)
    near = told.get("allowed_nodes")
    reachable = None if near is None else set(parse_list(near))
    nodes = tuple(_node(each, reachable) for each in told["nodes"])
    if not nodes:
        raise BadRecord("it names no memory node")
    if len({node.number for node in nodes}) < len(nodes):
        raise BadRecord("it names a node twice")
    home = {cpu: node.number for node in nodes for cpu in node.cpus}
    cores: list[Core] = []
    seen: set[int] = set()
    by_socket: dict[int, int] = {}
    for each in told["cores"]:
        cpus = parse_list(each["cpus"])
        if seen & set(cpus):
            raise BadRecord(f"it names CPU {min(seen & set(cpus))} in two cores")
        seen |= set(cpus)
        by_socket[int(each["socket"])] = by_socket.get(int(each["socket"]), 0) + 1
        mine = tuple(cpu for cpu in cpus if cpu in usable and cpu not in slow)
        if mine:
            cores.append(Core(int(each["socket"]), home.get(mine[0], nodes[0].number), mine, cpus))
    if not cores:
        raise BadRecord("it has no CPU that may be used")
    processor = told.get("processor", {})
    quota, limit = told.get("quota"), told.get("memory_limit")
    return Topology(
        hostname=str(told["hostname"]),
        cores=tuple(sorted(cores, key=lambda core: core.cpus[0])),
        nodes=tuple(sorted(nodes, key=lambda node: node.number)),
        online=online,
        cores_by_socket={int(socket): int(count) for socket, count in told.get("cores_by_socket", by_socket).items()},
        offline=parse_list(told.get("offline", "")),
        isolated=parse_list(told.get("isolated", "")),
        slow=slow,
        quota=None if quota is None else float(quota),
        memory_limit=None if limit is None else int(limit),
        vendor=str(processor.get("vendor", "")),
        model=str(processor.get("model", "")),
        family=processor.get("family"),
        number=processor.get("number"),
        flags=frozenset(map(str, processor.get("flags", ()))),
        kernel=str(told.get("kernel", "")),
        machine=str(told.get("machine", "")),
    )


def _node(each: Record, reachable: set[int] | None) -> Node:
    number = int(each["node"])
    distances = {int(other): int(value) for other, value in each.get("distances", {}).items()}
    allowed = reachable is None or number in reachable
    return Node(
        number, parse_list(each["cpus"]), int(each["memory"]), int(each.get("free", each["memory"])), distances, allowed
    )


def written(hosts: Mapping[str, Record]) -> str:
    """The text of a file with the records of some hosts."""
    return json.dumps({"schema": probe.SCHEMA, "hosts": dict(hosts)}, indent=1) + "\n"


def read_file(path: str, names: tuple[str, ...]) -> dict[str, Topology]:
    """The topologies of the hosts ``names`` from a file; one that holds a single record holds for every host.

    Raises UsageError (--topology).
    """
    try:
        with Path(path).open("rb") as file:
            text = file.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            raise BadRecord("it is too large for a record of CPUs and memory")
        found = json.loads(text.decode())
    except OSError as error:
        raise UsageError("topology", path, f"can't be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        why = str(error) if isinstance(error, BadRecord) else "it is not JSON"
        raise UsageError("topology", path, f"{why}; `python -m runners.topology` on a host prints its record") from None
    if not isinstance(found, dict) or not {"hosts", "cores"} & found.keys():
        raise UsageError("topology", path, "is no recorded topology; `python -m runners.topology` on a host prints one")
    records = found["hosts"] if "hosts" in found else dict.fromkeys(names, found)
    if not isinstance(records, dict):
        raise UsageError("topology", path, "its hosts are not names with a record each")
    if len(records) == 1 and not records.keys() & set(names):
        records = dict.fromkeys(names, next(iter(records.values())))
    missing = [name for name in names if name not in records]
    if missing:
        have = ", ".join(map(str, list(records)[:4])) or "none"
        raise UsageError("topology", path, f"has no host {missing[0]}; it has {have}")
    topologies: dict[str, Topology] = {}
    for name in names:
        try:
            topologies[name] = topology(records[name])
        except BadRecord as error:
            raise UsageError("topology", path, f"the record of {name} can't be used: {error}") from None
    return topologies


def record(host: Topology) -> dict[str, Any]:
    """The record of a topology, without readings of the moment: all memory counts as free.

    Sizes are in steps of a few per cent, since a kernel keeps a little less or more for itself each time it starts.
    """
    allowed = tuple(node.number for node in host.nodes if node.allowed)
    return {
        "schema": probe.SCHEMA,
        "hostname": host.hostname,
        "kernel": host.kernel,
        "machine": host.machine,
        "processor": {
            "vendor": host.vendor,
            "model": host.model,
            "family": host.family,
            "number": host.number,
            "flags": sorted(host.flags),
        },
        "online": format_list(host.online),
        "offline": format_list(host.offline),
        "isolated": format_list(host.isolated),
        "slow": format_list(host.slow),
        "cores": [{"cpus": format_list(core.all_cpus), "socket": core.socket} for core in host.cores],
        "cores_by_socket": {str(socket): count for socket, count in sorted(host.cores_by_socket.items())},
        "nodes": [
            {
                "node": node.number,
                "cpus": format_list(node.cpus),
                "memory": _coarse(node.memory),
                "distances": {str(other): distance for other, distance in node.distances.items()},
            }
            for node in host.nodes
        ],
        "allowed_cpus": format_list(host.cpus),
        "allowed_nodes": format_list(allowed),
        "quota": host.quota,
        "memory_limit": None if host.memory_limit is None else _coarse(host.memory_limit),
    }


def _coarse(size: int) -> int:
    """The five highest bits of a size."""
    step = 1 << max(0, size.bit_length() - 5)
    return size // step * step
