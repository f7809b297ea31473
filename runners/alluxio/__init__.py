"""Measuring Alluxio's prefetch settings by reads through its own FUSE mount, made anew for each of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from runners.alluxio.options import Options
from runners.runner import Problem, Runner
from spaces.space import Space

if TYPE_CHECKING:
    from runners.mount.hosts.runner import HostsRunner

OPTIONS = Options
EXAMPLE = "tune alluxio --mount /mnt/alluxio --load unet3d --baseline conf/alluxio-site.properties"
# A remount takes seconds, and a measurement reads for five.
DEFAULTS = {"time": "20m"}


def create(options: Options, space: Space) -> Runner:
    """A runner for ``space``, narrowed or not. Starts nothing. Raises UsageError and EnvironmentProblem."""
    if options.hosts:
        return _on_hosts(options, space)
    from runners.alluxio.runner import AlluxioRunner

    return AlluxioRunner.create(options, space)


def doctor(options: Options) -> list[Problem]:
    """What stands in the way on this machine, the worst first. Mounts nothing."""
    if options.hosts:
        from spaces.alluxio import SPACE

        with _on_hosts(options, SPACE) as hosts:
            return hosts.doctor()
    from runners.alluxio.backend import AlluxioBackend
    from runners.mount.checks import doctor

    return doctor(lambda: AlluxioBackend(options, doctor=True), options)


def _on_hosts(options: Options, space: Space) -> HostsRunner:
    from runners.alluxio.backend import within
    from runners.mount.hosts.fleet import Kind
    from runners.mount.hosts.runner import HostsRunner
    from spaces.alluxio import Limits, Version

    def limits(told: Mapping[str, Any]) -> Limits:
        version = told["version"]
        known = Version(version["text"], version["line"], (version["number"][0], version["number"][1])) if version else None
        return Limits(**{**told, "version": known})

    return HostsRunner.of(Kind("alluxio", limits, within, ("ALLUXIO_HOME", "ALLUXIO_CONF_DIR")), options, space)
