"""Starts a job inside of a Slurm allocation: srun with a program a task, placed where the job wants them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from runners.launch.channel import Channel
from runners.launch.direct import common, of_rank, watches
from runners.launch.job import Finished, Job
from runners.launch.reach import Reach, below_environment
from runners.launch.running import Running
from runners.launch.state import THIS_HOST
from runners.runner import Failure, Json

_LATER = 15


@dataclass(frozen=True)
class Srun:
    """Slurm's daemons start the ranks and, as they also do when this host dies, end them; no ssh is needed."""

    reach: Reach = field(default_factory=Reach)
    program: tuple[str, ...] = ("srun",)
    name = "srun"

    def facts(self) -> Mapping[str, Json]:
        return {"launcher": self.name}

    def start(self, job: Job) -> Running:
        reach = replace(self.reach, srun=self.program)
        ranks = {number: of_rank(number, rank) for number, rank in enumerate(job.ranks)}
        words = [*self.program, *arguments(job, f"{job.folder}/ranks")]
        spec = {
            **common(job, reach),
            "rank": 0,
            "name": "launcher",
            "argv": words,
            "env": {**below_environment(common(job, reach), ranks), "SLURM_HOSTFILE": f"{job.folder}/hosts"},
            "folder": job.folder,
            "files": {"ranks": programs(job, reach), "hosts": "".join(f"{rank.host.name}\n" for rank in job.ranks)},
        }
        launcher = Channel(reach.command(None), spec, THIS_HOST)
        return Running(job, [launcher], watches(job, reach), reach, words)

    def run(self, job: Job) -> Finished | Failure:
        with self.start(job) as running:
            return running.wait()


def arguments(job: Job, ranks: str) -> list[str]:
    """srun's options; ``ranks`` is the path of the file with a program a task."""
    seconds = math.ceil(job.limit) + _LATER
    return [
        f"--ntasks={len(job.ranks)}",
        f"--nodes={len(job.hosts)}",
        "--distribution=arbitrary",  # in the order of SLURM_HOSTFILE
        "--export=ALL",
        "--cpu-bind=none",  # a rank's CPUs are its keeper's to set
        "--kill-on-bad-exit=1",
        "--unbuffered",
        f"--time={seconds // 60}:{seconds % 60:02d}",
        "--multi-prog",
        ranks,
    ]


def programs(job: Job, reach: Reach) -> str:
    """The file of srun --multi-prog: it knows single quotes only, and takes a word that begins with % for its own."""
    lines = []
    for number in range(len(job.ranks)):
        words = " ".join(f"'{word}'" for word in reach.below(number))
        lines.append(f"{number} {words}\n")
    return "".join(lines)
