"""Mounts made anew: by the version's own alluxio-fuse in the foreground, or by a command of the user's."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from runners.alluxio import secrets
from runners.alluxio.detached import call
from runners.alluxio.process import FuseProcess, end, of_pid, serving
from runners.alluxio.proof import prove
from runners.alluxio.session import AlluxioSession
from runners.alluxio.setup import Setup
from runners.alluxio.words import Made, mount_words, unmount_words, with_memory, with_setting
from runners.mount import kernel
from runners.mount.mounting import MountProgram, start
from runners.mount.unmount import detach, mounted
from runners.runner import EnvironmentProblem, Failure
from spaces.alluxio import jvm_option
from spaces.space import Config

_POLL = 0.05
_LEAVE = 15.0  # seconds for a FUSE process to end by itself


@dataclass(frozen=True, slots=True)
class Wanted:
    """A setting that stands in the site file since ``written`` (time.time()) as ``values``.

    ``memory`` is the direct memory that the JVM must be given for it, None where what it has is enough. ``web`` is the port
    of the process's metrics, None where they are off.
    """

    config: Config
    values: Mapping[str, str]
    written: float
    memory: int | None
    web: int | None


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes mounts of ``made`` (None: by a command of the user's). Processes carry ``mark``; ``hidden`` is never told."""

    setup: Setup
    scratch: Path
    mark: str
    made: Made | None
    hidden: tuple[str, ...] = ()

    def make(self, wanted: Wanted, limit: float) -> AlluxioSession | Failure:
        """A mount that is proven to run with a setting, within ``limit`` seconds."""
        made = self._by_command(wanted, limit) if self.made is None else self._by_script(self.made, wanted, limit)
        if not isinstance(made, Failure):
            return made
        return self.told(made)

    def told(self, failure: Failure) -> Failure:
        """``failure`` without credentials: what programs print may hold their command line."""
        reason, log = (secrets.without(text, self.hidden) for text in (failure.reason, failure.log))
        return replace(failure, reason=reason, log=log)

    def _by_script(self, made: Made, wanted: Wanted, limit: float) -> AlluxioSession | Failure:
        """In the foreground, so that the mount ends with us."""
        setup = self.setup
        assert setup.version is not None
        assert setup.install.script is not None
        made = with_setting(made, wanted.config)
        if wanted.memory is not None and setup.version.line != "open2":
            made = with_memory(made, wanted.memory)
        detach(setup.point)
        words = mount_words(setup.install.script, setup.version, setup.point, made, foreground=True)
        program = start(words, setup.point, self.mark, env=self.environment(wanted.memory), cwd=self.scratch)
        if isinstance(program, Failure):
            return program
        try:
            found = program.wait(limit) or self._proven(of_pid(program.pid), wanted, program)
        except BaseException:
            program.close()
            raise
        if isinstance(found, Failure):
            program.close()
        return found

    def _by_command(self, wanted: Wanted, limit: float) -> AlluxioSession | Failure:
        setup = self.setup
        deadline = time.monotonic() + limit
        failed = call(setup.remount, limit=limit, env=self.environment(wanted.memory), cwd=Path("/"))
        if failed is not None:
            return failed
        while time.monotonic() < deadline:
            if mounted(setup.point) and (process := serving(setup.point)) is not None:
                return self._proven(process, wanted, None)
            time.sleep(_POLL)
        return Failure("timeout", f"the command did not mount {setup.point} within {limit:.1f} s")

    def _proven(self, process: FuseProcess | None, wanted: Wanted, program: MountProgram | None) -> AlluxioSession | Failure:
        gone = Failure("crash", "the FUSE process ended as soon as it had mounted", program.log if program else "")
        if process is None:
            return gone
        live = prove(process, self.setup.point, wanted.written, wanted.config, wanted.values, wanted.memory)
        if isinstance(live, Failure):
            return live
        try:
            if wanted.config["read_ahead"]:
                kernel.set_read_ahead(self.setup.point, int(wanted.config["read_ahead"]))
            live["kernel_read_ahead"] = kernel.read_ahead(self.setup.point)
        except OSError as error:
            if wanted.config["read_ahead"]:
                return Failure("infeasible", f"the kernel's read-ahead can't be set: {error.strerror or error}")
        try:
            return AlluxioSession(self.setup.point, process, live, program, wanted.web, self.told)
        except OSError:
            return gone

    # -- the user's own mount ------------------------------------------------------------------------------------------

    def own(self) -> list[str]:
        """The command that makes the user's own mount, to stay."""
        setup = self.setup
        if self.made is None:
            return list(setup.remount)
        assert setup.version is not None
        assert setup.install.script is not None
        return mount_words(setup.install.script, setup.version, setup.point, self.made, foreground=False)

    def take_away(self, process: FuseProcess | None) -> None:
        """Unmounts the user's own mount. Raises EnvironmentProblem."""
        script, point = self.setup.install.script, self.setup.point
        assert script is not None
        call(unmount_words(script, point), limit=self.setup.remount_time, env=self.environment(), cwd=Path("/"))
        # Whatever the script says: gone is what is no longer there.
        detach(point)
        if mounted(point) or not (process is None or end(process.pid, process.started, _LEAVE)):
            raise EnvironmentProblem(f"{point} can't be unmounted", f"{script} unmount {point}")

    def bring_back(self) -> str:
        """Makes the user's own mount; why it isn't there, "" where it is."""
        failed = call(self.own(), limit=self.setup.remount_time, env=self.environment(), cwd=Path("/"))
        if failed is not None:
            return failed.reason
        return "" if mounted(self.setup.point) else "it is not there"

    def environment(self, memory: int | None = None) -> dict[str, str]:
        """This process's, with the folder of a site file that was named and the memory that is to be given."""
        env = dict(os.environ)
        if self.setup.named_site and self.setup.site is not None:
            env["ALLUXIO_CONF_DIR"] = str(self.setup.site.parent)
        if memory is not None:
            env["ALLUXIO_FUSE_JAVA_OPTS"] = f"{env.get('ALLUXIO_FUSE_JAVA_OPTS', '')} {jvm_option(memory)}".strip()
        return env
