"""What a user may ask of `tune tcpstore` besides its knobs; the command line is made from these fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from runners.options import option

Launch = Literal["script", "torchrun"]


@dataclass(frozen=True, slots=True)
class Options:
    """Options of one `tune tcpstore` run; what is text is checked where it is used."""

    world_size: int = field(default=64, metadata=option("Ranks of the job.", "N"))
    hosts: str = field(
        default="",
        metadata=option(
            "Hosts of the job, rank 0's first: a hosts file, an Ansible inventory, or names like a,b:4; Slurm's or PBS's "
            "where tune runs in their job. Without any, all ranks run on this machine.",
            "FILE|LIST",
        ),
    )
    ssh: str = field(default="ssh", metadata=option("The ssh command, with options that it needs.", "COMMAND"))
    python: str = field(
        default="",
        metadata=option(
            "The Python with torch that is started on the hosts; the path of the one that runs this if none.", "PROGRAM"
        ),
    )
    launch: Launch = field(
        default="script",
        metadata=option("How the job starts: its own init_process_group (srun, mpirun, a shell script), or torchrun."),
    )
    master: str = field(
        default="",
        metadata=option(
            "Name of rank 0's host, as the job is given it; what --hosts calls it, or this machine's own, if none.", "HOST"
        ),
    )
    port: int = field(default=0, metadata=option("Port of the store; 0 takes a free one for each start.", "PORT"))
    barriers: int = field(
        default=1, metadata=option("Barriers on the store that count towards start-up, as many as the job has.", "K")
    )
    weigh: str = field(
        default="",
        metadata=option(
            "How parts count, like creation=1,barrier=50; without it creation=1,barrier=K of --barriers.", "PART=W"
        ),
    )
    processes: int = field(
        default=0,
        metadata=option("Processes a host that hold the clients; 0 is one a client up to what the host carries.", "N"),
    )
    system: bool = field(
        default=False,
        metadata=option(
            "Raise rank 0's backlogs and limit of open files where they are short: measured, and put back at the end."
        ),
    )
    predict: str = field(
        default="", metadata=option("Larger world sizes to extrapolate to, from sizes measured here.", "N[,N]")
    )
    force: bool = field(
        default=False, metadata=option("Start even where descriptors, ports or memory don't seem to be enough.")
    )
