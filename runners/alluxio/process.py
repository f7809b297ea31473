"""The FUSE process behind a mount, found and watched by what the kernel tells of it; its command line may hold secrets."""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runners.alluxio.site import memory_of
from runners.mounts import Mount, read_mounts

_CONNECTIONS = Path("/sys/fs/fuse/connections")
_CLASS = "AlluxioFuse"


@dataclass(frozen=True, slots=True)
class FuseProcess:
    """``words`` is its command line: never to be shown or kept, as 3.x takes credentials there."""

    pid: int
    words: tuple[str, ...]
    started: float

    @property
    def direct_memory(self) -> int | None:
        """Bytes that -XX:MaxDirectMemorySize gives; None where the JVM goes by -Xmx."""
        return memory_of(" ".join(self.words))

    def options(self, name: str) -> list[str]:
        """The values behind each ``-name``."""
        return [self.words[place + 1] for place, word in enumerate(self.words[:-1]) if word == name]


def serving(point: Path, proc: Path = Path("/proc")) -> FuseProcess | None:
    """The FUSE process that names ``point`` in its command line, the youngest if several do; None where none is seen."""
    found = []
    for folder in proc.iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        words = _words(folder)
        if str(point) in words and any(_CLASS in word or word.endswith("alluxio-fuse") for word in words):
            with suppress(OSError, ValueError, IndexError):
                found.append(FuseProcess(int(folder.name), words, _started(folder, proc)))
    return max(found, key=lambda each: each.started, default=None)


def of_pid(pid: int, proc: Path = Path("/proc")) -> FuseProcess | None:
    try:
        return FuseProcess(pid, _words(proc / str(pid)), _started(proc / str(pid), proc))
    except (OSError, ValueError, IndexError):
        return None


def _words(folder: Path) -> tuple[str, ...]:
    try:
        return tuple((folder / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0"))
    except OSError:
        return ()


def _started(folder: Path, proc: Path) -> float:
    """time.time() at which the process began, to a hundredth of a second."""
    ticks = int((folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[19])
    uptime = float((proc / "uptime").read_text().split()[0])
    return time.time() - uptime + ticks / os.sysconf("SC_CLK_TCK")


def mount_at(point: Path) -> Mount | None:
    """The topmost mount on ``point``, told without touching it."""
    return next((mount for mount in reversed(read_mounts()) if mount.point == str(point)), None)


def connection(mount: Mount) -> Path:
    """The kernel's folder of a FUSE mount."""
    return _CONNECTIONS / mount.device_id.partition(":")[2]


def abort(point: Path) -> None:
    """Makes every request on the mount fail at once, whatever its process does; nothing happens where that isn't allowed."""
    mount = mount_at(point)
    if mount is not None and mount.kind == "fuse":
        with suppress(OSError):
            (connection(mount) / "abort").write_text("1")


def max_background(mount: Mount) -> int | None:
    """Requests that the kernel sends ahead on the mount; None where this user may not look."""
    try:
        text = (connection(mount) / "max_background").read_text().strip()
    except OSError:
        return None
    return int(text) if re.fullmatch(r"\d{1,9}", text) else None


def end(pid: int, started: float, patience: float) -> bool:
    """Ends a FUSE process, politely first; whether it is gone. Another process that was given its number is left alone."""
    deadline = time.monotonic() + patience
    number = signal.SIGTERM
    while True:
        now = of_pid(pid)
        if now is None or abs(now.started - started) > 1.0 or not now.words[0]:
            return True
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        if time.monotonic() > deadline:
            if number == signal.SIGKILL:
                return False
            number, deadline = signal.SIGKILL, time.monotonic() + 2.0
        time.sleep(0.1)
