"""Runs a rank's program with its memory policy, and tells at its end which CPUs and memory its threads really had.

Sent to hosts as text and run by the Python that is there, 3.7 or newer. The program keeps standard input, output, and what a
launcher handed over; the report is one line on standard error.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from runners.xft.engines import live, placing

MARK = "\x1fclustertune-live "
_EVERY = 0.25
_TOLD = ("OMP_", "GOMP_", "KMP_")


class Watched:
    """The processes of one program: of each thread the most seconds that were seen, as threads come and go."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.begun, self.busy = time.monotonic(), live.busy()
        self.threads: dict[int, dict[str, Any]] = {}
        self.pages: dict[str, int] = {}

    def look(self) -> None:
        pages: dict[str, int] = {}
        for pid in family(self.pid):
            self.threads.update(live.threads(pid))
            for node, size in live.memory_nodes(pid).items():
                pages[node] = pages.get(node, 0) + size
        if sum(pages.values()) >= sum(self.pages.values()):
            self.pages = pages

    def report(self) -> dict[str, Any]:
        after = live.busy()
        used = sorted({cpu for thread in self.threads.values() for cpu in thread["cpus"]})
        return {
            "threads": list(self.threads.values()),
            "busy": {str(cpu): round(after[cpu] - self.busy.get(cpu, 0.0), 2) for cpu in used if cpu in after},
            "wall": time.monotonic() - self.begun,
            "pages": self.pages,
        }


def family(pid: int) -> list[int]:
    """A process and all that it started, as far as they live."""
    found, frontier = [], [pid]
    while frontier:
        one = frontier.pop()
        found.append(one)
        for folder in Path("/proc/%d/task" % one).glob("*/children"):  # noqa: UP031  as Python 3.7 reads it
            try:
                frontier += map(int, folder.read_text().split())
            except (OSError, ValueError):
                continue
    return found


def arrange() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # dies with us


def main() -> None:
    spec = json.loads(base64.b64decode(sys.argv[1]).decode())
    memory = spec["memory"]
    cpus = sorted(os.sched_getaffinity(0))
    try:
        if memory["policy"] != "none":
            placing.set_memory(memory["policy"], memory["nodes"])
        # A launcher may hand its connection over as an open file.
        child = subprocess.Popen(spec["argv"], close_fds=False, preexec_fn=arrange, cwd=spec["cwd"] or None)
    except placing.CantPlace as error:
        sys.stderr.write(f"can't place: {error}\n")
        sys.exit(4)
    except OSError as error:
        sys.stderr.write(f"{spec['argv'][0]} can't be started: {error.strerror}\n")
        sys.exit(127)
    watched = Watched(child.pid)
    pause = 0.02
    while True:
        watched.look()
        try:
            child.wait(pause)
            break
        except subprocess.TimeoutExpired:
            pause = min(_EVERY, 2 * pause)
    told = {
        **watched.report(),
        "node": os.uname().nodename,
        "cpus": cpus,
        "memory": placing.memory(),
        "omp": {name: value for name, value in os.environ.items() if name.startswith(_TOLD)},
    }
    sys.stderr.write("\n" + MARK + json.dumps(told) + "\n")
    sys.stderr.flush()
    if child.returncode < 0:
        signal.signal(-child.returncode, signal.SIG_DFL) if -child.returncode not in (9, 19) else None
        os.kill(os.getpid(), -child.returncode)
    os._exit(child.returncode & 0xFF)


if __name__ == "__main__":
    main()
