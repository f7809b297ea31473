"""Measuring Alluxio's prefetch settings by reads through its own FUSE mount, made anew for each of them."""

from __future__ import annotations

from runners.alluxio.options import Options
from runners.runner import Problem, Runner
from spaces.space import Space

OPTIONS = Options
EXAMPLE = "tune alluxio --mount /mnt/alluxio --load unet3d --baseline conf/alluxio-site.properties"
# A remount takes seconds, and a measurement reads for five.
DEFAULTS = {"time": "20m"}


def create(options: Options, space: Space) -> Runner:
    """A runner for ``space``, narrowed or not. Starts nothing. Raises UsageError and EnvironmentProblem."""
    from runners.alluxio.runner import AlluxioRunner

    return AlluxioRunner.create(options, space)


def doctor(options: Options) -> list[Problem]:
    """What stands in the way on this machine, the worst first. Mounts nothing."""
    from runners.alluxio.backend import AlluxioBackend
    from runners.mount.checks import doctor

    return doctor(lambda: AlluxioBackend(options, doctor=True), options)
