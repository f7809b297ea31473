"""run_xft.sbatch: a batch job for Slurm; each task finds its own cores and memory by its host and its number there."""

from __future__ import annotations

from collections.abc import Sequence

from runners.xft.layout import Layout, RankPlace
from tuner.exporters.shell import quoted
from tuner.exporters.xft.entries import Entry, block
from tuner.exporters.xft.options import Launch
from tuner.exporters.xft.script import USAGE, own, unset

# Intel MPI speaks to srun through Slurm's own library, which distributions put in different places.
_PMI = """\
for library in "${I_MPI_PMI_LIBRARY:-}" /usr/lib64/libpmi2.so /usr/lib/x86_64-linux-gnu/libpmi2.so \\
    /usr/lib64/slurmpmi/libpmi2.so /opt/slurm/lib/libpmi2.so; do
    if [ -e "$library" ]; then
        I_MPI_PMI_LIBRARY=$library
        break
    fi
done
export I_MPI_PMI_LIBRARY="${I_MPI_PMI_LIBRARY:?set it to the path of libpmi2.so, which Slurm brings}"
"""
_PLUGIN = {"intel": "pmi2", "mpich": "pmi2", "openmpi": "pmix"}


def sbatch(head: Sequence[str], found: Sequence[Entry], job: Launch) -> str:
    """The file's text; ``head`` are its first comments."""
    layout = job.layout
    counts = {len(layout.of_host(host)) for host in layout.hosts} if layout else {1}
    text = "#!/bin/sh\n#SBATCH --job-name=xft\n"
    text += f"#SBATCH --nodes={max(1, len(job.hosts))}\n"
    if len(counts) == 1:
        text += f"#SBATCH --ntasks-per-node={max(counts)}\n"
    elif layout:
        text += f"#SBATCH --ntasks={len(layout.ranks)}\n"
    text += "#SBATCH --exclusive\n"
    if layout and not _alike(layout):
        text += f"#SBATCH --nodelist={','.join(job.hosts)}\n"
    if job.limit is not None:
        minutes, seconds = divmod(job.limit, 60)
        text += f"#SBATCH --time={minutes}:{seconds:02d}\n"
    text += "".join(f"# {line}\n" for line in head)
    text += "# Usage: sbatch run_xft.sbatch PROGRAM [ARGUMENT ...]\n" + USAGE
    text += f"\n{unset(found)}" + block(found, "export ", "\n") + "\n"
    text += _PMI if job.mpi == "intel" else ""
    srun = f"exec srun --mpi={_PLUGIN[job.mpi]} --kill-on-bad-exit=1 --export=ALL --cpu-bind=none --mem-bind=none"
    if layout is None:
        return text + f'# The study doesn\'t know its hosts: cores and memory are left to the system.\n{srun} "$@"\n'
    return text + _tasks(layout, job) + f'{srun} --distribution=block sh -c "$task" task "$@"\n'


def _alike(layout: Layout) -> bool:
    """Whether ranks of the same number on their hosts have the same cores, memory and environment on every host."""
    first, *others = ([(rank.cpus, rank.memory, dict(rank.env)) for rank in layout.of_host(host)] for host in layout.hosts)
    return all(other == first for other in others)


def _tasks(layout: Layout, job: Launch) -> str:
    """A program for sh, as the variable ``task``: what each task does with the words that it is given."""
    alike = _alike(layout)
    ranks = layout.of_host(layout.hosts[0]) if alike else layout.ranks
    where = "$SLURM_LOCALID" if alike else "$SLURMD_NODENAME/$SLURM_LOCALID"
    lines = [f"task='case {where} in"]
    lines += [f'{rank.local if alike else f"{rank.host}/{rank.local}"}) exec {_words(rank, job)} "$@" ;;' for rank in ranks]
    lines += [f'*) echo "task {where} has no cores of its own" >&2; exit 1 ;;', "esac'"]
    return "# shellcheck disable=SC2016  # the tasks' own shell puts in their numbers\n" + "\n".join(lines) + "\n"


def _words(rank: RankPlace, job: Launch) -> str:
    variables = [f"{name}={quoted(value)}" for name, value in own(rank, job).items()]
    return " ".join(["env", *variables, *rank.numactl()])
