"""How much of the CPUs others used while a run measured: what is best on a busy machine may not be on a quiet one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

# Fields of a line of /proc/stat: user nice system idle iowait irq softirq steal; steal is another guest's work.
_IDLE = (3, 4)
_FIELDS = 8


class Contention:
    """Counts from where it is made; ``others`` may be asked while the processes of the run still live."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._busy, self._all = self._cpus()
        self._own = self._own_ticks()

    def others(self) -> float | None:
        """Share of all CPU time, 0 to 1, that went to processes not of this run; None where it can't be known."""
        busy, total = self._cpus()
        if total <= self._all:
            return None
        foreign = (busy - self._busy) - (self._own_ticks() - self._own)
        return min(1.0, max(0.0, foreign / (total - self._all)))

    def _cpus(self) -> tuple[int, int]:
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = [int(field) for field in (self._proc / "stat").read_text().splitlines()[0].split()[1 : 1 + _FIELDS]]
            return sum(fields) - sum(fields[i] for i in _IDLE), sum(fields)
        return 0, 0

    def _own_ticks(self) -> int:
        """CPU ticks of this process, of its descendants that live and of those that it has waited for."""
        parents: dict[int, int] = {}
        ticks: dict[int, int] = {}
        for pid, parent, used in self._processes():
            parents[pid], ticks[pid] = parent, used
        return sum(used for pid, used in ticks.items() if self._descends(pid, parents))

    def _processes(self) -> Iterator[tuple[int, int, int]]:
        for folder in self._proc.iterdir():
            if folder.name.isdecimal():
                with contextlib.suppress(OSError, ValueError, IndexError):
                    # After the name in brackets, which may hold anything: state ppid … utime stime cutime cstime.
                    fields = (folder / "stat").read_text().rpartition(")")[2].split()
                    yield int(folder.name), int(fields[1]), sum(int(field) for field in fields[11:15])

    @staticmethod
    def _descends(pid: int, parents: dict[int, int]) -> bool:
        own = os.getpid()
        while pid and pid != own:
            pid = parents.get(pid, 0)
        return pid == own
