"""How large MLPerf Storage's data set must be: five times the memory of all clients, and enough steps an epoch."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from runners.mlperf.workloads import Workload
from runners.runner import UsageError

MEMORY_FACTOR = 5
_GIB = 1 << 30
_MOST = 10**6


@dataclass(frozen=True, slots=True)
class DataSize:
    """``by`` says which rule decides: "memory" or "steps". ``minutes`` is the shortest time that a run can take."""

    files: int
    samples: int
    bytes: int
    minutes: int
    by: str

    @property
    def gib(self) -> float:
        """What the tools print as GB: samples times the nominal record length, in GiB."""
        return self.bytes / _GIB


def data_size(workload: Workload, accelerators: int, memory: int, hosts: int = 1) -> DataSize:
    """The least data set for ``accelerators`` in all, on ``hosts`` clients of ``memory`` bytes each.

    Whole numbers are cut at each division, as the version's own script does it with bc. Raises UsageError.
    """
    for option, value, most in (("accelerators", accelerators, _MOST), ("hosts", hosts, _MOST)):
        if not 1 <= value <= most:
            raise UsageError(option, value, f"must be from 1 to {most}")
    if memory < 1:
        raise UsageError("memory", memory, "must be the bytes of memory that a client host has, like 128G")
    sample = workload.sample
    length = Fraction(str(sample.length))
    by_steps = workload.steps * workload.batch * accelerators
    by_memory = int(MEMORY_FACTOR * hosts * memory / length)
    samples = max(by_steps, by_memory)
    # A run of a fixed number of steps takes these, however large the data set is.
    timed = by_steps if workload.total_steps is not None else samples
    steps = timed // workload.batch // accelerators
    seconds = steps * Fraction(str(workload.computation_time)) * workload.epochs
    return DataSize(
        files=samples // sample.per_file,
        samples=samples,
        bytes=int(samples * length),
        minutes=int(seconds / 60),
        by="memory" if by_memory > by_steps else "steps",
    )


def files_short(workload: Workload, accelerators: int, total_memory: int, files: int) -> str:
    """Why ``files`` are too few for a run on hosts that have ``total_memory`` bytes together; "" when they are enough.

    The run's own rule looks at the memory that the hosts have, which datasize was only told: the two may differ.
    """
    need = data_size(workload, accelerators, total_memory)
    if files >= need.files:
        return ""
    why = (
        f"five times the {total_memory / _GIB:.0f} GiB of memory of the client hosts"
        if need.by == "memory"
        else f"{workload.steps} steps an epoch with {accelerators} accelerators"
    )
    return f"{files} files are too few for {workload.name}: {workload.version} needs {need.files}, for {why}"


def io_rate(samples_per_second: float, record_length: float) -> float:
    """train_io_mean_MB_per_second as DLIO counts it: by the nominal record length, in MiB/s, whatever the files hold."""
    return samples_per_second * record_length / 1024.0 / 1024.0
