"""What a process really has, read from /proc while it lives: the CPUs of each thread, the nodes of its memory, others' load.

Part of the text that is sent to ranks: standard library and runners.topology.probe only, Python 3.7 or newer.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from runners.topology.probe import members

_TICK = os.sysconf("SC_CLK_TCK")
# Of a line of /proc/stat: user nice system idle iowait irq softirq steal.
_IDLE, _FIELDS = (3, 4), 8


def threads(pid: int) -> dict[int, dict[str, Any]]:
    """Of each thread: the CPUs that it may use, the one it ran on last, and the seconds that it ran."""
    found = {}
    for folder in _entries(f"/proc/{pid}/task"):
        with suppress(OSError, ValueError, IndexError):
            status = (folder / "status").read_text()
            # The name in parentheses may hold anything: count from its end, state first.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            allowed = re.search(r"^Cpus_allowed_list:\s*(\S*)", status, re.MULTILINE)
            found[int(folder.name)] = {
                "cpus": members(allowed.group(1)) if allowed else [],
                "last": int(fields[36]),
                "seconds": (int(fields[11]) + int(fields[12])) / _TICK,
            }
    return found


def memory_nodes(pid: int) -> dict[str, int]:
    """Bytes of the process's own memory (anonymous pages) on each node; {} where the kernel doesn't tell."""
    found: dict[str, int] = {}
    with suppress(OSError), Path(f"/proc/{pid}/numa_maps").open() as lines:
        for line in lines:
            words = line.split()
            if not any(word.startswith("anon=") for word in words):
                continue
            size = next((int(word[18:]) << 10 for word in words if word.startswith("kernelpagesize_kB=")), 4096)
            for word in words:
                node = re.fullmatch(r"N(\d+)=(\d+)", word)
                if node:
                    found[node.group(1)] = found.get(node.group(1), 0) + size * int(node.group(2))
    return found


def busy() -> dict[int, float]:
    """Seconds that each CPU was not idle since the host started, time that other guests took included."""
    found = {}
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/stat").read_text().splitlines():
            name = re.match(r"cpu(\d+) ", line)
            if name:
                fields = [int(field) for field in line.split()[1 : 1 + _FIELDS]]
                found[int(name.group(1))] = (sum(fields) - sum(fields[each] for each in _IDLE)) / _TICK
    return found


def loaded(names: tuple[str, ...]) -> list[str]:
    """Those of ``names`` that begin the name of a library that this process has loaded."""
    try:
        files = {
            Path(line.split(None, 5)[5].strip()).name
            for line in Path("/proc/self/maps").read_text().splitlines()
            if "/" in line
        }
    except OSError:
        return []
    return [name for name in names if any(file.startswith(name) for file in files)]


def _entries(path: str) -> list[Path]:
    try:
        return list(Path(path).iterdir())
    except OSError:
        return []


class Watch:
    """From when it is made: what the threads of ``pid`` did, and how much others took of its CPUs."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._threads, self._busy = threads(pid), busy()

    def report(self) -> dict[str, Any]:
        """``threads`` with the seconds since, and ``busy`` seconds of each CPU that they may use."""
        now, then = threads(self._pid), self._threads
        for number, thread in now.items():
            thread["seconds"] = thread["seconds"] - then.get(number, {"seconds": 0.0})["seconds"]
        used = sorted({cpu for thread in now.values() for cpu in thread["cpus"]})
        after = busy()
        return {
            "threads": list(now.values()),
            "busy": {str(cpu): round(after[cpu] - self._busy.get(cpu, 0.0), 2) for cpu in used if cpu in after},
        }
