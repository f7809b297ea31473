"""Alluxio as a back end: settings written into the site file, the user's mount made anew with them, and all put back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from runners.alluxio import looks, metrics, secrets
from runners.alluxio.detached import call
from runners.alluxio.journal import Journal, Left
from runners.alluxio.making import Maker, Wanted
from runners.alluxio.options import Options
from runners.alluxio.process import serving
from runners.alluxio.session import AlluxioSession
from runners.alluxio.setup import Setup
from runners.alluxio.site import Unreadable, block_of, counting, merged, without_block
from runners.alluxio.words import Made, made_by
from runners.mount import kernel
from runners.mount.leftovers import mark_of
from runners.mount.unmount import detach, mounted
from runners.mount.work import Bounds
from runners.runner import EnvironmentProblem, Failure, Json, Problem, UsageError
from spaces.alluxio import SPACE, Limits, for_job, why_not
from spaces.space import Config, Space

_USUAL_MEMORY = int(SPACE.default["direct_memory"])
_HEAD = ["a study is running; this file is put back when it ends"]


def within(narrowed: Space, limits: Limits) -> Space:
    """``narrowed`` with the rules of ``limits``. Raises UsageError for a knob that was named and the version doesn't have."""
    for knob in narrowed.knobs:
        named = knob.domain != SPACE[knob.name].domain
        if limits.version is not None and named and (why := why_not(knob.name, limits.version)):
            raise UsageError(knob.option, "…", why)
    return for_job(narrowed, limits)


class AlluxioBackend:
    """See runners.mount.backend.Backend. With ``doctor`` neither mount nor version need be known."""

    name = "Alluxio"

    def __init__(self, options: Options, *, doctor: bool = False) -> None:
        self._options = options
        self._setup = Setup.of(options, doctor=doctor)
        self._journal: Journal | None = None
        self._maker: Maker | None = None
        self._was_mounted = False
        self._present: int | None = None
        self._web: int | None = None

    # -- what there is -------------------------------------------------------------------------------------------------

    def facts(self) -> Mapping[str, Json]:
        setup = self._setup
        version = setup.version.text if setup.version else None
        return {"alluxio": version, "mount": str(setup.point), "site_file": str(setup.site)}

    def problems(self) -> list[Problem]:
        setup = self._setup
        found = looks.of_install(setup)
        if self._options.system and not kernel.may_set():
            message = "--system needs root, to raise the kernel's read-ahead"
            found.append(Problem("system", "error", message, "sudo, or without --system"))
        if not self._options.mount:
            found.append(
                Problem("mount", "note", "no mount was named, so none was looked at", "tune doctor alluxio --mount DIR")
            )
        if setup.site is None or not self._options.mount or self._journal is not None:
            return found
        return [*found, *self._recovered(setup.site), *looks.of_site(setup, setup.site), *looks.of_mount(setup)]

    def _recovered(self, site: Path) -> list[Problem]:
        """What a killed study left is put back here, before anything is measured."""
        journal = Journal(site)
        if not journal.pending():
            return []
        left = journal.open()
        journal.restore()
        self._bring_back(left)
        return [Problem("recovered", "note", f"a study was killed: {journal.path} and its mount are the user's own again")]

    def _bring_back(self, left: Left | None) -> None:
        point = self._setup.point
        if mounted(point) and serving(point) is None:
            detach(point)  # its process died with the study
        if left is not None and left.mount and (left.restarts or not mounted(point)):
            failed = call(left.mount, limit=self._setup.remount_time, env=os.environ, cwd=Path("/"))
            if failed is not None:
                raise EnvironmentProblem(
                    f"{point} can't be mounted again: {failed.reason}", "mount it yourself, then try again"
                )

    def limits(self, bounds: Bounds) -> Limits:
        return Limits(
            self._setup.version,
            bounds.open_files,
            bounds.largest,
            bounds.memory,
            cold=not bounds.work.warm,
            mount_options=self._options.tune_mount,
            system=bounds.system,
            present=self._memory_now(),
        )

    def space(self, narrowed: Space, bounds: Bounds) -> Space:
        return within(narrowed, self.limits(bounds))

    def changes(self) -> tuple[Path, ...]:
        return (self._setup.site,) if self._setup.site is not None else ()

    def _memory_now(self) -> int | None:
        """The direct memory that the user's own FUSE process has."""
        if self._present is None and self._journal is None:
            process = serving(self._setup.point)
            self._present = process.direct_memory if process else None
        return self._present

    # -- mounts --------------------------------------------------------------------------------------------------------

    def prepare(self, scratch: Path, *, warm: bool) -> None:  # noqa: ARG002  Alluxio's cache is the workers', and stays
        setup = self._setup
        assert setup.site is not None
        self._memory_now()
        process = serving(setup.point)
        made = None
        if not setup.remount:
            assert setup.version is not None
            found = made_by(process, setup.version) if process else None
            source = self._options.source or (found.source if found else setup.likely_source())
            if not source:
                raise EnvironmentProblem(f"what is mounted on {setup.point} can't be told", "--source WHAT")
            made = Made(source, found.options, found.jvm) if found else Made(source)
        journal = Journal(setup.site)
        self._bring_back(journal.open())
        self._journal = journal
        self._was_mounted = mounted(setup.point)
        hidden = secrets.values(journal.text, made.options if made else ())
        self._maker = Maker(setup, scratch, mark_of(scratch.parent), made, tuple(hidden))
        try:
            self._web = metrics.port(counting(without_block(journal.text)))
            if self._was_mounted:
                journal.remember(self._maker.own(), restarts=bool(setup.remount))
                if made is not None:
                    self._maker.take_away(process)
        except (OSError, Unreadable) as error:
            raise EnvironmentProblem(
                f"{journal.path}: {error}", f"df -h {journal.path.parent}; tune lint {journal.path}"
            ) from None

    def mount(self, config: Config, limit: float, *, writable: bool = False) -> AlluxioSession | Failure:  # noqa: ARG002  as the user's own
        journal, maker = self._journal, self._maker
        assert journal is not None, "prepare comes first"
        assert maker is not None
        values = block_of(config, journal.text, self._setup.version)
        try:
            journal.write(merged(journal.text, values, _HEAD))
            written = journal.path.stat().st_mtime
        except OSError as error:
            return Failure("environment", f"{journal.path} can't be written: {error.strerror or error}")
        asked = int(config["direct_memory"])
        memory = asked if asked > max(self._present or 0, _USUAL_MEMORY) else None
        return maker.make(Wanted(config, values, written, memory, self._web), min(limit, self._setup.remount_time))

    def discard(self, folder: Path) -> bool:  # noqa: ARG002  Alluxio deletes what is unlinked
        return False

    def close(self) -> None:
        """Puts the site file back, then the mount. Raises EnvironmentProblem where the mount doesn't come back."""
        journal, self._journal = self._journal, None
        if journal is None:
            return
        point, maker = self._setup.point, self._maker
        journal.restore()
        if not self._setup.remount and mounted(point):
            detach(point)
        if self._was_mounted and maker is not None and (why := maker.bring_back()):
            raise EnvironmentProblem(f"the site file is back, but {point} is not mounted again: {why}", "mount it yourself")
        if journal.moved is not None:
            raise EnvironmentProblem(
                f"{journal.path} was changed by somebody during the study; what they wrote is kept as {journal.moved}",
                f"diff {journal.path} {journal.moved}",
            )
