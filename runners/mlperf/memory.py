"""The memory of a client host, as named or as this one has it."""

from __future__ import annotations

import re
from pathlib import Path

from runners.runner import EnvironmentProblem, UsageError
from spaces.units import parse_size

_LEAST = 64 << 20


def host_memory(given: str = "", meminfo: Path = Path("/proc/meminfo")) -> int:
    """Bytes from a size like 128G, or all that this machine has. Raises UsageError, EnvironmentProblem."""
    if given:
        try:
            size = parse_size(given)
        except ValueError as error:
            raise UsageError("memory", given, str(error)) from None
        if size < _LEAST:
            raise UsageError("memory", given, f"are {size} bytes, which no host has; write it like 128G")
        return size
    try:
        match = re.search(r"^MemTotal:\s+(\d+) kB", meminfo.read_text(), re.MULTILINE)
    except OSError:
        match = None
    if match is None:
        raise EnvironmentProblem("this machine doesn't tell how much memory it has", "name it with --memory, like 128G")
    return int(match[1]) << 10
