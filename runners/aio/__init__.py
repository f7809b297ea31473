"""Measuring DeepSpeed's aio settings with real direct I/O on a real file system."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runners.aio.options import Options

if TYPE_CHECKING:
    from runners.aio.runner import AioRunner
    from runners.runner import Problem
    from spaces.space import Space

OPTIONS = Options
EXAMPLE = "tune aio --device /mnt/nvme --block-size 256K:8M --threads 1,2,4,8 --read-share 0.7"
# About two minutes and 10 GB are what people spend on a first look at a disk without asking anybody.
DEFAULTS = {"time": "2m", "max_write": "10G"}


def create(options: Options, space: Space) -> AioRunner:
    """The runner for ``options``; raises UsageError for a value that can't be used. Nothing is touched before prepare."""
    from runners.aio.runner import AioRunner

    return AioRunner(options, space)


def doctor(options: Options) -> list[Problem]:
    """What this machine lacks for `tune aio`, with the command that mends it."""
    from runners.aio.doctor import problems

    return problems(options)
