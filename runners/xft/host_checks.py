"""What stands in the way of CPU inference on single hosts: cores, instruction sets, software and permissions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from runners.hosts.compare import listed
from runners.hosts.host import Host
from runners.hosts_doctor import unreachable
from runners.runner import Failure, Problem
from runners.topology import Topology, format_list
from runners.topology.drawing import drawn
from runners.xft import isa
from runners.xft.options import Options

Told = Mapping[str, Any]
_SHM = 1 << 30
_AMX_KERNEL = (5, 16)


def of_topologies(topologies: Mapping[str, Topology]) -> Iterator[Problem]:
    """The map of each host, and what about its cores a user should know."""
    drawn_for: dict[str, list[str]] = {}
    for name, host in topologies.items():
        drawn_for.setdefault(drawn(host), []).append(name)
    for text, names in drawn_for.items():
        head = f"{listed(names)}\n" if len(topologies) > 1 or names != ["localhost"] else ""
        yield Problem("xft-map", "note", f"{head}{text}")
    called: dict[str, list[str]] = {}
    for name, host in topologies.items():
        called.setdefault(host.hostname, []).append(name)
    for hostname, names in called.items():
        if len(names) > 1:
            yield Problem(
                "xft-same-name",
                "warning",
                f"{listed(names)} all call themselves {hostname!r}: xFT takes them for one host with shared memory; "
                "ranks get XFT_ONECCL=1, which keeps that off",
                "on each of them: sudo hostnamectl set-hostname NAME (NAMEs that differ)",
            )
    for name, host in _alike(topologies):
        yield from _of_cores(name, host)


def _alike(topologies: Mapping[str, Topology]) -> list[tuple[str, Topology]]:
    """Hosts that differ in nothing but their own name, together: their names in the user's list, and one of them."""
    groups: list[tuple[list[str], Topology]] = []
    for name, host in topologies.items():
        same = next((names for names, other in groups if replace(host, hostname=other.hostname) == other), None)
        if same is None:
            groups.append(([name], host))
        else:
            same.append(name)
    return [(listed(names), host) for names, host in groups]


def _of_cores(name: str, host: Topology) -> Iterator[Problem]:
    if host.quota is not None:
        few = host.most_threads < len(host.cores)
        yield Problem(
            "xft-quota",
            "warning",
            f"{name}: control groups allow {host.quota:g} CPUs' worth of time"
            + (f", so that {host.most_threads} of {len(host.cores)} cores are used; " if few else "; ")
            + "a quota stops all threads at once when it is used up",
            "give the container whole CPUs instead (docker --cpuset-cpus, Kubernetes static CPU policy)",
        )
    if host.adjacent:
        yield Problem(
            "xft-siblings",
            "note",
            f"{name}: neighbouring CPUs are one core: the range 0-{len(host.cores) - 1} would be half of the cores, each "
            "twice; xFT's scripts need XFT_CLOUD_ENV=1 here",
        )
    sizes = {len(host.cores_of(node)) for node in host.cpu_nodes}
    if len(sizes) > 1:
        counts = ", ".join(f"node {node} {len(host.cores_of(node))}" for node in host.cpu_nodes)
        message = f"{name}: nodes have different numbers of cores ({counts}); each rank gets a thread for each of its own"
        yield Problem("xft-uneven", "note", message)
    if host.isolated:
        kept = format_list(host.isolated)
        yield Problem("xft-isolated", "note", f"{name}: the kernel keeps other work off CPUs {kept} (isolcpus)")
    release = re.match(r"(\d+)\.(\d+)", host.kernel)
    if "amx_tile" in host.flags and release and (int(release[1]), int(release[2])) < _AMX_KERNEL:
        yield Problem(
            "xft-kernel",
            "warning",
            f"{name}: kernel {host.kernel} does not let programs use AMX, which the CPU has",
            "a kernel of 5.16 or newer",
        )


def of_engine(options: Options, topologies: Mapping[str, Topology]) -> Iterator[Problem]:
    """What xFT can compute with on each CPU; an error where it was asked for and can't run."""
    for name, host in _alike(topologies):
        dtype = options.dtype if options.dtype in isa.XFT_DTYPES else "bf16"
        problem = isa.refusal(dtype, name, host)
        if problem is None:
            yield Problem("xft-dtypes", "note", f"{name}: xFT computes with {', '.join(isa.able(host.flags))}")
        elif options.engine == "xft":
            yield problem
        else:
            yield Problem(problem.id, "note", f"{problem.message}; this matters to --engine xft alone")


def of_host(name: str, told: Told | Failure, host: Topology, shm: int) -> Iterator[Problem]:
    """Software and permissions of a host that was asked."""
    if isinstance(told, Failure):
        yield unreachable(Host(name), told)
        return
    numactl = told["numactl"]
    several = len(host.memory_nodes) > 1
    if not numactl["path"]:
        yield Problem(
            "xft-numactl",
            "warning",
            f"{name} has no numactl, which the emitted run_xft.sh starts ranks with",
            f"on {name}: sudo apt-get install -y numactl (or: dnf install numactl)",
        )
    elif not numactl["binds"]:
        yield Problem(
            "xft-numactl",
            "warning" if not several else "error",
            f"{name}: numactl may not place memory ({numactl['said'] or 'no reason given'})",
            "a container needs --cap-add SYS_NICE, or --privileged; --memory none measures without",
        )
    if shm < _SHM:
        yield Problem(
            "xft-shm",
            "warning",
            f"{name} has {shm / 2**20:.0f} MiB of shared memory in /dev/shm: ranks end with a bus error when it is full",
            f"on {name}: sudo mount -o remount,size=16G /dev/shm (a container: --shm-size=16g)",
        )
    yield from _of_wheel(name, told["xft"], told["libraries"])
    if told["huge_pages"] == "never":
        yield Problem(
            "xft-huge-pages",
            "note",
            f"{name}: transparent huge pages are switched off, so that the knob huge_pages does nothing",
            f"on {name}: echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
        )


def _of_wheel(name: str, xft: Told, libraries: Mapping[str, bool]) -> Iterator[Problem]:
    if not xft["place"]:
        yield Problem(
            "xft-package",
            "note",
            f"{name}: there is no package xfastertransformer in this Python; other engines need none",
            "in an environment of its own, torch from the CPU index: pip install torch==2.7.0 xfastertransformer==2.1.2",
        )
        return
    yield Problem("xft-package", "note", f"{name}: xfastertransformer {xft['version'] or '?'} in {xft['place']}")
    wanted = next((need for need in xft["requires"] if re.match(r"torch\b", need)), "")
    bounds = re.findall(r"(>=|<)\s*([0-9]+)\.([0-9]+)", wanted)
    have = re.match(r"([0-9]+)\.([0-9]+)", xft["torch"])
    if not have:
        message = f"{name}: xfastertransformer needs {wanted or 'torch'}, and there is no torch"
        yield Problem("xft-torch", "warning", message, f"pip install '{wanted or 'torch'}', from the index of CPU builds")
    elif any(_outside((int(have[1]), int(have[2])), sign, (int(one), int(two))) for sign, one, two in bounds):
        yield Problem(
            "xft-torch",
            "warning",
            f"{name}: xfastertransformer needs {wanted} and torch is {xft['torch']}: its library would not load (undefined "
            "symbol)",
            "install the two in an environment of their own, and name its Python with --python",
        )
    lacking = [library for library, there in libraries.items() if not there]
    if lacking:
        yield Problem(
            "xft-libraries",
            "warning",
            f"{name}: the loader finds no {', '.join(lacking)}, which xFT loads (libccl and libmpi for several ranks)",
            "sudo apt-get install -y libnuma1; pip install 'clustertune[oneccl]'; source setvars.sh before ranks start",
        )


def _outside(have: tuple[int, int], sign: str, bound: tuple[int, int]) -> bool:
    return have < bound if sign == ">=" else have >= bound
