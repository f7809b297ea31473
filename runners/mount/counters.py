"""What a process has moved, from the kernel's own books: for mount programs that keep none, and to check those that do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes that the process got by read (sockets and files) and gave by write (sockets, files, /dev/fuse)."""

    read: int
    written: int


def moved_by(pid: int, proc: Path = Path("/proc")) -> Moved:
    """The counters of a process of this user's. Raises OSError when it is gone or another user's."""
    text = (proc / str(pid) / "io").read_text()
    found = dict(re.findall(r"^(rchar|wchar): (\d{1,20})$", text, re.MULTILINE))
    if len(found) != 2:
        raise OSError(f"/proc/{pid}/io names no rchar and wchar")
    return Moved(int(found["rchar"]), int(found["wchar"]))


def processors_busy(before: tuple[float, float], after: tuple[float, float]) -> float:
    """Share of the processors' time between two readings of ``processor_time`` that was not idle."""
    busy, total = after[0] - before[0], after[1] - before[1]
    return min(1.0, max(0.0, busy / total)) if total > 0 else 0.0


def processor_time(proc: Path = Path("/proc")) -> tuple[float, float]:
    """Busy and all time of this machine's processors in ticks, since it was started; (0, 0) where it can't be read."""
    try:
        fields = [int(field) for field in (proc / "stat").read_text().split("\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return 0.0, 0.0
    total = sum(fields)
    return float(total - sum(fields[3:5])), float(total)
