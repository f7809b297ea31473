"""PyTorch's TCPStore: env files and start scripts written with switches that were seen to work, read, and linted."""

from __future__ import annotations

from tuner.exporters.format import Options
from tuner.exporters.tcpstore.env import FORMATS, merge, present, render
from tuner.exporters.tcpstore.lint import fix, lint, matches
from tuner.exporters.tcpstore.options import FileOptions, machine_options

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


def present_notes(text: str, options: Options) -> list[str]:  # noqa: ARG001
    """None: what an env file or start script assigns is what ``present`` reads from it."""
    return []
