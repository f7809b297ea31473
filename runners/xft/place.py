"""Where ranks may run and who starts them: hosts, launcher, network, and what each host tells of its cores and memory."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from runners.hosts import hosts_for
from runners.hosts.host import Host
from runners.hosts_doctor import unreachable
from runners.launch.direct import Local, Ssh
from runners.launch.job import Job, Launcher, Rank
from runners.launch.mpirun import Mpirun, mpirun
from runners.launch.reach import Reach
from runners.launch.together import Together
from runners.oneccl import library
from runners.oneccl.options import Options as CclOptions
from runners.oneccl.place import Network, network, words
from runners.runner import EnvironmentProblem, Failure, UsageError
from runners.topology.record import BadRecord, topology
from runners.topology.topology import Topology
from runners.xft.engines.sending import command
from runners.xft.options import Options
from spaces.xft import VARIABLES

HERE = Host("localhost")
_LIMIT = 90.0
_MODULES = ("runners.hosts.probe", "runners.topology.probe", "runners.xft.host_program")
# Variables of these families would become part of every setting; where things are is kept.
_FAMILIES = ("OMP_", "GOMP_", "KMP_", "CCL_", "FI_", "ATL_", "I_MPI_", "XFT_", "XDNN_", "VLLM_")
_KEPT = (
    "I_MPI_ROOT", "I_MPI_HYDRA_", "I_MPI_PORT_RANGE", "I_MPI_TMPDIR", "I_MPI_PMI_", "I_MPI_JOB_", "CCL_ROOT",
    "I_MPI_SUBSTITUTE_INSTALLDIR", "FI_PROVIDER_PATH",
)  # fmt: skip


def strays(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Variables of this shell that would change every measurement without being part of a setting."""
    return sorted(
        name
        for name in environ
        if (name.startswith(_FAMILIES) or name in VARIABLES) and not name.startswith(_KEPT) and environ[name]
    )


@dataclass(frozen=True)
class Place:
    """What can be known of ``options`` without asking a host; the rest is asked when it is wanted first.

    ``why`` says how the launcher was chosen. ``strays`` are variables of the shell that ranks are started without.
    """

    options: Options
    hosts: tuple[Host, ...]
    launcher: Mpirun | Ssh
    why: str
    python: str
    strays: tuple[str, ...]

    @classmethod
    def of(cls, options: Options, before: tuple[str, ...] = ()) -> Place:
        """``before`` comes before each program that is started on this host. Raises UsageError and EnvironmentProblem."""
        hosts = hosts_for(options.hosts) or (HERE,)
        if len(hosts) == 1 and hosts[0].name in ("localhost", socket.gethostname()) and hosts[0].user is None:
            hosts = (HERE,)
        hosts = tuple(Host(host.name, 1, host.user, host.port) for host in hosts)
        away = tuple(strays())
        without = ("env", *(word for name in away for word in ("-u", name))) if away else ()
        python = options.python or (sys.executable if hosts == (HERE,) else "python3")
        own_names = frozenset({"localhost", "127.0.0.1", "::1", socket.gethostname()})
        reach = Reach(words("ssh", options.ssh), (*before, *without), python, here=own_names)
        launcher, why = _launcher(options, reach, hosts)
        return cls(options, hosts, launcher, why, python, away)

    @property
    def alone(self) -> bool:
        """All ranks on one host."""
        return len(self.hosts) == 1

    @property
    def reach(self) -> Reach:
        return self.launcher.reach

    @cached_property
    def ccl(self) -> library.Found | None:
        """The oneCCL by which ranks of ours may add up; None where this host has none, or its launcher starts none."""
        if not isinstance(self.launcher, Mpirun) or self.launcher.mpi.kind == "openmpi":
            return None
        try:
            return library.find(CclOptions(mpi=self.options.mpi))
        except (EnvironmentProblem, UsageError):
            return None

    @cached_property
    def told(self) -> dict[str, dict[str, Any]]:
        """What each host tells, by its name (runners.xft.host_program). Raises EnvironmentProblem."""
        together = Together()
        answers = together.each(lambda host: self._ask(together, host), self.hosts)
        found = {}
        for host, answer in zip(self.hosts, answers, strict=True):
            if isinstance(answer, Failure):
                problem = unreachable(host, answer)
                raise EnvironmentProblem(problem.message, problem.mend)
            found[host.name] = answer
        return found

    def _ask(self, together: Together, host: Host) -> dict[str, Any] | Failure:
        names = [other.name for other in self.hosts if other != host][:256]
        request = {"names": names, "paths": [str(self.ccl.library)] if self.ccl else []}
        job = Job((Rank(host, command(self.python, _MODULES)),), _LIMIT)
        return together.ask(Ssh(self.reach), job, request, _LIMIT)

    @cached_property
    def topologies(self) -> dict[str, Topology]:
        """By the host's name in the list. Raises EnvironmentProblem."""
        found = {}
        for name, told in self.told.items():
            try:
                found[name] = topology(told["topology"])
            except BadRecord as error:
                raise EnvironmentProblem(f"{name}: what it tells of its CPUs can't be used: {error}") from None
        return found

    @cached_property
    def network(self) -> Network:
        """Raises UsageError for an interface that is not there, EnvironmentProblem where hosts share no network."""
        names = [host.name for host in self.hosts]
        found = network(
            CclOptions(iface=self.options.iface), names, {name: told["network"] for name, told in self.told.items()}
        )
        if not self.alone and not found.address:
            raise EnvironmentProblem(
                f"it is not known by which interface {names[0]} can be reached from the others",
                f"name it with --iface; {names[0]} has {', '.join(sorted(self.told[names[0]]['network']['interfaces']))}",
            )
        return found

    def starter(self) -> Launcher:
        """The launcher, on the network that was chosen."""
        if isinstance(self.launcher, Mpirun) and self.network.iface not in ("", "lo"):
            return replace(self.launcher, interface=self.network.iface)
        return self.launcher

    @cached_property
    def iomp5(self) -> str:
        """Where libiomp5.so lies, on all hosts alike, as the variable is the same for all; "" otherwise."""
        paths = {told["libraries"].get("libiomp5.so", "") for told in self.told.values()}
        return str(paths.pop()) if len(paths) == 1 else ""

    @property
    def by_hand(self) -> Ssh:
        """For a program that starts its own ranks, or a single process: no mpirun around it."""
        return Local(self.reach) if self.hosts == (HERE,) else Ssh(self.reach)

    def facts(self) -> dict[str, Any]:
        mpi = {"mpirun": self.launcher.mpi.program[-1]} if isinstance(self.launcher, Mpirun) else {}
        iface = {} if self.alone else {"iface": self.network.iface}
        return {"hosts": [host.name for host in self.hosts], **self.launcher.facts(), **mpi, **iface}


def _launcher(options: Options, reach: Reach, hosts: tuple[Host, ...]) -> tuple[Mpirun | Ssh, str]:
    by_hand: Ssh = Local(reach) if hosts == (HERE,) else Ssh(reach)
    if options.launcher == "ssh":
        if options.mpi:
            raise UsageError("mpi", options.mpi, "is not used with --launcher ssh; leave one of them out")
        return by_hand, "--launcher names it"
    program = _program(options.mpi)
    if not program:
        if options.launcher == "mpirun":
            raise EnvironmentProblem(
                "there is no mpirun beside this Python and none on the PATH",
                "python -m pip install impi-rt, or name one with --mpi",
            )
        return by_hand, "there is no mpirun here"
    found = mpirun((program,), reach)
    if isinstance(found, Failure):
        if options.mpi or options.launcher == "mpirun":
            raise EnvironmentProblem(
                found.reason, "name the mpirun of Intel MPI, MPICH or Open MPI with --mpi, or --launcher ssh"
            )
        return by_hand, f"the mpirun that is there can't be used: {found.reason}"
    return found, f"{found.mpi.title} is there"


def _program(given: str) -> str:
    """The mpirun to use, "" where there is none. Raises UsageError."""
    if given:
        return library.named_mpirun(given)
    beside = Path(sys.prefix) / "bin" / "mpirun"
    return str(beside) if beside.exists() else "mpirun" if shutil.which("mpirun") else ""
