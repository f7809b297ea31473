"""oneCCL: env files, launch scripts and machinefiles written from a recommendation, read, and linted."""

from __future__ import annotations

from tuner.exporters.oneccl.env import FORMATS, render
from tuner.exporters.oneccl.lint import fix, lint, matches
from tuner.exporters.oneccl.options import FileOptions, machine_options
from tuner.exporters.oneccl.present import merge, present, present_notes

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
