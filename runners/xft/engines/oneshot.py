"""Programs that run once for each measurement, a process a rank: xFT's benchmark.py, or the user's own."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from runners.launch.job import Ended, Job
from runners.runner import Failure
from runners.xft.engines import watch
from runners.xft.engines.engine import Report, ranks_of
from runners.xft.engines.sending import command
from runners.xft.failures import explain
from runners.xft.layout import Layout
from runners.xft.place import Place

MODULES = ("runners.topology.probe", "runners.xft.engines.placing", "runners.xft.engines.live", "runners.xft.engines.watch")


def run(
    place: Place, layout: Layout, program: Sequence[str], common: Mapping[str, str], cwd: str, limit: float
) -> tuple[tuple[Ended, ...], tuple[Report, ...]] | Failure:
    """Starts ``program`` for each rank in ``cwd`` ("" is where a login starts); what each rank printed, and had."""
    commands = []
    for rank in layout.ranks:
        memory = {"policy": rank.memory.policy, "nodes": list(rank.memory.nodes)}
        spec = {"argv": list(program), "cwd": cwd, "memory": memory}
        commands.append(command(place.python, MODULES, base64.b64encode(json.dumps(spec).encode()).decode()))
    done = place.starter().run(Job(ranks_of(place, layout, commands, common), limit))
    if isinstance(done, Failure):
        return explain(done)
    reports = [report_of(ended.stderr) for ended in done.ranks]
    return done.ranks, tuple(report for report in reports if report is not None)


def printed(ended: Ended) -> str:
    """What the program of a rank said by itself, on both streams."""
    own = [line for line in ended.stderr.splitlines() if not line.startswith(watch.MARK)]
    return "\n".join([ended.stdout, *own])


def report_of(stderr: str) -> dict[str, Any] | None:
    """What runners.xft.engines.watch told on standard error; None where it said nothing."""
    for line in reversed(stderr.splitlines()):
        if line.startswith(watch.MARK):
            try:
                return dict(json.loads(line[len(watch.MARK) :]))
            except ValueError:
                return None
    return None
