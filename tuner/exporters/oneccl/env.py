"""The files of a recommendation by format; oneccl.env and machinefile are made here."""

from __future__ import annotations

from tuner.exporters import format as contract
from tuner.exporters.format import Format, find_format
from tuner.exporters.oneccl.entries import block, entries, head
from tuner.exporters.oneccl.options import Launch, launch
from tuner.exporters.oneccl.sbatch import sbatch
from tuner.exporters.oneccl.script import script
from tuner.exporters.shell import quoted
from tuner.recommendation import Recommendation

FORMATS = (
    Format("env", "oneccl.env", "variables for the job's environment, KEY=VALUE lines"),
    Format("script", "run_oneccl.sh", "mpirun with hosts, ranks, pinning and environment, for any program"),
    Format("machinefile", "machinefile", "the hosts and their ranks, as mpirun reads them"),
    Format("sbatch", "run_oneccl.sbatch", "a batch job for Slurm, with srun"),
)


def render(recommendation: Recommendation, format: str, options: contract.Options) -> dict[str, str]:
    """The file of one format. Raises WrongUsage."""
    chosen = find_format(FORMATS, format)
    job = launch(recommendation, options)
    if chosen.name == "machinefile":
        return {chosen.filename: _machinefile(job)}
    comments, found = head(recommendation, job), entries(recommendation, job)
    if chosen.name == "script":
        return {chosen.filename: script(comments, found, job)}
    if chosen.name == "sbatch":
        return {chosen.filename: sbatch(comments, found, job)}
    if found:
        comments.append("For a shell: set -a; . ./oneccl.env; set +a")
    text = "".join(f"# {line}\n" for line in comments)
    return {chosen.filename: text + block(found, lambda entry: f"{entry.name}={quoted(entry.value)}\n")}


def _machinefile(job: Launch) -> str:
    form = "{} slots={}\n" if job.mpi == "openmpi" else "{}:{}\n"
    return "".join(form.format(host, job.ppn) for host in job.hosts or ("localhost",))
