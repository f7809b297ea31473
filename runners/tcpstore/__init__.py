"""Measuring the start-up of PyTorch jobs on real TCPStore servers and clients."""

from __future__ import annotations

from runners.runner import Problem, Runner
from runners.tcpstore.options import Options
from spaces.space import Space

OPTIONS = Options
EXAMPLE = "tune tcpstore --world-size 512 --launch script --predict 4096,32768"
# A start of 64 ranks with all around it takes a second or two, and their times scatter.
DEFAULTS = {"time": "5m"}


def create(options: Options, space: Space) -> Runner:
    """A runner for ``space``, narrowed or not. Starts nothing. Raises UsageError and EnvironmentProblem."""
    from runners.tcpstore.runner import StoreRunner

    return StoreRunner.create(options, space)


def doctor(options: Options) -> list[Problem]:
    """What bounds a start of this size on this machine, the worst first."""
    from runners.tcpstore.checks import problems

    return problems(options)
