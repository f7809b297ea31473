"""Alluxio as a back end: settings written into the site file, the user's mount made anew with them, and all put back."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from runners.alluxio import metrics
from runners.alluxio.detached import call
from runners.alluxio.journal import Journal, Left
from runners.alluxio.options import Options
from runners.alluxio.process import FuseProcess, end, mount_at, of_pid, serving
from runners.alluxio.proof import prove
from runners.alluxio.session import AlluxioSession
from runners.alluxio.setup import Setup
from runners.alluxio.site import Unreadable, block_of, counting, merged, without_block
from runners.alluxio.users import users
from runners.alluxio.words import Made, made_by, mount_words, unmount_words, with_memory, with_setting
from runners.mount.leftovers import mark_of
from runners.mount.mounting import start
from runners.mount.programs import fuse_problems
from runners.mount.unmount import detach, mounted
from runners.mount.work import Bounds
from runners.runner import EnvironmentProblem, Failure, Json, Problem, UsageError
from spaces.alluxio import PROPERTIES, SPACE, Limits, for_job, in_version, jvm_option, keys_of
from spaces.space import Config, Space

_POLL = 0.05
_LEAVE = 15.0  # seconds for a FUSE process to end by itself


class AlluxioBackend:
    """See runners.mount.backend.Backend. With ``doctor`` neither mount nor version need be known."""

    name = "Alluxio"

    def __init__(self, options: Options, *, doctor: bool = False) -> None:
        self._options = options
        self._setup = Setup.of(options, doctor=doctor)
        self._scratch: Path | None = None
        self._journal: Journal | None = None
        self._made: Made | None = None
        self._was_mounted = False
        self._present: int | None = None

    # -- what there is -------------------------------------------------------------------------------------------------

    def facts(self) -> Mapping[str, Json]:
        version = self._setup.version
        return {
            "alluxio": version.text if version else None,
            "mount": str(self._setup.point),
            "site_file": str(self._setup.site),
        }

    def problems(self) -> list[Problem]:
        setup = self._setup
        found = fuse_problems(needs_helper=False)
        if setup.version is None:
            found.append(
                Problem("alluxio", "error", "no Alluxio is found here", "export ALLUXIO_HOME=DIR, and --alluxio-version V")
            )
        if not setup.remount and setup.install.script is None:
            message = "alluxio-fuse is not found, which mounts and unmounts"
            found.append(Problem("alluxio-fuse", "error", message, "export ALLUXIO_HOME=DIR, or name --remount-cmd COMMAND"))
        if setup.site is not None and self._options.mount:
            found += self._recovered(setup.site)
            found += self._of_site(setup.site)
            found += self._of_mount()
        return found

    def _recovered(self, site: Path) -> list[Problem]:
        """What a killed study left is put back here, before anything is measured."""
        journal = Journal(site)
        if self._journal is not None or not journal.pending():
            return []
        left = journal.open()
        journal.restore()
        self._bring_back(left)
        return [Problem("recovered", "note", f"a study was killed: {journal.path} and its mount are the user's own again")]

    def _bring_back(self, left: Left | None) -> None:
        point = self._setup.point
        if mounted(point) and serving(point) is None:
            detach(point)  # its process died with the study
        if left is not None and left.mount and not mounted(point):
            failed = call(left.mount, limit=self._setup.remount_time, env=os.environ, cwd=Path("/"))
            if failed is not None:
                raise EnvironmentProblem(
                    f"{point} can't be mounted again: {failed.reason}", "mount it yourself, then try again"
                )

    def _of_site(self, site: Path) -> list[Problem]:
        if not site.exists():
            return []
        if not os.access(site, os.R_OK | os.W_OK) or not os.access(site.parent, os.W_OK):
            return [Problem("site-file", "error", f"{site} can't be written by this user", f"sudo, or chown {site.parent}")]
        text = site.read_bytes().decode("iso-8859-1")
        try:
            present = counting(text)
        except Unreadable as error:
            return [Problem("site-file", "error", f"{site}: {error}", f"tune lint {site}")]
        tuned = [key.name for knob in PROPERTIES if in_version(knob, self._setup.version) for key in keys_of(knob)]
        if set(tuned) & set(present):
            message = f"{site} sets keys that are tuned; Alluxio's defaults are what is to be beaten, unless --baseline names it"
            return [Problem("baseline", "note", message, f"--baseline {site} compares with your own settings")]
        return []

    def _of_mount(self) -> list[Problem]:
        point, version = self._setup.point, self._setup.version
        if self._journal is not None:
            return []
        mount = mount_at(point)
        if mount is not None and mount.kind != "fuse":
            return [
                Problem("mount", "error", f"{point} is a mount of {mount.fs_type}, not of FUSE", "name Alluxio's mount point")
            ]
        if mount is None and not point.is_dir():
            return [Problem("mount", "error", f"{point} is no folder", f"mkdir {point}")]
        if using := users(point) if mount is not None else []:
            names = ", ".join(f"{name} ({pid})" for pid, name in using[:5])
            message = f"{point} is in use by {names}: it is unmounted again and again, which would take it away from them"
            return [Problem("mount-in-use", "error", message, "end them, or mount a second time and name that mount")]
        if version is not None and not self._setup.remount and mount is None and not self._source():
            return [
                Problem("source", "error", f"nothing is mounted on {point}, so what to mount is not known", "--source WHAT")
            ]
        return []

    def _source(self) -> str:
        """What to mount where nothing is mounted now, "" where that isn't known."""
        if self._options.source:
            return self._options.source
        version, site = self._setup.version, self._setup.site
        if version is not None and version.line == "open2":
            return "/"
        if site is not None and site.exists():
            entry = counting(site.read_bytes().decode("iso-8859-1")).get("alluxio.dora.client.ufs.root")
            return entry.value.strip() if entry else ""
        return ""

    def space(self, narrowed: Space, bounds: Bounds) -> Space:
        version = self._setup.version
        for knob in narrowed.knobs:
            if knob.domain != SPACE[knob.name].domain and not in_version(knob.name, version) and version is not None:
                key = keys_of(knob.name)[0]
                raise UsageError(knob.option, "…", f"Alluxio {version.title} has no {key.name}; {key.where} has it")
        return for_job(
            narrowed,
            Limits(
                version,
                bounds.open_files,
                bounds.largest,
                bounds.memory,
                cold=not bounds.work.warm,
                mount_options=self._options.tune_mount,
                present=self._memory_now(),
            ),
        )

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
        assert setup.version is not None
        self._scratch = scratch
        self._memory_now()
        process = serving(setup.point)
        self._was_mounted = mounted(setup.point)
        if not setup.remount:
            made = made_by(process, setup.version) if process else None
            source = self._options.source or (made.source if made else self._source())
            if not source:
                raise EnvironmentProblem(f"what is mounted on {setup.point} can't be told", "--source WHAT")
            self._made = Made(source, made.options, made.jvm) if made else Made(source)
        journal = Journal(setup.site)
        self._bring_back(journal.open())
        self._journal = journal
        try:
            if self._was_mounted:
                journal.remember(self._own_mount())
                if not setup.remount:
                    self._unmount(process)
        except OSError as error:
            raise EnvironmentProblem(f"{journal.path}: {error.strerror or error}", f"df -h {journal.path.parent}") from None

    def _own_mount(self) -> list[str]:
        """The command that brings the user's own mount back."""
        if self._setup.remount:
            return list(self._setup.remount)
        script, version = self._setup.install.script, self._setup.version
        assert script is not None
        assert version is not None
        assert self._made is not None
        return mount_words(script, version, self._setup.point, self._made, foreground=False)

    def _unmount(self, process: FuseProcess | None) -> None:
        script, point = self._setup.install.script, self._setup.point
        assert script is not None
        call(unmount_words(script, point), limit=self._setup.remount_time, env=self._env(), cwd=Path("/"))
        # Whatever the script says: gone is what is no longer there.
        detach(point)
        gone = process is None or end(process.pid, process.started, _LEAVE)
        if mounted(point) or not gone:
            raise EnvironmentProblem(f"{point} can't be unmounted", f"{script} unmount {point}")

    def _env(self, memory: int | None = None) -> dict[str, str]:
        env = dict(os.environ)
        setup = self._setup
        if setup.named_site and setup.site is not None:
            env["ALLUXIO_CONF_DIR"] = str(setup.site.parent)
        if memory is not None:
            env["ALLUXIO_FUSE_JAVA_OPTS"] = f"{env.get('ALLUXIO_FUSE_JAVA_OPTS', '')} {jvm_option(memory)}".strip()
        return env

    def mount(self, config: Config, limit: float) -> AlluxioSession | Failure:
        setup, journal = self._setup, self._journal
        assert journal is not None, "prepare comes first"
        limit = min(limit, setup.remount_time)
        values = block_of(config, journal.text, setup.version)
        try:
            journal.write(merged(journal.text, values, ["a study is running; this file is put back when it ends"]))
        except OSError as error:
            return Failure("environment", f"{journal.path} can't be written: {error.strerror or error}")
        written = journal.path.stat().st_mtime
        asked = int(config["direct_memory"])
        memory = asked if asked > max(self._present or 0, int(SPACE.default["direct_memory"])) else None
        if setup.remount:
            return self._by_command(config, values, written, memory, limit)
        return self._by_script(config, values, written, memory, limit)

    def _by_script(
        self, config: Config, values: Mapping[str, str], written: float, memory: int | None, limit: float
    ) -> AlluxioSession | Failure:
        """Mounts with alluxio-fuse in the foreground, so that it ends with us."""
        setup, scratch, made = self._setup, self._scratch, self._made
        assert scratch is not None
        assert made is not None
        assert setup.version is not None
        assert setup.install.script is not None
        wanted = with_setting(made, config)
        if memory is not None and setup.version.line != "open2":
            wanted = with_memory(wanted, memory)
        detach(setup.point)
        words = mount_words(setup.install.script, setup.version, setup.point, wanted, foreground=True)
        program = start(words, setup.point, mark_of(scratch.parent), env=self._env(memory), cwd=scratch)
        if isinstance(program, Failure):
            return program
        try:
            failed = program.wait(limit)
            process = of_pid(program.pid)
            if failed is None and process is None:
                failed = program.ended() or Failure("crash", "the FUSE process ended as soon as it had mounted", "")
            if failed is None and process is not None:
                live = prove(process, setup.point, written, config, values, memory)
                if not isinstance(live, Failure):
                    return AlluxioSession(setup.point, process, live, program, self._web())
                failed = live
        except BaseException:
            program.close()
            raise
        program.close()
        assert failed is not None
        return failed

    def _by_command(
        self, config: Config, values: Mapping[str, str], written: float, memory: int | None, limit: float
    ) -> AlluxioSession | Failure:
        """Mounts with the user's command, and waits for the process that it makes."""
        setup = self._setup
        deadline = time.monotonic() + limit
        failed = call(setup.remount, limit=limit, env=self._env(memory), cwd=Path("/"))
        if failed is not None:
            return failed
        while True:
            process = serving(setup.point) if mounted(setup.point) else None
            if process is not None:
                live = prove(process, setup.point, written, config, values, memory)
                if not isinstance(live, Failure):
                    return AlluxioSession(setup.point, process, live, None, self._web())
                return live
            if time.monotonic() > deadline:
                return Failure("timeout", f"nothing was mounted on {setup.point} within {limit:.1f} s by the command")
            time.sleep(_POLL)

    def _web(self) -> int | None:
        assert self._journal is not None
        try:
            return metrics.port(counting(without_block(self._journal.text)))
        except Unreadable:
            return None

    # -- the end -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Puts the site file back, then the mount. Raises EnvironmentProblem where the mount doesn't come back."""
        journal, self._journal = self._journal, None
        if journal is None:
            return
        own = self._own_mount() if self._was_mounted else []
        journal.restore()
        point = self._setup.point
        if not self._setup.remount and mounted(point):
            detach(point)
        if own:
            failed = call(own, limit=self._setup.remount_time, env=self._env(), cwd=Path("/"))
            if failed is not None or not mounted(point):
                why = failed.reason if failed else "it is not there"
                raise EnvironmentProblem(
                    f"the site file is back, but {point} is not mounted again: {why}", "mount it yourself"
                )
        if journal.moved is not None:
            raise EnvironmentProblem(
                f"{journal.path} was changed by somebody during the study; what they wrote is kept as {journal.moved}",
                f"diff {journal.path} {journal.moved}",
            )
