"""Starts every rank itself: here, or over ssh where a rank's host is another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from runners.launch.channel import Channel
from runners.launch.job import Finished, Job, Rank
from runners.launch.reach import Reach
from runners.launch.running import Running
from runners.runner import Failure, Json

# The hosts' own clocks end the job a little after ours would: they are for when nobody can tell them.
MARGIN = 5.0


@dataclass(frozen=True)
class Ssh:
    """Ranks over ssh, those of this host without it. Serves programs that need no MPI of their own."""

    reach: Reach = field(default_factory=Reach)
    name = "ssh"

    def facts(self) -> Mapping[str, Json]:
        return {"launcher": self.name}

    def start(self, job: Job) -> Running:
        channels = []
        for number, rank in enumerate(job.ranks):
            command = self.reach.command(None if self.reach.is_here(rank.host) else rank.host)
            channels.append(Channel(command, {**common(job, self.reach), **of_rank(number, rank)}, rank.host.name))
        return Running(job, channels, (), self.reach, ())

    def run(self, job: Job) -> Finished | Failure:
        with self.start(job) as running:
            return running.wait()


@dataclass(frozen=True)
class Local(Ssh):
    """All ranks on this host, whatever their hosts are called."""

    name = "local"

    def start(self, job: Job) -> Running:
        here = replace(self.reach, here=frozenset({"localhost", *(host.name for host in job.hosts)}))
        ranks = tuple(replace(rank, host=replace(rank.host, user=None, port=None)) for rank in job.ranks)
        return Ssh(here).start(replace(job, ranks=ranks))


def common(job: Job, reach: Reach) -> dict[str, Any]:
    """What every keeper of a job is told."""
    return {
        "job": job.token,
        "cwd": job.cwd,
        "limit": job.limit + MARGIN,
        "grace": job.grace,
        "silence": reach.silence,
        "env": {},
        "folder": "",
        "files": {},
        "cpus": None,
    }


def of_rank(number: int, rank: Rank) -> dict[str, Any]:
    cpus = None if rank.cpus is None else list(rank.cpus)
    return {"rank": number, "name": str(number), "argv": list(rank.argv), "env": dict(rank.env), "cpus": cpus}


def watches(job: Job, reach: Reach, folder: str = "") -> list[Channel]:
    """A keeper on each host that ends the job there when nobody else can, for launchers that reach the hosts on their own.

    It makes ``folder`` there, and takes it away with all that was left in it.
    """
    spec = {**common(job, reach), "rank": 0, "name": "watch", "argv": None, "folder": folder}
    return [Channel(reach.command(None if reach.is_here(host) else host), spec, host.name) for host in job.hosts]
