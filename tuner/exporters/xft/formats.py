"""The formats, and the options that a user has for a file: all that the command line needs to be built."""

from __future__ import annotations

from dataclasses import dataclass, field

from runners.options import option
from tuner.exporters.format import Format

FORMATS = (
    Format("env", "xft.env", "variables for the job's environment, KEY=VALUE lines"),
    Format(
        "script", "run_xft.sh", "mpirun with a segment for each rank: host, cores, memory, environment; --slurm: a batch job"
    ),
    Format("hostfile", "hostfile", "the hosts and their ranks, as mpirun reads them"),
)


@dataclass(frozen=True, slots=True)
class FileOptions:
    """What `tune export` and `tune lint` let a user say about a launch script; None leaves it to the study or the file."""

    mpi: str | None = field(
        default=None,
        metadata=option("MPI whose mpirun the script calls: intel, mpich or openmpi; the study's if none.", "KIND"),
    )
    slurm: bool = field(default=False, metadata=option("A batch job for Slurm, with srun, instead of mpirun."))
    cores: int | None = field(default=None, metadata=option("Cores that a rank is pinned to, for checks.", "N"))
    topology: str | None = field(
        default=None, metadata=option("File with the recorded topologies of a script's hosts, to check its cores by.", "FILE")
    )
    job_limit: str | None = field(
        default=None, metadata=option("How long the emitted job may run, like 12h; without a limit if none.", "DURATION")
    )
