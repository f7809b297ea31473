"""How alluxio-fuse is called by each product line: words of mount and unmount, and what a running mount was made with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runners.alluxio.process import FuseProcess
from spaces.alluxio import BY_NAME, Version, jvm_option, mount_options
from spaces.space import Config

# What the script of 2.x adds by itself.
_ADDED = frozenset(("big_writes",))


@dataclass(frozen=True, slots=True)
class Made:
    """What a mount is made of: ``source`` (a path in Alluxio, or a store's address), options of -o, options of the JVM.

    ``options`` and ``jvm`` may hold credentials: they are handed on, never shown.
    """

    source: str
    options: tuple[str, ...] = ()
    jvm: tuple[str, ...] = ()


def made_by(process: FuseProcess, version: Version) -> Made | None:
    """What a running FUSE process was started with; None where its command line is of another kind."""
    sources = process.options("-r" if version.line == "open2" else "-u")
    if not sources:
        return None
    given = [each for value in process.options("-o") for each in value.split(",") if each and each not in _ADDED]
    jvm = tuple(word for word in process.words if word.startswith("-X"))
    return Made(sources[-1], tuple(given), jvm if version.line != "open2" else ())


def mount_words(script: Path, version: Version, point: Path, made: Made, *, foreground: bool) -> list[str]:
    """The command that mounts ``made`` on ``point``; in the foreground it is the FUSE process itself."""
    if version.line == "open2":
        options = ["-o", ",".join(made.options)] if made.options else []
        return [str(script), "mount", *(["-n"] if foreground else []), *options, str(point), made.source]
    options = [word for each in made.options for word in ("-o", each)]
    return [str(script), "mount", made.source, str(point), *(["-f"] if foreground else []), *options, *made.jvm]


def unmount_words(script: Path, point: Path) -> list[str]:
    return [str(script), "unmount", str(point)]


def with_setting(made: Made, config: Config) -> Made:
    """``made`` with the mount options of a setting where -o names any: what stands there wins over the site file."""
    return Made(made.source, tuple(mount_options(config, made.options)), made.jvm) if made.options else made


def with_memory(made: Made, size: int) -> Made:
    """``made`` with that much direct memory for the JVM, for scripts that take its options behind the mount point."""
    kept = tuple(word for word in made.jvm if not word.startswith("-XX:MaxDirectMemorySize"))
    return Made(made.source, made.options, (*kept, jvm_option(size)))


def overriding(words: Sequence[str]) -> list[str]:
    """Keys of ours that a command line sets, by -D or -o: they win over the site file."""
    found = []
    for word in words:
        for part in word.split(","):
            name, equals, _ = part.removeprefix("-D").partition("=")
            if equals and name in BY_NAME:
                found.append(name)
    return list(dict.fromkeys(found))
