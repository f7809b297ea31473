"""Measuring CPU inference of language models by ranks, on this host or across hosts."""

from __future__ import annotations

from runners.preview import Preview
from runners.runner import Problem, Runner
from runners.xft.options import Options
from spaces.space import Space

OPTIONS = Options
EXAMPLE = "tune xft --hosts hosts.txt --model qwen-72b"
# A setting starts its ranks anew: some seconds, more for large models.
DEFAULTS = {"time": "10m"}


def create(options: Options, space: Space) -> Runner:
    """A runner for ``space``, narrowed or not. Starts nothing. Raises UsageError and EnvironmentProblem."""
    from runners.xft.runner import XftRunner

    return XftRunner.create(options, space)


def preview(options: Options, space: Space) -> Preview:
    """What layouts would be, on hosts as they are or were recorded (`--dry-run`). Raises UsageError, EnvironmentProblem."""
    from runners.xft import dry

    return dry.preview(options, space)


def doctor(options: Options) -> list[Problem]:
    """What stands in the way on this machine or these hosts, the worst first."""
    from runners.xft.checks import problems

    return problems(options)
