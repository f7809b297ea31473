"""What a user may ask of `tune oneccl` besides its knobs; the command line is made from these fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from runners.options import option

Engine = Literal["auto", "embedded", "benchmark"]
Collective = Literal["allreduce", "allgather", "bcast", "reduce", "reduce_scatter", "alltoall"]
Dtype = Literal["float32", "float16", "bfloat16", "float64", "int8", "int32", "int64"]


@dataclass(frozen=True, slots=True)
class Options:
    """Options of one `tune oneccl` run; what is text is checked where it is used."""

    hosts: str = field(
        default="",
        metadata=option(
            "Hosts of the job: a hosts file, an Ansible inventory, or names like a,b; this host if none.", "FILE|LIST"
        ),
    )
    ppn: int = field(default=0, metadata=option("Ranks a host; 0 is what the hosts file says, else 2.", "N"))
    sizes: str = field(
        default="1K,64K,4M",
        metadata=option("Message sizes that the job moves, with how often if not equally: 1K:100,4M:1.", "SIZE[:N],…"),
    )
    trace: str = field(default="", metadata=option("CSV file with lines of size,count, instead of --sizes.", "FILE"))
    collective: Collective = field(default="allreduce", metadata=option("The collective that is timed."))
    dtype: Dtype = field(default="float32", metadata=option("Type of the elements."))
    mpi: str = field(default="", metadata=option("The mpirun; if none, the one beside oneCCL, else the PATH's.", "PROGRAM"))
    ccl_root: str = field(
        default="",
        metadata=option("Folder with oneCCL in lib; $CCL_ROOT or this Python's own if none, alike on all hosts.", "DIR"),
    )
    iface: str = field(
        default="", metadata=option("Network interface between hosts; the one that they share if none is named.", "NAME")
    )
    pin: str = field(
        default="", metadata=option("Cores of each rank of a host, or of the whole job, in order: 0,1 or 0-3,4-7.", "CORES,…")
    )
    engine: Engine = field(
        default="auto", metadata=option("Who makes the calls: our ranks on oneCCL's C API (auto), or oneCCL's own benchmark.")
    )
    benchmark: str = field(default="", metadata=option("oneCCL's benchmark program, for --engine benchmark.", "PATH"))
    predict_nodes: str = field(
        default="", metadata=option("Numbers of hosts to extrapolate to, from what is measured here.", "N[,N]")
    )
    ssh: str = field(default="ssh", metadata=option("The ssh command, with options that it needs.", "COMMAND"))
    python: str = field(default="", metadata=option("The Python that is started on the hosts.", "PROGRAM"))
