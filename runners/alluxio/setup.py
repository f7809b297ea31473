"""The options of a run, checked: which Alluxio, which site file, which mount, and how it is made anew."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from runners.alluxio.install import SITE, Install, as_version
from runners.alluxio.options import Options
from runners.alluxio.properties import last
from runners.runner import UsageError
from spaces.alluxio import Version, parse_version
from spaces.units import parse_duration

_ROOT = "alluxio.dora.client.ufs.root"
# NAME=SECRET of a known kind of name, or a name and a password in an address.
_SECRET = re.compile(
    r"(?:secret|passw|token|credential|access\.?key|account\.?key)[\w.-]*=.|://[^/@\s]*:[^/@\s]*@", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Setup:
    """``point`` is absolute, its own last part not followed: looking at a mount may hang. ``remount`` () is our own way.

    ``version`` and ``site`` are None where they can't be told, which only a doctor accepts.
    """

    install: Install
    version: Version | None
    site: Path | None
    point: Path
    remount: tuple[str, ...]
    remount_time: float
    named_site: bool
    source: str

    @classmethod
    def of(cls, options: Options, *, doctor: bool = False) -> Setup:
        """Raises UsageError."""
        if not options.mount and not doctor:
            raise UsageError("mount", "''", "must name the mount point of Alluxio's FUSE process")
        _refuse_secret_source(options)
        install = Install.find()
        version = _version(options, install)
        site = _site(options, install)
        if not doctor:
            if version is None:
                raise UsageError(
                    "alluxio-version", "''", "can't be told from the files here; write it like 3.6, 2.9.5 or oss-3"
                )
            if site is None:
                raise UsageError("site-file", "''", f"no {SITE} and no folder for it was found; name it")
        try:
            seconds = parse_duration(options.remount_time)
        except ValueError as error:
            raise UsageError("remount-time", options.remount_time, str(error)) from None
        command, point = _command(options), _point(options.mount)
        return cls(install, version, site, point, command, seconds, bool(options.site_file), options.source)

    def likely_source(self) -> str:
        """What to mount where nothing is mounted now, "" where that isn't known."""
        if self.source or self.version is None:
            return self.source
        if self.version.line == "open2":
            return "/"
        if self.site is None or not self.site.exists():
            return ""
        entry = last(self.site.read_bytes().decode("iso-8859-1")).get(_ROOT)
        return entry.value.strip() if entry else ""


def _version(options: Options, install: Install) -> Version | None:
    if not options.alluxio_version:
        return as_version(install.version())
    try:
        return parse_version(options.alluxio_version)
    except ValueError as error:
        raise UsageError("alluxio-version", options.alluxio_version, str(error)) from None


def _site(options: Options, install: Install) -> Path | None:
    """The file that is read, or the first place where it would be looked for and may be made."""
    if options.site_file:
        named = Path(options.site_file).absolute()
        if named.is_dir():
            raise UsageError("site-file", options.site_file, "is a folder; name the file in it")
        if not named.parent.is_dir():
            raise UsageError("site-file", options.site_file, "is in a folder that does not exist")
        if named.name != SITE:
            raise UsageError("site-file", options.site_file, f"must be called {SITE}, or Alluxio does not read it")
        return named
    return install.site_file() or next((path for path in install.site_files() if path.parent.is_dir()), None)


def _point(text: str) -> Path:
    absolute = Path(os.path.abspath(text)) if text else Path("/")  # noqa: PTH100  resolve() would look at the mount itself
    return absolute.parent.resolve() / absolute.name if absolute.name else absolute


def _command(options: Options) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(options.remount_cmd))
    except ValueError as error:
        raise UsageError("remount-cmd", options.remount_cmd, f"can't be split into words: {error}") from None
    if any(_SECRET.search(word) for word in words):
        why = "names a secret, which would stay in the study: put the command into a script of yours"
        raise UsageError("remount-cmd", f"{words[0]} …", why)
    if words and shutil.which(words[0]) is None:
        raise UsageError("remount-cmd", words[0], "is no program that can be started; it is not given to a shell")
    return words


def _refuse_secret_source(options: Options) -> None:
    if _SECRET.search(options.source):
        raise UsageError("source", "…", "names a secret, which would stay in the study: put it into the site file")
