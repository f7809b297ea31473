"""Measuring JuiceFS mounts: the user's own volume, read through mounts of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runners.juicefs.options import Options
from runners.runner import Problem, Runner
from spaces.space import Space

if TYPE_CHECKING:
    from runners.mount.hosts.runner import HostsRunner

OPTIONS = Options
EXAMPLE = "tune juicefs --meta redis://meta:6379/1 --data training --jobs 4"
# A mount takes half a second and a measurement reads for five: some forty settings and a race.
DEFAULTS = {"time": "10m"}


def create(options: Options, space: Space) -> Runner:
    """A runner for ``space``, narrowed or not. Starts nothing. Raises UsageError and EnvironmentProblem."""
    from runners.juicefs.backend import JuicefsBackend

    if options.hosts:
        return _on_hosts(options, space)
    from runners.mount.runner import MountRunner

    return MountRunner.of(JuicefsBackend(options), options, space)


def doctor(options: Options) -> list[Problem]:
    """What stands in the way on this machine, the worst first. Mounts nothing."""
    from runners.juicefs.backend import JuicefsBackend
    from runners.mount.checks import doctor

    return doctor(lambda: JuicefsBackend(options, doctor=True), options)


def _on_hosts(options: Options, space: Space) -> HostsRunner:
    from runners.mount.hosts.fleet import Kind
    from runners.mount.hosts.runner import HostsRunner
    from spaces.juicefs import Limits, for_machine

    return HostsRunner.of(Kind("juicefs", lambda told: Limits(**told), for_machine, ("META_PASSWORD",)), options, space)
