"""DeepSpeed's `aio` block: written as DeepSpeed loads it, merged into a ds_config.json, read from it, and linted."""

from __future__ import annotations

from tuner.exporters.aio.block import FORMATS, merge, present, render
from tuner.exporters.aio.lint import fix, lint, matches, present_notes
from tuner.exporters.aio.options import FileOptions, machine_options

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
