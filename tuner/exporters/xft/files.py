"""The files of a recommendation by format; xft.env and hostfile are made here."""

from __future__ import annotations

from tuner.exporters import format as contract
from tuner.exporters.format import find_format
from tuner.exporters.xft.entries import Entry, block, entries, head, ours
from tuner.exporters.xft.formats import FORMATS
from tuner.exporters.xft.options import Launch, launch
from tuner.exporters.xft.sbatch import sbatch
from tuner.exporters.xft.script import script
from tuner.recommendation import Recommendation


def render(recommendation: Recommendation, format: str, options: contract.Options) -> dict[str, str]:
    """The file of one format. Raises WrongUsage."""
    chosen = find_format(FORMATS, format)
    job = launch(recommendation, options)
    if chosen.name == "hostfile":
        return {chosen.filename: _hostfile(job)}
    comments, found = head(recommendation, job), entries(recommendation, job)
    if chosen.name == "script":
        if job.slurm:
            return {"run_xft.sbatch": sbatch(comments, found, job)}
        return {chosen.filename: script(comments, found, job)}
    comments.append("For a shell: set -a; . ./xft.env; set +a")
    named = [*ours(recommendation), *threads_of(recommendation, job)]
    if any(entry.name.startswith("CLUSTERTUNE_") for entry in named):
        comments.append(
            "CLUSTERTUNE_ variables are for `tune` alone: cores and memory are in run_xft.sh (tune export --format script)."
        )
    text = "".join(f"# {line}\n" for line in comments)
    return {chosen.filename: text + block([*found, *named])}


def threads_of(recommendation: Recommendation, job: Launch) -> list[Entry]:
    """The number of threads where all ranks have the same, and, for who reads the file back, whether it was named."""
    counts = {rank.threads for rank in job.layout.ranks} if job.layout else set()
    if len(counts) != 1:
        return []
    comment = "threads of every rank: an mpirun may set 1"
    named = [] if recommendation.config["threads"] else [Entry("CLUSTERTUNE_THREADS", "0", comment)]
    return [Entry("OMP_NUM_THREADS", str(counts.pop()), comment), *named]


def _hostfile(job: Launch) -> str:
    form = "{} slots={}\n" if job.mpi == "openmpi" else "{}:{}\n"
    if job.layout is None:
        return form.format("localhost", 1)
    return "".join(form.format(host, len(job.layout.of_host(host))) for host in job.layout.hosts)
