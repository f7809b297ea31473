"""run_oneccl.sh: starts any program with mpirun and the variables of a recommendation."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.exporters.oneccl.entries import Entry, block, unset
from tuner.exporters.oneccl.options import Launch
from tuner.exporters.shell import quoted

_USAGE = """\
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
# How MPIs without Intel's variables say the same.
_BIND = {
    "core": "bind-to core",
    "numa": "bind-to numa",
    "auto:scatter": "bind-to core {dash}map-by numa",
    "off": "bind-to none",
}


def script(head: Sequence[str], entries: Sequence[Entry], job: Launch) -> str:
    """The script's text; ``head`` are its first comments."""
    text = "#!/bin/sh\n" + "".join(f"# {line}\n" for line in head)
    text += "# Usage: run_oneccl.sh PROGRAM [ARGUMENT ...]\n"
    fixed = len(set(_pins(job))) > 1  # hosts whose ranks have other cores
    replaced = [] if fixed else [*(["HOSTS (a,b)"] if job.hosts else []), "PPN"]
    text += f"# {', '.join([*replaced, 'LIMIT (seconds)'])} and MPIRUN in the environment replace what is below.\n"
    text += _USAGE
    if not fixed:
        text += f"hosts=${{HOSTS:-{','.join(job.hosts)}}}\n" if job.hosts else ""
        text += f"ppn=${{PPN:-{job.ppn}}}\n"
    text += f"limit=${{LIMIT:-{job.limit or ''}}}\n"
    text += _PROGRAM.format(program=quoted(job.program))
    text += f"\n{unset(entries, job)}"
    own = [entry for entry in entries if job.mpi == "intel" or not entry.name.startswith("I_MPI_")]
    text += block(own, lambda entry: f"export {entry.name}={quoted(entry.value)}\n", "\n")
    bound = []
    for entry in entries:
        if entry not in own and (words := _bound(entry, job)) is not None:
            bound += [words] if words else []
            instead = f"here it is {words}" if words else f"{job.title} doesn't read it"
            text += f"\n# {entry.comment}: {entry.name}={entry.value} where it was measured, {instead}\n"
    text += f"\n{_limit(job)}"
    return text + _command(job, [entry.name for entry in own], bound)


def _bound(entry: Entry, job: Launch) -> str | None:
    """Another MPI's options instead of a variable of Intel MPI; "" where it has none, None where FI_PROVIDER says the same."""
    if entry.name == "I_MPI_OFI_PROVIDER":
        return None
    dash = "--" if job.mpi == "openmpi" else "-"
    known = _BIND.get("off" if entry.name == "I_MPI_PIN" else entry.value if entry.name == "I_MPI_PIN_DOMAIN" else "")
    return dash + known.format(dash=dash) if known else ""


def _limit(job: Launch) -> str:
    if job.mpi == "openmpi":
        return _ROOT
    name = "I_MPI_JOB_TIMEOUT" if job.mpi == "intel" else "MPIEXEC_TIMEOUT"
    return f'if [ -n "$limit" ]; then\n    export {name}="$limit"\nfi\n'


def _command(job: Launch, names: Sequence[str], bound: Sequence[str]) -> str:
    """The last lines: mpirun with its options, the user's program as "$@"."""
    pins = _pins(job)
    apart = len(set(pins)) > 1  # hosts whose ranks have other cores get a section each
    words, before = ['exec "$mpirun"'], ""
    several = len(job.hosts) > 1
    if job.mpi == "openmpi":
        words.append('${limit:+--timeout "$limit"}')
        if job.hosts:
            before += 'slots=$(printf "%s" "$hosts" | sed "s/,/:$ppn,/g"):$ppn\n'
            words.append('--host "$slots"')
        if several and job.iface:
            words += [f"--mca {name} {quoted(job.iface)}" for name in ("btl_tcp_if_include", "oob_tcp_if_include")]
    else:
        if several and job.iface:
            words.append(f"-iface {quoted(job.iface)}")
        if job.hosts and not apart:
            words.append('-hosts "$hosts" -ppn "$ppn"')
    words += bound
    words += [f"-x {name}" if job.mpi == "openmpi" else f'-genv {name} "${name}"' for name in names]
    if apart:
        sections = [f'-host {host} -n {job.ppn} -env {pin} "$@"' for host, pin in zip(job.hosts, pins, strict=True)]
        return _joined(before + "# The cores of each rank, as in the study: they go with these hosts.\n", words, *sections)
    if pins and job.mpi == "intel":
        before += f"# The cores of each rank of a host, as in the study.\nexport {pins[0].replace(' ', '=', 1)}\n"
    elif pins:
        words.append(pins[0])
    if not job.hosts:
        return _joined(before, words, '-n "$ppn" "$@"')
    before += 'nodes=$(printf "%s\\n" "$hosts" | tr "," "\\n" | wc -l)\n'
    return _joined(before, words, '-n "$((nodes * ppn))" "$@"')


def _joined(before: str, words: Sequence[str], *sections: str) -> str:
    return before + " \\\n    ".join([*words, " : \\\n    ".join(sections)]) + "\n"


def _pins(job: Launch) -> list[str]:
    """For each host, what puts its ranks on the cores of the study: a variable and its value, or options; [] for nothing."""
    by_host = [job.pins[start : start + job.ppn] for start in range(0, len(job.pins), job.ppn)]
    if job.mpi == "intel":
        return [_intel(pins) for pins in by_host]
    alike = by_host == by_host[:1] * len(by_host)
    if job.mpi == "mpich" and alike:  # it binds the ranks of all hosts in the same way
        return ["-bind-to user:" + ",".join("+".join(map(str, cores)) for cores in pins) for pins in by_host]
    return []


def _intel(pins: Sequence[Sequence[int]]) -> str:
    if all(len(cores) == 1 for cores in pins):
        return "I_MPI_PIN_PROCESSOR_LIST " + ",".join(str(cores[0]) for cores in pins)
    masks = ",".join(f"{sum(1 << core for core in cores):x}" for cores in pins)
    return f"I_MPI_PIN_DOMAIN '[{masks}]'"
