"""Where the ranks of a measurement run: all on this machine, or spread over hosts. Both are asked alike."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from runners.hosts import Host, hosts_for
from runners.runner import EnvironmentProblem, Failure, FailureKind, Json, Problem, UsageError
from runners.tcpstore import fit, kernel, names, network
from runners.tcpstore.failures import explain
from runners.tcpstore.job import Job
from runners.tcpstore.names import Lookup
from runners.tcpstore.options import Options
from runners.tcpstore.starting import started, torch_version
from runners.worker import Reply, Worker

_MOST_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Found:
    """Rank 0's host: ``name`` and ``ip`` are what it can be called, ``lookup`` the slowest look-up that ranks see, ``refused``
    why a form can't be had, ``backlogs`` its kernel's, ``torch`` its version, "" where there is none.
    """

    name: str
    ip: str
    lookup: Lookup
    refused: Mapping[tuple[str, str], str]
    backlogs: Mapping[str, int]
    torch: str


class Place(Protocol):
    """``hosts`` are their names, () for this machine alone. A context for no longer than ``close``."""

    hosts: tuple[str, ...]

    @property
    def found(self) -> Found: ...

    def problems(self) -> list[Problem]:
        """What is to be known before anything is started there."""

    def facts(self) -> dict[str, Json]:
        """What a number that was measured there holds for."""

    def load(self) -> Mapping[str, Json]:
        """Makes torch ready; by name, what it can't do and why. Raises EnvironmentProblem."""

    def abilities(self) -> Mapping[str, Mapping[str, Json]]:
        """By host ("" is this machine), rank 0's first, what ``load`` found that its torch can't do."""

    def machines(self) -> list[fit.Machine]:
        """Each host's."""

    def processes(self, ranks: int, wanted: int) -> list[int]:
        """Of each host, for ``ranks`` ranks in all; rank 0's own comes on top."""

    def emulated(self, ranks: int, wanted: int) -> bool:
        """Whether a process holds several clients."""

    def largest(self) -> int:
        """The largest world size that fits."""

    def refusal(self, backlog: int) -> str:
        """Why rank 0's backlogs may not be raised to ``backlog``, "" when they may or need not."""

    def measure(self, job: Job, wanted: int, backlog: int, limit: float) -> Reply | Failure:
        """Some starts within ``limit`` seconds, with at most ``wanted`` processes a host (0: what it carries)."""

    def close(self) -> None: ...


def hosts_of(options: Options) -> tuple[Host, ...]:
    """The hosts that are asked for, () for this machine alone. Raises UsageError."""
    hosts = hosts_for(options.hosts)
    if hosts is None or [host.name for host in hosts] == ["localhost"]:
        return ()
    return hosts


def words(command: str) -> tuple[str, ...]:
    """``--ssh`` as an argument list. Raises UsageError."""
    try:
        found = tuple(shlex.split(command))
    except ValueError:
        raise UsageError("ssh", command, "a quote is not closed") from None
    if not found or not found[0]:
        raise UsageError("ssh", command or "''", "name a program, like ssh")
    return found


def _installed(command: str) -> tuple[str, ...]:
    """``--ssh`` as an argument list whose program is on this machine. Raises UsageError."""
    found = words(command)
    if shutil.which(found[0]) is None:
        raise UsageError(
            "ssh", command, f"{found[0]} is no program on this machine; install it (openssh-client) or name another"
        )
    return found


def place(options: Options) -> Place:
    """Nothing is started yet, nobody asked. Raises UsageError."""
    hosts = hosts_of(options)
    if not hosts:
        return Here(options)
    from runners.tcpstore.abroad import Abroad

    return Abroad(options, hosts, _installed(options.ssh), options.python or sys.executable)


class Here:
    """This machine: a worker with torch in it, whose forks are the ranks."""

    hosts: tuple[str, ...] = ()

    def __init__(self, options: Options) -> None:
        self._options = options
        self._has = fit.machine()
        self._found: Found | None = None
        self._left: list[Problem] = []
        self._worker: Worker | None = None
        self._can: Mapping[str, Json] = {}
        self._backlogs = kernel.Backlogs()

    @property
    def found(self) -> Found:
        if self._found is None:
            # Before anything is looked at: what a killed run left raised is not what this machine has.
            self._left = [each.problem() for each in kernel.clear()]
            name = self._options.master or names.own_name()
            lookup = names.look_up(name, min(self._options.world_size, _MOST_AT_ONCE))
            self._found = Found(name, lookup.ipv4, lookup, {}, kernel.present(), torch_version() or "")
        return self._found

    @property
    def worker(self) -> Worker | None:
        return self._worker

    def problems(self) -> list[Problem]:
        from runners.tcpstore.checks import preflight

        found = preflight(self._options, self.found)
        return [*self._left, *found]

    def facts(self) -> dict[str, Json]:
        found = self.found
        return {
            "torch": torch_version(),
            "processes": self.processes(self._options.world_size, self._options.processes)[0] + 1,
            "master": {"name": found.name, "ip": found.ip, "loopback": found.lookup.loopback},
            "somaxconn": found.backlogs.get(kernel.SOMAXCONN),
            "nofile": self._has.descriptors.soft,
        }

    def load(self) -> Mapping[str, Json]:
        if self._worker is None or not self._worker.alive:
            self._worker, self._can = started()
        return self._can

    def abilities(self) -> Mapping[str, Mapping[str, Json]]:
        return {"": self._can}

    def machines(self) -> list[fit.Machine]:
        return [self._has]

    def processes(self, ranks: int, wanted: int) -> list[int]:
        return [fit.processes(ranks, wanted, self._has)]

    def emulated(self, ranks: int, wanted: int) -> bool:
        return self.processes(ranks, wanted)[0] < ranks - 1

    def largest(self) -> int:
        return fit.largest(self._has, raised=self._options.system)

    def refusal(self, backlog: int) -> str:
        return kernel.refusal(backlog)

    def measure(self, job: Job, wanted: int, backlog: int, limit: float) -> Reply | Failure:
        try:
            self.load()
            self._backlogs.at_least(backlog)
        except EnvironmentProblem as problem:
            return Failure("environment", problem.message)
        assert self._worker is not None
        record = {**job.json(), "processes": self.processes(job.clients, wanted)[0]}
        reply = self._worker.call({"do": "measure", **record}, limit)
        if isinstance(reply, Failure):
            return reply
        failed = cast("dict[str, Any] | None", reply.get("failure"))
        return reply if failed is None else told(failed, job, int(failed["nofile"]))

    def close(self) -> None:
        worker, self._worker = self._worker, None
        try:
            if worker is not None:
                worker.close()
        finally:
            self._backlogs.put_back()


def told(failed: Mapping[str, Any], job: Job, nofile: int, host: str = "") -> Failure:
    """What a crowd said of its failure, as a sentence; ``nofile`` is rank 0's limit of open files."""
    kind = cast(FailureKind, failed["kind"])
    return explain(
        kind, failed["reason"], failed["said"], clients=job.clients, port=job.port, backend=job.backend,
        nofile=max(nofile, job.nofile), free=int(failed.get("free") or network.free_ports(1)[0]), host=host,
    )  # fmt: skip
