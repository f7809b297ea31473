"""Measuring DeepSpeed's aio settings with real direct I/O on a real file system."""

from __future__ import annotations

from runners.aio.options import Options
from runners.runner import Problem, Runner
from spaces.space import Space

OPTIONS = Options
EXAMPLE = "tune aio --device /mnt/nvme --block-size 256K:8M --threads 1,2,4,8 --read-share 0.7"
# About two minutes and 10 GB (9 GiB and a little) are what people spend on a first look at a disk without asking anybody.
DEFAULTS = {"time": "2m", "max_write": "9G"}


def create(options: Options, space: Space) -> Runner:
    """A runner for ``space``, narrowed or not. Starts nothing. Raises UsageError and EnvironmentProblem."""
    from runners.aio.runner import AioRunner

    return AioRunner.create(options, space)


def doctor(options: Options) -> list[Problem]:
    """What can be measured on this machine and what can't, the worst first."""
    from runners.aio.doctor import problems

    return problems(options)
