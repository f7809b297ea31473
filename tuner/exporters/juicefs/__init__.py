"""JuiceFS: mount scripts, systemd units and fstab lines written from a recommendation, read, and linted."""

from __future__ import annotations

from tuner.exporters.juicefs.files import FORMATS, FileOptions, render
from tuner.exporters.juicefs.lint import fix, lint, matches
from tuner.exporters.juicefs.settings import machine_options, merge, present, present_notes
from tuner.exporters.mountsecrets import masked

FILE_OPTIONS = FileOptions

__all__ = [
    "FILE_OPTIONS",
    "FORMATS",
    "fix",
    "lint",
    "machine_options",
    "masked",
    "matches",
    "merge",
    "present",
    "present_notes",
    "render",
]
