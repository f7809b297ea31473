"""The hosts that a batch system has given to this job: Slurm's list, PBS's file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from runners.hosts.host import BadEntry, Host, checked_name, checked_slots
from runners.hosts.ranges import MOST_HOSTS, expand, split_outside
from runners.hosts.text import read_lines
from runners.runner import UsageError


def of_this_job(environ: Mapping[str, str]) -> tuple[Host, ...] | None:
    """The hosts of the batch job that this process is in, with its tasks a host as slots; None outside of one.

    Raises UsageError where the batch system's own words can't be read.
    """
    for name in ("SLURM_JOB_NODELIST", "SLURM_NODELIST"):
        if environ.get(name):
            try:
                return _slurm(environ[name], environ)
            except BadEntry as error:
                raise UsageError("hosts", name, f"Slurm's list can't be read: {error}") from None
    if environ.get("PBS_NODEFILE"):
        return _pbs(Path(environ["PBS_NODEFILE"]))
    return None


def slurm_nodes(text: str) -> list[str]:
    """The names in a list like ``node[01-03,07],gpu1``. Raises BadEntry."""
    names = [checked_name(name) for part in split_outside(text.strip()) for name in expand(part.strip())]
    if len(names) > MOST_HOSTS:
        raise BadEntry(f"more than {MOST_HOSTS} hosts")
    return names


def slurm_counts(text: str) -> list[int]:
    """The numbers in a list like ``2(x3),1``: 2, 2, 2, 1. Raises BadEntry."""
    counts: list[int] = []
    for part in text.strip().split(","):
        match = re.fullmatch(r"(\d{1,9})(?:\(x(\d{1,9})\))?", part.strip(), re.ASCII)
        if match is None or int(match[2] or 1) > MOST_HOSTS:
            raise BadEntry("the tasks per node are written like 2(x3),1")
        counts += [checked_slots(match[1], "tasks per node")] * int(match[2] or 1)
    return counts


def _slurm(nodes: str, environ: Mapping[str, str]) -> tuple[Host, ...]:
    names = slurm_nodes(nodes)
    if tasks := environ.get("SLURM_TASKS_PER_NODE"):
        counts = slurm_counts(tasks)
        if len(counts) == len(names):
            return tuple(Host(name, count) for name, count in zip(names, counts, strict=True))
    every = environ.get("SLURM_NTASKS_PER_NODE", "").strip()
    return tuple(Host(name, checked_slots(every) if every else 1) for name in names)


def _pbs(path: Path) -> tuple[Host, ...]:
    counts: Counter[str] = Counter()
    for number, line in enumerate(read_lines(path, "PBS_NODEFILE"), 1):
        if line.strip():
            try:
                counts[checked_name(line.strip())] += 1
            except BadEntry as error:
                raise UsageError("hosts", "PBS_NODEFILE", f"line {number}: {error}") from None
    if not counts:
        raise UsageError("hosts", "PBS_NODEFILE", "the file names no host; give --hosts")
    return tuple(Host(name, count) for name, count in counts.items())
