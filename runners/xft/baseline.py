"""What xFT's own scripts choose on a host: run_benchmark.sh's modes by node count, run.sh's formulas for cores.

Source: xFT 2.1.2, benchmark/run_benchmark.sh and run.sh. They read three numbers of lscpu and whether node 3 has CPUs, and
take it that CPUs are numbered core by core, first siblings first (or, with XFT_CLOUD_ENV=1, sibling by sibling).
"""

from __future__ import annotations

from dataclasses import dataclass

from runners.topology import Topology, format_list


@dataclass(frozen=True, slots=True)
class ScriptRank:
    """One call of run.sh: FIRST_TOKEN_WEIGHT_LOCATION, the node that memory is bound to (-m), cores (-C), OMP_NUM_THREADS."""

    first: int
    node: int
    cpus: tuple[int, ...]
    threads: int


@dataclass(frozen=True, slots=True)
class Script:
    mode: str
    ranks: tuple[ScriptRank, ...]


def choose(
    sockets: int, cores_per_socket: int, nodes: int, *, used: int, node3_has_cpus: bool = True, cloud: bool = False
) -> Script | str:
    """What ``run_benchmark.sh -s used`` starts on a host of which lscpu says these numbers, or the script's error.

    ``cloud`` is XFT_CLOUD_ENV=1.
    """
    # The script doubles so that nodes without CPUs, which lscpu counts, leave a whole number.
    doubled = sockets * cores_per_socket * 2 // nodes
    per_socket = {16: 4, 8: 4, 6: 3, 3: 3}
    first_hbm = 0
    if nodes == 16:
        mode, count, threads, first_hbm = "HBM flat SNC-4", 4 * used, doubled, 8
    elif nodes == 4 and sockets == 2 and not node3_has_cpus:
        mode, count, threads, first_hbm = "HBM flat quad", used, doubled, 2
    elif nodes == 4 and sockets == 2:
        mode, count, threads = "EMR SNC-2", 2 * used, doubled // 2
    elif nodes == 4 and sockets == 4:
        mode, count, threads = "4-socket quad", used, doubled // 2
    elif nodes in per_socket and sockets * per_socket[nodes] == nodes:
        mode, count, threads = f"SNC-{per_socket[nodes]}", per_socket[nodes] * used, doubled // 2
    elif nodes == 2:
        mode, count, threads = "Quad", used, doubled // 2
    elif nodes == 1:
        mode, count, threads = "General Test", 1, doubled // 2
    else:
        return "Please double check the memory nodes"
    ranks = [
        ScriptRank(index, index + first_hbm, cores(index, threads, cores_per_socket, nodes, cloud=cloud), threads)
        for index in range(count)
    ]
    return Script(mode, tuple(ranks))


def cores(index: int, threads: int, cores_per_socket: int, nodes: int, *, cloud: bool) -> tuple[int, ...]:
    """run.sh's range for rank ``index``: where nodes are of different size, the first ones of a socket get a core more."""
    if cloud:
        start = threads * 2 * index
        return tuple(range(start, start + 2 * threads, 2))
    front = back = 0
    rest = cores_per_socket % threads
    if rest:
        offset = nodes // 2 if threads * index + threads > cores_per_socket else 0
        front, back = min(rest, index - offset), min(rest, index + 1 - offset)
        if offset:
            front, back = front + rest, back + rest
    return tuple(range(threads * index + front, threads * index + threads + back))


def of_topology(host: Topology) -> Script | str:
    """What the script starts on all sockets of a host, with XFT_CLOUD_ENV=1 where siblings are neighbours, as it advises.

    A sentence where it gives up, or where its cores are not those that it means: then nobody would use it as it is.
    """
    sockets = max(1, len(host.cores_by_socket))
    per_socket = sum(host.cores_by_socket.values()) // sockets
    node3 = next((node for node in host.nodes if node.number == 3), None)
    chosen = choose(
        sockets,
        max(1, per_socket),
        len(host.nodes),
        used=sockets,
        node3_has_cpus=node3 is not None and bool(node3.cpus),
        cloud=host.adjacent,
    )
    if isinstance(chosen, str):
        return f"xFT's script gives up on {len(host.nodes)} NUMA nodes ({chosen})"
    core_of = {cpu: number for number, core in enumerate(host.cores) for cpu in core.cpus}
    taken: set[int] = set()
    for rank in chosen.ranks:
        where = f"cores {format_list(rank.cpus)}"
        if not all(cpu in core_of for cpu in rank.cpus):
            return f"xFT's script would take {where}, and not all of them may be used here"
        cores = [core_of[cpu] for cpu in rank.cpus]
        if len(set(cores)) < len(cores) or taken & set(cores):
            return f"xFT's script would take {where}, and some of these are the same core"
        taken |= set(cores)
        if rank.node not in host.memory_nodes:
            return f"xFT's script would bind memory to node {rank.node}, and there is none that may be used"
    return chosen
