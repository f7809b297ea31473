"""CPU inference by ranks: env files, launch scripts and hostfiles written from a recommendation, read, and linted."""

from __future__ import annotations

from tuner.exporters.xft.files import FORMATS, render
from tuner.exporters.xft.lint import fix, lint, matches
from tuner.exporters.xft.options import FileOptions, machine_options
from tuner.exporters.xft.present import merge, present, present_notes

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
