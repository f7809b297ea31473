"""Measuring oneCCL collectives on real ranks, on this host or across hosts."""

from __future__ import annotations

from runners.oneccl.options import Options
from runners.runner import Problem, Runner
from spaces.space import Space

OPTIONS = Options
EXAMPLE = "tune oneccl --hosts node1,node2 --sizes 16K,4M"
# A new process setting starts a job, about a second; one in a warm job takes tenths of it.
DEFAULTS = {"time": "5m"}


def create(options: Options, space: Space) -> Runner:
    """A runner for ``space``, narrowed or not. Starts nothing. Raises UsageError and EnvironmentProblem."""
    from runners.oneccl.program_runner import ProgramRunner
    from runners.oneccl.runner import CclRunner

    return (ProgramRunner if options.engine == "benchmark" else CclRunner).create(options, space)


def doctor(options: Options) -> list[Problem]:
    """What stands in the way on this machine or these hosts, the worst first."""
    from runners.oneccl.checks import problems

    return problems(options)
