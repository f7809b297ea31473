"""Which MPI a launcher program belongs to, and how each says the same thing: hosts, environments, limits, the way to hosts."""

from __future__ import annotations

import math
import os
import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from runners.launch.job import Job
from runners.process import run
from runners.runner import Failure

Kind = Literal["intel", "mpich", "openmpi"]
TITLES: Mapping[Kind, str] = {"intel": "Intel MPI", "mpich": "MPICH", "openmpi": "Open MPI"}
_LATER = 15  # the launcher's own limit comes after ours, for when nobody is there to end it


@dataclass(frozen=True, slots=True)
class Mpi:
    """``program`` is the launcher as found, with what has to come before it."""

    kind: Kind
    version: str
    program: tuple[str, ...]

    @property
    def title(self) -> str:
        return f"{TITLES[self.kind]} {self.version}"


def identify(program: Sequence[str], limit: float = 20.0) -> Mpi | Failure:
    """Asks ``program`` itself: a name like mpirun says nothing about whose it is."""
    done = run([*program, "--version"], limit=limit, env={**os.environ, "PATH": search_path(program)})
    if isinstance(done, Failure):
        return Failure("environment", done.reason, done.log)
    told = recognise(done.stdout + done.stderr)
    if told is None:
        words = (done.stdout + done.stderr).strip().splitlines()
        said = f"it says {words[0][:120]!r}" if words else f"it says nothing, status {done.returncode}"
        reason = f"{program[-1]} is the launcher of neither Intel MPI, MPICH nor Open MPI: {said}"
        return Failure("environment", reason, done.stdout + done.stderr)
    return Mpi(told[0], told[1], tuple(program))


def search_path(program: Sequence[str]) -> str:
    """PATH with the launcher's own folder first: it starts programs from there, and pip puts them where no PATH leads."""
    found = shutil.which(program[-1])
    rest = os.environ.get("PATH", os.defpath)
    return rest if found is None else f"{Path(found).absolute().parent}{os.pathsep}{rest}"


def recognise(text: str) -> tuple[Kind, str] | None:
    """Kind and version from what ``--version`` printed."""
    if match := re.search(r"Intel\(R\) MPI Library.*?Version\s+([0-9][\w.]*)", text):
        return "intel", match[1]
    if match := re.search(r"\(Open MPI\)\s+v?([0-9][\w.]*)", text):
        return "openmpi", match[1]
    if "HYDRA build details" in text and (match := re.search(r"Version:\s+([0-9][\w.]*)", text)):
        return "mpich", match[1]
    return None


def environment(mpi: Mpi, job: Job, agent: str) -> dict[str, str]:
    """The launcher's own environment: its limit, and ``agent``, the program that takes the place of ssh."""
    seconds = str(math.ceil(job.limit) + _LATER)
    path = {"PATH": search_path(mpi.program)}
    if mpi.kind == "intel":
        return {
            **path,
            "I_MPI_JOB_TIMEOUT": seconds,
            "I_MPI_HYDRA_BOOTSTRAP": "ssh",
            "I_MPI_HYDRA_BOOTSTRAP_EXEC": agent,
            "I_MPI_HYDRA_BRANCH_COUNT": "0",  # every host is reached from here: the agent is nowhere else
        }
    if mpi.kind == "mpich":
        return {**path, "MPIEXEC_TIMEOUT": seconds, "HYDRA_LAUNCHER": "ssh", "HYDRA_LAUNCHER_EXEC": agent}
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.geteuid() == 0 else {}
    # Open MPI asks which shell is at the other end; the agent's is always this one.
    return {**path, "SHELL": "/bin/sh", **as_root}


def arguments(
    mpi: Mpi, job: Job, commands: Sequence[Sequence[str]], everywhere: Mapping[str, str], agent: str, interface: str = ""
) -> list[str]:
    """Options, then a section a rank; ``commands`` are the ranks' programs, ``everywhere`` is all ranks' environment."""
    if mpi.kind == "openmpi":
        words = _openmpi_options(job, agent, interface)
    else:
        words = [*(("-iface", interface) if interface else ())]
        for name, value in everywhere.items():
            words += ["-genv", name, value]
        if mpi.kind == "mpich":
            # MPICH takes hosts for the whole job only, and places ranks in their order.
            words += ["-hosts", ",".join(f"{rank.host.name}:1" for rank in job.ranks)]
    for number, (rank, command) in enumerate(zip(job.ranks, commands, strict=True)):
        section = [":"] if number else []
        section += ["-n", "1"]
        if mpi.kind == "intel":
            section += ["-host", rank.host.name]
        elif mpi.kind == "openmpi":
            section += ["--host", f"{rank.host.name}:{Counter(each.host.name for each in job.ranks)[rank.host.name]}"]
        own = {**everywhere, **rank.env} if mpi.kind == "openmpi" else rank.env
        for name, value in own.items():
            section += ["-x", f"{name}={value}"] if mpi.kind == "openmpi" else ["-env", name, value]
        words += [*section, *command]
    return words


def _openmpi_options(job: Job, agent: str, interface: str) -> list[str]:
    words = ["--timeout", str(math.ceil(job.limit) + _LATER), "--oversubscribe", "--bind-to", "none"]
    for name, value in (("plm_rsh_agent", agent), ("plm_rsh_no_tree_spawn", "1")):
        words += ["--mca", name, value]
    if interface:
        words += ["--mca", "btl_tcp_if_include", interface, "--mca", "oob_tcp_if_include", interface]
    return words
