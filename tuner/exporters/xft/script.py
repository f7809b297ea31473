"""run_xft.sh: starts any program with mpirun, one segment a rank with its host, cores, memory and environment."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from runners.xft.layout import RankPlace
from spaces import oneccl
from spaces.xft import VARIABLES
from tuner.exporters.shell import quoted
from tuner.exporters.xft.entries import Entry, block
from tuner.exporters.xft.options import Launch

USAGE = """\
set -eu
if [ "$#" -eq 0 ]; then
    echo "usage: $0 PROGRAM [ARGUMENT ...]" >&2
    exit 2
fi
"""
_PROGRAM = """\
# mpirun starts programs that lie beside it, where no PATH may lead.
mpirun=${{MPIRUN:-{program}}}
case $mpirun in */*) PATH=${{mpirun%/*}}:$PATH ;; esac
"""
_ROOT = """\
if [ "$(id -u)" -eq 0 ]; then # Open MPI asks for this
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
"""


def script(head: Sequence[str], found: Sequence[Entry], job: Launch) -> str:
    """The script's text; ``head`` are its first comments."""
    alone = job.here and (job.layout is None or len(job.layout.ranks) == 1)
    text = "#!/bin/sh\n" + "".join(f"# {line}\n" for line in head)
    text += "# Usage: run_xft.sh PROGRAM [ARGUMENT ...], like: run_xft.sh python benchmark.py --model_name NAME\n"
    if not alone:
        text += "# MPIRUN and LIMIT (seconds) in the environment replace what is below.\n"
    text += USAGE
    if not alone:
        text += f"limit=${{LIMIT:-{job.limit or ''}}}\n" + _PROGRAM.format(program=quoted(job.program))
    text += f"\n{unset(found)}"
    text += block(found, "export ", "\n")
    if job.layout is None:
        return text + '\n# The study doesn\'t know its hosts: cores and memory are left to the system.\nexec "$@"\n'
    if alone:
        return text + "\nexec " + " \\\n    ".join([*_words(job.layout.ranks[0], job), '"$@"']) + "\n"
    return text + "\n" + _limit(job) + _command(job, job.layout.ranks, [entry.name for entry in found])


def unset(found: Sequence[Entry]) -> str:
    """The line that takes out what a shell may bring along."""
    kept = {entry.name for entry in found}
    names = [name for name in dict.fromkeys((*VARIABLES, *oneccl.variables("allreduce"))) if name not in kept]
    lines = textwrap.wrap(" ".join(["unset", *names]), 110, break_long_words=False, break_on_hyphens=False)
    return "# What the shell may bring along: it was measured without these.\n" + " \\\n    ".join(lines) + "\n"


def own(rank: RankPlace, job: Launch) -> dict[str, str]:
    """The variables that this rank has and others have not, or not so; its number of threads always."""
    return {name: value for name, value in rank.env.items() if name not in job.common}


def _words(rank: RankPlace, job: Launch) -> list[str]:
    """env and numactl of a rank, as words of a shell."""
    variables = [f"{name}={quoted(value)}" for name, value in own(rank, job).items()]
    return [" ".join(["env", *variables]), " ".join(rank.numactl())]


def _limit(job: Launch) -> str:
    if job.mpi == "openmpi":
        return _ROOT
    name = "I_MPI_JOB_TIMEOUT" if job.mpi == "intel" else "MPIEXEC_TIMEOUT"
    return f'if [ -n "$limit" ]; then\n    export {name}="$limit"\nfi\n'


def _options(job: Launch) -> list[str]:
    """What mpirun is told once, before the first segment."""
    words = ['exec "$mpirun"']
    if job.mpi == "openmpi":
        words.append('${limit:+--timeout "$limit"}')
        words.append("--bind-to none --oversubscribe")
        if len(job.hosts) > 1 and job.iface:
            words += [f"--mca {name} {quoted(job.iface)}" for name in ("btl_tcp_if_include", "oob_tcp_if_include")]
        return [*words, *([f"--host {_slots(job)}"] if not job.here else [])]
    if len(job.hosts) > 1 and job.iface:
        words.append(f"-iface {quoted(job.iface)}")
    if job.mpi == "mpich" and not job.here:  # it takes hosts once, and fills them in their order
        words.append(f"-hosts {_slots(job)}")
    return words


def _slots(job: Launch) -> str:
    assert job.layout is not None
    return ",".join(f"{host}:{len(job.layout.of_host(host))}" for host in job.hosts)


def _command(job: Launch, ranks: Sequence[RankPlace], names: Sequence[str]) -> str:
    """The last lines: mpirun, and a segment for each rank with the user's program as "$@"."""
    words = _options(job)
    if job.mpi != "openmpi":
        words += [f'-genv {name} "${name}"' for name in names]
    segments = []
    for rank in ranks:
        host = "" if job.here else {"openmpi": f"--host {rank.host} ", "intel": f"-host {rank.host} "}.get(job.mpi, "")
        handed = "".join(f"-x {name} " for name in names) if job.mpi == "openmpi" else ""
        segments.append(" ".join([f"{host}-n 1 {handed}{_words(rank, job)[0]}", _words(rank, job)[1], '"$@"']))
    return " \\\n    ".join(words) + " \\\n    " + " : \\\n    ".join(segments) + "\n"
