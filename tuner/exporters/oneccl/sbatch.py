"""run_oneccl.sbatch: a batch job for Slurm that starts any program with srun and the variables of a recommendation."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.exporters.oneccl.entries import Entry, block, unset
from tuner.exporters.oneccl.options import Launch
from tuner.exporters.shell import quoted

# Intel MPI speaks to srun through Slurm's own library, which distributions put in different places.
_PMI = """\
for library in "${I_MPI_PMI_LIBRARY:-}" /usr/lib64/libpmi2.so /usr/lib/x86_64-linux-gnu/libpmi2.so \\
    /usr/lib/aarch64-linux-gnu/libpmi2.so /usr/lib64/slurmpmi/libpmi2.so /opt/slurm/lib/libpmi2.so; do
    if [ -e "$library" ]; then
        I_MPI_PMI_LIBRARY=$library
        break
    fi
done
export I_MPI_PMI_LIBRARY="${I_MPI_PMI_LIBRARY:?set it to the path of libpmi2.so, which Slurm brings}"
"""
# Slurm pins the processes that it starts itself.
_BIND = {
    "core": "--cpu-bind=cores",
    "numa": "--cpu-bind=ldoms",
    "auto:scatter": "--distribution=block:cyclic",
    "off": "--cpu-bind=none",
}
_PLUGIN = {"intel": "pmi2", "mpich": "pmi2", "openmpi": "pmix"}


def sbatch(head: Sequence[str], entries: Sequence[Entry], job: Launch) -> str:
    """The file's text; ``head`` are its first comments."""
    text = "#!/bin/sh\n#SBATCH --job-name=oneccl\n"
    text += f"#SBATCH --nodes={max(1, len(job.hosts))}\n#SBATCH --ntasks-per-node={job.ppn}\n"
    if job.limit is not None:
        minutes, seconds = divmod(job.limit, 60)
        text += f"#SBATCH --time={minutes}:{seconds:02d}\n"
    text += "".join(f"# {line}\n" for line in head)
    text += "# Usage: sbatch run_oneccl.sbatch PROGRAM [ARGUMENT ...]\n"
    text += 'set -eu\nif [ "$#" -eq 0 ]; then\n    echo "usage: sbatch $0 PROGRAM [ARGUMENT ...]" >&2\n    exit 2\nfi\n'
    pins = ("I_MPI_PIN", "I_MPI_PIN_DOMAIN")
    text += f"\n{unset(entries, job)}"
    own = [e for e in entries if e.name not in pins and (job.mpi == "intel" or not e.name.startswith("I_MPI_"))]
    text += block(own, lambda entry: f"export {entry.name}={quoted(entry.value)}\n", "\n")
    bind = ""
    for entry in entries:
        if entry.name in pins:
            bind = _BIND["off" if entry.name == "I_MPI_PIN" else entry.value]
            text += f"\n# {entry.comment}: {entry.name}={entry.value} where it was measured, here it is srun's {bind}\n"
    text += f"\n{_PMI if job.mpi == 'intel' else ''}"
    words = [f"exec srun --mpi={_PLUGIN[job.mpi]} --kill-on-bad-exit=1 --export=ALL"]
    if job.pins and job.pins == job.pins[: job.ppn] * max(1, len(job.hosts)):
        masks = ",".join(f"0x{sum(1 << core for core in cores):x}" for cores in job.pins[: job.ppn])
        bind = f"--cpu-bind=mask_cpu:{masks}"
    return text + " ".join([*words, *([bind] if bind else []), '"$@"']) + "\n"
