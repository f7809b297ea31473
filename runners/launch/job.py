"""What a launcher starts and what comes of it: ranks with a host, a program, an environment and CPUs each."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from runners.hosts.host import Host
from runners.runner import Failure, Json


@dataclass(frozen=True, slots=True)
class Rank:
    """One process of a job: ``argv`` runs on ``host`` with ``env`` on top of what a login there has.

    ``cpus`` are the only ones it may use, as that host numbers them; None leaves that to the system.
    """

    host: Host
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cpus: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """Ranks that belong together; the whole of it is ended ``limit`` seconds after its start, on every host.

    ``cwd`` is the folder that the ranks start in, on their hosts. ``token`` is in the environment of every process of the
    job (``CLUSTERTUNE_JOB``); by it they are found.
    """

    ranks: tuple[Rank, ...]
    limit: float
    cwd: str | None = None
    grace: float = 2.0
    token: str = field(default_factory=lambda: secrets.token_hex(12))

    @property
    def folder(self) -> str:
        """A folder of the job's own, on each host that needs one; short, as paths of sockets must be."""
        return f"/tmp/ct-{self.token[:16]}"  # noqa: S108  nobody can guess the name

    @property
    def hosts(self) -> tuple[Host, ...]:
        """The hosts in the order in which ranks name them first."""
        return tuple(dict.fromkeys(rank.host for rank in self.ranks))


@dataclass(frozen=True, slots=True)
class Ended:
    """A rank that ended by itself with status 0. ``node`` is what the host calls itself. Output: its tail, if very long."""

    rank: int
    host: str
    node: str
    stdout: str
    stderr: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Finished:
    """A job whose ranks all ended well, and that has left no process on any host.

    ``log`` is what the launcher's own programs had to say (mpirun, ssh), ``command`` how it was started.
    """

    ranks: tuple[Ended, ...]
    seconds: float
    log: str
    command: tuple[str, ...]


class Process(Protocol):
    """A job at work; see runners.launch.running.Running."""

    def ask(self, text: str, limit: float) -> str | Failure: ...

    def wait(self) -> Finished | Failure: ...

    def stop(self) -> None: ...

    def __enter__(self) -> Process: ...

    def __exit__(self, *exc: object) -> None: ...


class Launcher(Protocol):
    """Starts jobs. Any number may run at the same time; nothing is kept between them."""

    @property
    def name(self) -> str: ...

    def facts(self) -> Mapping[str, Json]:
        """What a measurement by this launcher holds for: its kind and version."""

    def start(self, job: Job) -> Process:
        """Starts a job to talk to while it runs; leave it by ``wait`` or ``stop``, or use it in a with statement."""

    def run(self, job: Job) -> Finished | Failure:
        """Runs a job to its end.

        Failure "timeout" over the limit, "crash" with rank and host when a rank died or ended with another status than 0
        (the others are ended), "infeasible" where a host hasn't the CPUs, "environment" when a program or host can't be
        reached or went away. However it ends, interrupted too, no process of it is left, or the Failure says where.
        """
