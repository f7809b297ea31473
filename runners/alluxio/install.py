"""The Alluxio that is installed here: its folder, version, site file and scripts, found as Alluxio finds them."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from spaces.alluxio import Version, parse_version

SITE = "alluxio-site.properties"
# The scripts of 2.x, of open source 3.x, and of archives that were made smaller.
_SCRIPTS = (
    "integration/fuse/bin/alluxio-fuse",
    "dora/integration/fuse/bin/alluxio-fuse",
    "bin/alluxio-fuse",
)
_JARS = ("assembly", "client", "lib", "assembly/client/target", "assembly/server/target", "dora/integration/fuse/target")
_JAR = re.compile(r"alluxio(?:-[a-zA-Z_]+)*-(?P<version>\d[\w.-]*?)(?:-(?:jar|client|all|shaded)[\w-]*)?\.jar")
_CONFIG = re.compile(r"^\s*(?:export\s+)?VERSION=[\"']?(?P<version>[\w.-]+)", re.MULTILINE)
_USUAL = Path("/opt/alluxio")


@dataclass(frozen=True, slots=True)
class Install:
    """``home`` is Alluxio's folder, None where none is found; ``script`` its alluxio-fuse."""

    home: Path | None
    script: Path | None

    @classmethod
    def find(cls, environ: Mapping[str, str] = os.environ, path: str | None = None) -> Install:
        """By $ALLUXIO_HOME, else by alluxio-fuse or alluxio on the PATH, else /opt/alluxio."""
        named = environ.get("ALLUXIO_HOME")
        if named:
            home: Path | None = Path(named)
        else:
            home = next(_homes(path if path is not None else environ.get("PATH", "")), None)
        if home is None or not home.is_dir():
            return cls(None, None)
        return cls(home, next((home / each for each in _SCRIPTS if os.access(home / each, os.X_OK)), None))

    def version(self) -> str | None:
        """As its jars or its configuration script tell; nothing is started. None where neither does."""
        if self.home is None:
            return None
        for folder in _JARS:
            try:
                names = sorted(entry.name for entry in (self.home / folder).iterdir())
            except OSError:
                continue
            for match in filter(None, map(_JAR.fullmatch, names)):
                if _known(match["version"]):
                    return match["version"]
        for config in (self.home / "libexec/alluxio-config.sh", self.home / "conf/alluxio-env.sh"):
            try:
                found = _CONFIG.search(config.read_text(errors="replace"))
            except OSError:
                continue
            if found and _known(found["version"]):
                return found["version"]
        return None

    def site_files(self, environ: Mapping[str, str] = os.environ) -> list[Path]:
        """Where Alluxio looks for the site file, in its order; the first that can be read is the only one it takes."""
        conf = environ.get("ALLUXIO_CONF_DIR") or (str(self.home / "conf") if self.home else "")
        user = environ.get("HOME") or str(Path.home())
        return [Path(folder) / SITE for folder in (conf, f"{user}/.alluxio", "/etc/alluxio") if folder]

    def site_file(self, environ: Mapping[str, str] = os.environ) -> Path | None:
        return next((path for path in self.site_files(environ) if os.access(path, os.R_OK) and path.is_file()), None)


def find_version() -> str | None:
    """The version of the Alluxio that is installed here, None where none is."""
    return Install.find().version()


def as_version(text: str | None) -> Version | None:
    """``text`` as a version; None where it is none."""
    try:
        return parse_version(text) if text else None
    except ValueError:
        return None


def _known(text: str) -> bool:
    return as_version(text) is not None


def _homes(path: str) -> Iterator[Path]:
    for name in ("alluxio-fuse", "alluxio"):
        program = shutil.which(name, path=path)
        if program is None:
            continue
        real = Path(program).resolve()
        for folder in real.parents:
            if (folder / "conf").is_dir() and any((folder / each).exists() for each in ("bin/alluxio", *_SCRIPTS)):
                yield folder
                break
    if _USUAL.is_dir():
        yield _USUAL
