"""Builds trees of /sys and /proc as hosts of many shapes have them, from a few numbers."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from runners.topology import Topology, format_list, here, probe

GIB = 1 << 30
SPR = "avx2 avx512f avx512bw avx512vl avx512dq avx512_vnni avx512_fp16 avx512_bf16 amx_tile amx_bf16 amx_int8 fma f16c"
ICX = "avx2 avx512f avx512bw avx512vl avx512dq avx512_vnni fma f16c"
ZEN3 = "avx2 fma f16c"


@dataclass(frozen=True)
class Host:
    """``nodes`` are cores of each NUMA node with CPUs, in order of sockets; ``memory_nodes`` the sizes of those without.

    ``siblings``: "far" numbers all first siblings before all second ones, "adjacent" core by core; ``smt`` 1 has none.
    ``near`` gives for each node without CPUs the node with CPUs that it is nearest to. ``cgroup`` is the version of the
    hierarchy that holds ``cpuset``, ``mems``, ``quota`` and ``memory_limit``, on the group ``job`` below ``slice``.
    """

    nodes: Sequence[int] = (2,)
    sockets: int = 1
    smt: int = 1
    siblings: Literal["far", "adjacent"] = "far"
    node_memory: int = 64 * GIB
    memory_nodes: Sequence[int] = ()
    near: Sequence[int] = ()
    node_numbers: Sequence[int] = ()
    offline: Sequence[int] = ()
    affinity: str = ""
    cgroup: Literal[1, 2] = 2
    cpuset: str = ""
    mems: str = ""
    quota: float | None = None
    memory_limit: int | None = None
    hostname: str = "node1"
    flags: str = SPR
    model: str = "Example CPU"
    package: int | None = None
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def cores(self) -> int:
        return sum(self.nodes)

    def cpus_of_core(self, core: int) -> list[int]:
        if self.siblings == "adjacent":
            return [core * self.smt + each for each in range(self.smt)]
        return [core + each * self.cores for each in range(self.smt)]


def build(root: Path, host: Host) -> Path:
    """Writes the tree below ``root`` and returns it."""
    files: dict[str, str] = {}
    cpu = "sys/devices/system/cpu"
    every = sorted(each for core in range(host.cores) for each in host.cpus_of_core(core))
    online = [each for each in every if each not in host.offline]
    files[f"{cpu}/online"] = format_list(online)
    files[f"{cpu}/offline"] = format_list(host.offline)
    files[f"{cpu}/isolated"] = ""
    numbers = list(host.node_numbers) or list(range(len(host.nodes) + len(host.memory_nodes)))
    core, node_cpus, core_ids = 0, [], {}
    for index, count in enumerate(host.nodes):
        socket = index * host.sockets // len(host.nodes)
        mine: list[int] = []
        for _ in range(count):
            # Core numbers are repeated from socket to socket and have gaps, as on real hosts.
            core_ids[socket] = core_ids.get(socket, -1) + (2 if core_ids.get(socket, 0) % 7 == 5 else 1)
            cpus = host.cpus_of_core(core)
            for each in cpus:
                (root / cpu / f"cpu{each}").mkdir(parents=True, exist_ok=True)
                if each in host.offline:
                    continue
                alive = [one for one in cpus if one not in host.offline]
                files[f"{cpu}/cpu{each}/topology/core_id"] = str(core_ids[socket])
                package = socket if host.package is None else host.package
                files[f"{cpu}/cpu{each}/topology/physical_package_id"] = str(package)
                files[f"{cpu}/cpu{each}/topology/thread_siblings_list"] = format_list(alive)
            mine += cpus
            core += 1
        node_cpus.append([each for each in mine if each in online])
    sizes = [host.node_memory] * len(host.nodes) + list(host.memory_nodes)
    node = "sys/devices/system/node"
    for place, number in enumerate(numbers):
        folder = f"{node}/node{number}"
        files[f"{folder}/cpulist"] = format_list(node_cpus[place]) if place < len(host.nodes) else ""
        files[f"{folder}/meminfo"] = (
            f"Node {number} MemTotal:   {sizes[place] // 1024} kB\nNode {number} MemFree:    {sizes[place] // 2048} kB\n"
            f"Node {number} Active(file):   1024 kB\nNode {number} Inactive(file): 1024 kB\n"
        )
        files[f"{folder}/distance"] = " ".join(str(_distance(host, place, other)) for other in range(len(numbers)))
    files[f"{node}/online"] = format_list(numbers)
    files[f"{node}/has_cpu"] = format_list(number for number, cpus in zip(numbers, node_cpus, strict=False) if cpus)
    files[f"{node}/has_memory"] = format_list(numbers[place] for place in range(len(numbers)) if sizes[place])
    mask = host.affinity or host.cpuset or format_list(every)
    mems = host.mems or format_list(numbers)
    files["proc/self/status"] = f"Name:\tx\nCpus_allowed_list:\t{mask}\nMems_allowed_list:\t{mems}\n"
    files["proc/sys/kernel/hostname"] = host.hostname
    files["proc/sys/kernel/osrelease"] = "6.1.0"
    files["proc/meminfo"] = f"MemTotal: {sum(sizes) // 1024} kB\nMemAvailable: {sum(sizes) // 2048} kB\n"
    files["proc/cpuinfo"] = (
        f"processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 207\nmodel name\t: {host.model}\n"
        f"flags\t\t: fpu sse {host.flags}\n"
    )
    files |= _cgroup(host) | host.extra
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n" if text and not text.endswith("\n") else text or "\n")
    return root


def _distance(host: Host, one: int, other: int) -> int:
    if one == other:
        return 10
    low, high = sorted((one, other))
    if high < len(host.nodes):
        same = low * host.sockets // len(host.nodes) == high * host.sockets // len(host.nodes)
        return 12 if same else 21
    if low < len(host.nodes):
        return 13 if host.near[high - len(host.nodes)] == low else 23
    return 24


def _cgroup(host: Host) -> dict[str, str]:
    period = 100_000
    if host.cgroup == 2:
        files = {"proc/self/cgroup": "0::/slice/job\n", "sys/fs/cgroup/slice/job/cgroup.procs": ""}
        if host.cpuset:
            files["sys/fs/cgroup/slice/job/cpuset.cpus.effective"] = host.cpuset
        if host.mems:
            files["sys/fs/cgroup/slice/job/cpuset.mems.effective"] = host.mems
        files["sys/fs/cgroup/slice/job/cpu.max"] = "max 100000"
        if host.quota is not None:
            files["sys/fs/cgroup/slice/cpu.max"] = f"{int(host.quota * period)} {period}"
        files["sys/fs/cgroup/slice/job/memory.max"] = "max" if host.memory_limit is None else str(host.memory_limit)
        return files
    files = {"proc/self/cgroup": "5:cpuset:/slice/job\n4:cpu,cpuacct:/slice/job\n3:memory:/slice/job\n0::/\n"}
    base = "sys/fs/cgroup"
    files[f"{base}/cpuset/slice/job/cpuset.cpus"] = host.cpuset
    files[f"{base}/cpuset/slice/job/cpuset.mems"] = host.mems
    files[f"{base}/cpu,cpuacct/slice/job/cpu.cfs_quota_us"] = "-1" if host.quota is None else str(int(host.quota * period))
    files[f"{base}/cpu,cpuacct/slice/job/cpu.cfs_period_us"] = str(period)
    limit = 9223372036854771712 if host.memory_limit is None else host.memory_limit
    files[f"{base}/memory/slice/job/memory.limit_in_bytes"] = str(limit)
    return files


def topology(root: Path, host: Host) -> Topology:
    """The topology of a host, through a tree of files."""
    return here(str(build(root, host)))


SHAPES: dict[str, Host] = {
    "quad": Host((48, 48), 2, 2),
    "general": Host((48,), 1, 2),
    "cloud": Host((48,), 1, 2, "adjacent", node_memory=384 * GIB, hostname="xftest01"),
    "hbm-snc4": Host((14,) * 8, 2, 2, memory_nodes=(16 * GIB,) * 8, near=tuple(range(8))),
    "snc4": Host((14,) * 8, 2, 2),
    "hbm-quad": Host((56, 56), 2, 2, memory_nodes=(64 * GIB, 64 * GIB), near=(0, 1)),
    "hbm-crossed": Host((56, 56), 2, 2, memory_nodes=(64 * GIB, 64 * GIB), near=(1, 0)),
    "snc2": Host((24,) * 4, 2, 2),
    "uneven": Host((43, 43, 42, 43, 43, 42), 2, 2),
    "nps4": Host((8,) * 8, 2, 2, flags="avx2 avx512f avx512bw avx512vl avx512dq avx512_vnni avx512_bf16 fma f16c"),
    "twelve-nodes": Host((10,) * 12, 2),
    "four-sockets": Host((24,) * 4, 4, 2),
    "cpuset": Host((32, 32), 2, cpuset="8-15", mems="0"),
    "cpuset-v1": Host((32, 32), 2, cpuset="8-15", mems="0", cgroup=1),
    "offline": Host((8, 8), 2, 2, offline=(3, 16, 17, 20)),
    "sparse": Host((4, 4), 2, node_numbers=(0, 8)),
    "small": Host((2,), 1),
}


@cache
def shaped(name: str) -> Topology:
    """The topology of one of SHAPES; its tree is built once a run of the tests, and gone again."""
    with tempfile.TemporaryDirectory() as folder:
        return topology(Path(folder), SHAPES[name])


@cache
def told(name: str) -> dict[str, Any]:
    """What the probe tells on a host of one of SHAPES."""
    with tempfile.TemporaryDirectory() as folder:
        return probe.gather(str(build(Path(folder), SHAPES[name])))
