"""What keepers say and how a job's processes are found: part of the text that is sent to hosts, standard library only."""

from __future__ import annotations

import base64
import binascii
import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

MARK = "CLUSTERTUNE_JOB"
SOURCE, TABLE = "CLUSTERTUNE_KEEPER", "CLUSTERTUNE_RANKS"
# A reader along the way may cut what it reads at a multiple of this size, never inside of a frame.
FRAME = 1024
HEAD = 40
_ROOM = (FRAME - HEAD - 1) // 4 * 3


def frames(job: str, rank: int, number: int, kind: str, data: bytes) -> list[bytes]:
    """``data`` in frames of FRAME bytes each, text without control characters but the first, numbered from ``number``."""
    made: list[bytes] = []
    for start in range(0, len(data) or 1, _ROOM):
        text = base64.b64encode(data[start : start + _ROOM])
        last = b"." if start + _ROOM >= len(data) else b"+"
        head = b"%6d%8d%s%s%4d" % (rank, (number + len(made)) % 10**8, kind.encode(), last, len(text))
        check = b"%08x" % (binascii.crc32(head + text) & 0xFFFFFFFF)
        made.append((b"\x1e" + job[:8].encode() + check + head + b"   " + text).ljust(FRAME - 1) + b"\n")
    return made


def holders(mark: str) -> dict[int, str]:
    """Processes of this host that hold ``mark`` or a mark below it (``mark.…``), with their names; zombies hold nothing."""
    exact = f"{MARK}={mark}".encode()
    found: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            with suppress(OSError):
                entries = (folder / "environ").read_bytes().split(b"\0")
                if any(entry == exact or entry.startswith(exact + b".") for entry in entries):
                    found[int(folder.name)] = (folder / "comm").read_text(errors="replace").strip()
    return found


def parents() -> dict[int, tuple[int, int]]:
    """Of each process of this host that is no zombie: its parent, and when it was started, in ticks."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                # The name may hold anything; what follows its last bracket is state, parent, … and the start as the 20th.
                rest = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
                if rest[0] not in "ZX":
                    found[int(folder.name)] = (int(rest[1]), int(rest[19]))
    return found


def below(found: dict[int, str], alive: dict[int, tuple[int, int]]) -> dict[int, str]:
    """``found`` with all that descends from it: a program that sets its own title overwrites its environment."""
    whole = dict(found)
    while True:
        more = {pid for pid, (parent, _) in alive.items() if parent in whole and pid not in whole and pid != os.getpid()}
        if not more:
            return whole
        whole.update({pid: str(pid) for pid in more})


def end_all(mark: str, grace: float, patience: float = 5.0) -> dict[int, str]:
    """Ends all holders and what descends from them: politely, after ``grace`` seconds without asking.

    Returns those that even then are left.
    """
    begun = time.monotonic()
    polite = grace > 0
    started: dict[int, int] = {}
    names: dict[int, str] = {}
    while True:
        marked = holders(mark)
        alive = parents() if marked or started else {}  # most jobs leave nothing behind
        found = below(marked, alive)
        # Whose parent was quicker to end is nobody's child any more.
        found.update({pid: names[pid] for pid, start in started.items() if pid in alive and alive[pid][1] == start})
        names.update(found)
        started.update({pid: alive[pid][1] for pid in found if pid in alive})
        passed = time.monotonic() - begun
        if not found or passed > grace + patience:
            return found
        for pid in found:
            if polite or passed >= grace:
                with suppress(OSError):
                    os.kill(pid, signal.SIGTERM if polite else signal.SIGKILL)
        polite = False
        time.sleep(0.01 if passed < 0.1 else 0.05)


def sweep(spec: dict[str, Any]) -> None:
    """Ends what is left of a whole job on this host, and tells what was and what still is there."""
    found = holders(spec["sweep"])
    left = end_all(spec["sweep"], spec["grace"]) if found else {}
    end = {"status": 0, "stopped": "", "found": sorted(found.values()), "left": sorted(left.values()), "seconds": 0.0}
    for frame in frames(spec["job"], 0, 0, "X", json.dumps(end).encode()):
        os.write(1, frame)
