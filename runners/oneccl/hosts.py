"""Asks the hosts of a job what oneCCL finds on them, and says what stands in the way."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from typing import Any

from runners.hosts import probe
from runners.hosts.host import Host
from runners.hosts_doctor import unreachable
from runners.launch.direct import Ssh
from runners.launch.job import Job, Rank
from runners.launch.reach import Reach
from runners.launch.together import Together
from runners.oneccl import host_program
from runners.oneccl.library import Found
from runners.oneccl.place import Facts, Place
from runners.oneccl.sent import command
from runners.runner import EnvironmentProblem, Failure, Problem
from spaces.units import format_size

_LIMIT = 90.0
# What Intel MPI and oneCCL take of it for each rank of a host, with a little to spare.
_SHM_A_RANK = 32 << 20


def ask(place: Place, found: Found, reach: Reach, python: str) -> dict[str, Facts]:
    """What each host told, by its name. Raises EnvironmentProblem for one that can't be asked."""
    together = Together()
    answers = together.each(lambda host: _ask(host, place, found, reach, python, together), place.hosts)
    told: dict[str, Facts] = {}
    for host, answer in zip(place.hosts, answers, strict=True):
        if isinstance(answer, Failure):
            problem = unreachable(host, answer)
            raise EnvironmentProblem(problem.message, problem.mend)
        told[host.name] = answer
    return told


def _ask(host: Host, place: Place, found: Found, reach: Reach, python: str, together: Together) -> Facts | Failure:
    env = {**found.environment(), "FI_PROVIDER_PATH": str(found.root / "lib")}
    folders = (found.root / "bin" / "libfabric", found.mpi_root / "bin" / "libfabric",
               found.mpi_root / "opt" / "mpi" / "libfabric" / "bin")  # fmt: skip
    request: dict[str, Any] = {
        "names": [other.name for other in place.hosts if other != host][:256],
        "library": str(found.library),
        "env": env,
        "fi_info": [str(folder / "fi_info") for folder in folders],
    }
    job = Job((Rank(host, command(python, (probe, host_program))),), _LIMIT)
    return together.ask(Ssh(reach), job, request, _LIMIT)


def own_names() -> frozenset[str]:
    return frozenset({"localhost", "127.0.0.1", "::1", socket.gethostname()})


def problems(place: Place, found: Found, told: Mapping[str, Facts], need: int, *, api: bool = True) -> Iterator[Problem]:
    """What each host lacks; ``need`` are the bytes of a rank's buffers. ``api``: oneCCL's C API is needed."""
    for name, facts in told.items():
        where = "this host" if place.here else name
        error = facts["library"].get("error")
        if error and api:
            mend = f"on {where}: python -m pip install 'clustertune[oneccl]', or name its folder with --ccl-root"
            yield Problem("oneccl-library", "error", f"{where} can't load {found.library}: {error}", mend)
        cores = len(facts["cpus"])
        if cores < place.ppn:
            yield Problem(
                "oneccl-cores",
                "warning",
                f"{place.ppn} ranks share {cores} cores of {where}: they wait for each other's turn, and the figures tell how "
                "the system shares cores rather than how oneCCL moves messages",
                f"--ppn {cores}" if cores * len(place.hosts) > 1 else "measure where ranks have a core each",
            )
        wanted = _SHM_A_RANK * place.ppn
        if facts["shm"] < wanted:
            yield Problem(
                "oneccl-shm",
                "warning",
                f"{where} has {format_size(facts['shm'])} of shared memory in /dev/shm, and {place.ppn} ranks take up to "
                f"{format_size(wanted)}: they die of SIGBUS when it is full",
                f"on {where}: sudo mount -o remount,size=2G /dev/shm (a container: --shm-size=2g)",
            )
        if need * place.ppn > facts["memory"] // 2:
            yield Problem(
                "oneccl-memory",
                "error",
                f"the buffers of {place.ppn} ranks take {format_size(need * place.ppn)} and {where} has "
                f"{format_size(facts['memory'] >> 20 << 20)} free",
                "smaller --sizes, or fewer ranks with --ppn",
            )
        if facts["rdma"]:
            devices = ", ".join(f"{device} ({each['driver'] or 'no driver'})" for device, each in facts["rdma"].items())
            yield Problem("oneccl-rdma", "note", f"{where} has RDMA devices: {devices}")
            if facts["memlock"] is not None:
                mend = f"on {where}: add '* - memlock unlimited' to /etc/security/limits.conf and log in again"
                limit = format_size(facts["memlock"])
                yield Problem("oneccl-memlock", "warning", f"{where} lets a process lock {limit} only, RDMA needs more", mend)
    nodes = [facts["node"] for facts in told.values()]
    if len(set(nodes)) < len(nodes):
        same = next(node for node in nodes if nodes.count(node) > 1)
        yield Problem(
            "oneccl-same-name",
            "error",
            f"several hosts call themselves {same!r}: oneCCL takes them for one host with shared memory",
            "on each of them: sudo hostnamectl set-hostname NAME (NAMEs that differ)",
        )
    versions = {facts["library"].get("version") for facts in told.values()} - {None}
    if len(versions) > 1:
        yield Problem("oneccl-version", "error", f"hosts have different oneCCL: {', '.join(sorted(map(str, versions)))}",
                      "install the same version everywhere, or share its folder")  # fmt: skip
