"""Measuring rclone mounts: the user's own remote, read through mounts of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runners.rclone.options import Options
from runners.runner import Problem, Runner
from spaces.space import Space

if TYPE_CHECKING:
    from runners.mount.hosts.runner import HostsRunner

OPTIONS = Options
EXAMPLE = "tune rclone --remote store:training --pattern sequential --jobs 4"
# A mount takes half a second and a measurement reads for five: some forty settings and a race.
DEFAULTS = {"time": "10m"}


def create(options: Options, space: Space) -> Runner:
    """A runner for ``space``, narrowed or not. Starts nothing. Raises UsageError and EnvironmentProblem."""
    if options.hosts:
        return _on_hosts(options, space)
    from runners.mount.runner import MountRunner
    from runners.rclone.backend import RcloneBackend

    return MountRunner.of(RcloneBackend(options), options, space)


def doctor(options: Options) -> list[Problem]:
    """What stands in the way on this machine, the worst first. Mounts nothing."""
    if options.hosts:
        from spaces.rclone import SPACE

        with _on_hosts(options, SPACE) as hosts:
            return hosts.doctor()
    from runners.mount.checks import doctor
    from runners.rclone.backend import RcloneBackend

    return doctor(lambda: RcloneBackend(options, doctor=True), options)


def _on_hosts(options: Options, space: Space) -> HostsRunner:
    from runners.mount.hosts.fleet import Kind
    from runners.mount.hosts.runner import HostsRunner
    from spaces.rclone import Limits, for_machine

    return HostsRunner.of(Kind("rclone", lambda told: Limits(**told), for_machine, ("RCLONE_CONFIG",)), options, space)
