"""Starts a job with the mpirun of Intel MPI, MPICH or Open MPI, a keeper below it around every rank."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runners.launch import marks
from runners.launch.channel import Channel
from runners.launch.direct import common, of_rank, watches
from runners.launch.job import Finished, Job
from runners.launch.mpi import Mpi, arguments, environment, identify
from runners.launch.reach import Reach, below_environment
from runners.launch.running import Running
from runners.launch.state import THIS_HOST
from runners.runner import Failure, Json


@dataclass(frozen=True)
class Mpirun:
    """``interface`` is the network that the MPI's own processes talk over, "" where it may choose."""

    mpi: Mpi
    reach: Reach = field(default_factory=Reach)
    interface: str = ""

    @property
    def name(self) -> str:
        return self.mpi.kind

    def facts(self) -> Mapping[str, Json]:
        return {"launcher": self.mpi.kind, "mpi": self.mpi.title}

    def start(self, job: Job) -> Running:
        agent = f"{job.folder}/agent"
        ranks = {number: {"cpus": of_rank(number, rank)["cpus"]} for number, rank in enumerate(job.ranks)}
        everywhere = below_environment(common(job, self.reach), ranks)
        commands = [(*self.reach.below(number), *rank.argv) for number, rank in enumerate(job.ranks)]
        words = [*self.mpi.program, *arguments(self.mpi, job, commands, everywhere, agent, self.interface)]
        spec = {
            **common(job, self.reach),
            "rank": 0,
            "name": "launcher",
            "argv": words,
            # MPIs leave sockets and session folders behind when they are killed; these go with the job's folder.
            "env": {**environment(self.mpi, job, agent), "TMPDIR": job.folder},
            "folder": job.folder,
            "files": {"agent": agent_script(self.reach, job)},
        }
        launcher = Channel(self.reach.command(None), spec, THIS_HOST)
        shown = [*self.mpi.program, *arguments(self.mpi, job, [rank.argv for rank in job.ranks], {}, "ssh", self.interface)]
        return Running(job, [launcher], watches(job, self.reach, job.folder), self.reach, shown)

    def run(self, job: Job) -> Finished | Failure:
        with self.start(job) as running:
            return running.wait()


def mpirun(program: Sequence[str] = ("mpirun",), reach: Reach | None = None, interface: str = "") -> Mpirun | Failure:
    """The launcher that ``program`` turns out to be; Failure "environment" where it is none of the three."""
    reach = reach or Reach()
    found = identify([*reach.before, *program])
    if isinstance(found, Failure):
        return found
    # The keeper that starts it is already where ``before`` leads.
    return Mpirun(Mpi(found.kind, found.version, tuple(program)), reach, interface)


def agent_script(reach: Reach, job: Job) -> str:
    """A program that is called like ssh and calls ssh as we do, marking what it starts on the host as the job's.

    Launchers quote words for a shell of their own choice: here it is always sh.
    """
    cases = []
    for host in job.hosts:
        login = shlex.join([*reach.login(host), "--", host.name])
        own = f"env {marks.MARK}={job.token}.agent TMPDIR={job.folder}"
        cases.append(f"  {shlex.quote(host.name)}) exec {login} \"{own} sh -c 'mkdir -p -m 700 {job.folder}; $words'\" ;;")
    return "\n".join(
        (
            "#!/bin/sh",
            "while :; do case $1 in -[lpoiF]) shift 2 ;; -*) shift ;; *) break ;; esac; done",
            "host=$1; shift",
            """words=$(printf '%s' "$*" | sed "s/'/'\\\\\\\\''/g")""",
            "case $host in",
            *cases,
            '  *) echo "$host is none of the job\'s hosts" >&2; exit 255 ;;',
            "esac",
            "",
        )
    )
