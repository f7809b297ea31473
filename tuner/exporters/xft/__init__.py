"""CPU inference by ranks: env files, launch scripts and hostfiles written from a recommendation, read, and linted.

What does the work is imported when it is called: the command line is built from the formats and options alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.exporters.format import Finding, Merged, Options
from tuner.exporters.xft.formats import FORMATS, FileOptions

if TYPE_CHECKING:
    from runners.runner import Json
    from spaces.space import Value
    from tuner.recommendation import Recommendation

FILE_OPTIONS = FileOptions

__all__ = [
    "FILE_OPTIONS",
    "FORMATS",
    "fix",
    "lint",
    "machine_options",
    "matches",
    "merge",
    "present",
    "present_notes",
    "render",
]


def render(recommendation: Recommendation, format: str, options: Options) -> dict[str, str]:
    """The file of one format. Raises WrongUsage."""
    from tuner.exporters.xft import files

    return files.render(recommendation, format, options)


def merge(text: str, recommendation: Recommendation, options: Options) -> Merged:
    """See tuner.exporters.xft.merging. Raises WrongUsage."""
    from tuner.exporters.xft import merging

    return merging.merge(text, recommendation, options)


def present(text: str, options: Options) -> dict[str, Value]:
    """The setting that a job gets with this file. Raises WrongUsage for what isn't measured."""
    from tuner.exporters.xft import reading

    return reading.present(text, options)


def present_notes(text: str, options: Options) -> list[str]:
    """What the file sets and the baseline then doesn't have, or how it was read, a sentence each."""
    from tuner.exporters.xft import reading

    return reading.present_notes(text, options)


def matches(filename: str, text: str) -> bool:
    """An env file or script with variables of xFT, or one that pins a model's ranks with numactl or taskset."""
    from tuner.exporters.xft import linting

    return linting.matches(filename, text)


def lint(text: str, options: Options) -> list[Finding]:
    """Every finding, oneCCL's own among them, in line order."""
    from tuner.exporters.xft import linting

    return linting.lint(text, options)


def fix(text: str, options: Options) -> str:
    """``text`` with the safe mends made."""
    from tuner.exporters.xft import linting

    return linting.fix(text, options)


def machine_options() -> dict[str, Json]:
    """Nothing: this machine is rarely one of a job's hosts."""
    return {}
