"""What the kernel allows a process of this user: locked memory, asynchronous I/O, memory, and whether this is a container."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

PROC = Path("/proc")
CGROUP = Path("/sys/fs/cgroup")

_CAP_IPC_LOCK = 14
# cgroup v1 writes "no limit" as the largest page-aligned number.
_NO_LIMIT = 1 << 60


@dataclass(frozen=True, slots=True)
class Memlock:
    """RLIMIT_MEMLOCK in bytes, per process; None is unlimited. ``privileged`` processes (CAP_IPC_LOCK) have no limit."""

    soft: int | None
    hard: int | None
    privileged: bool

    def allows(self, size: int) -> bool:
        return self.privileged or self.soft is None or size <= self.soft


@dataclass(frozen=True, slots=True)
class AioEvents:
    """fs.aio-max-nr and what all processes of the host have reserved of it."""

    maximum: int
    used: int

    @property
    def free(self) -> int:
        return max(0, self.maximum - self.used)


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _integer(text: str) -> int | None:
    stripped = text.strip()
    return int(stripped) if re.fullmatch(r"[0-9]{1,20}", stripped) else None


def memlock(proc: Path = PROC) -> Memlock:
    """The limits of this process; unlimited where the kernel doesn't say."""
    match = re.search(r"^Max locked memory\s+(\S+)\s+(\S+)", _read(proc / "self/limits"), re.MULTILINE)
    soft, hard = (_integer(match[1]), _integer(match[2])) if match else (None, None)
    return Memlock(soft, hard, ipc_lock(proc))


def ipc_lock(proc: Path = PROC) -> bool:
    """Whether this process has CAP_IPC_LOCK in effect, as root has outside of most containers."""
    match = re.search(r"^CapEff:\s*([0-9a-fA-F]{1,32})\s*$", _read(proc / "self/status"), re.MULTILINE)
    return bool(match and int(match[1], 16) >> _CAP_IPC_LOCK & 1)


def aio_events(proc: Path = PROC) -> AioEvents | None:
    """None where the kernel has no asynchronous I/O."""
    maximum, used = _integer(_read(proc / "sys/fs/aio-max-nr")), _integer(_read(proc / "sys/fs/aio-nr"))
    return None if maximum is None else AioEvents(maximum, used or 0)


def available_memory(proc: Path = PROC, cgroup: Path = CGROUP) -> int | None:
    """Bytes that can be allocated now without swapping: the least of what the host and each enclosing cgroup have left.

    Page cache that the kernel would give back counts as available. None where nothing can be read.
    """
    match = re.search(r"^MemAvailable:\s+(\d{1,18}) kB", _read(proc / "meminfo"), re.MULTILINE)
    rooms = [int(match[1]) * 1024] if match else []
    rooms += _cgroup_rooms(_read(proc / "self/cgroup"), cgroup)
    return min(rooms) if rooms else None


def _cgroup_rooms(membership: str, cgroup: Path) -> Iterator[int]:
    for line in membership.splitlines():
        parts = line.split(":", 2)
        if len(parts) != 3:
            continue
        if parts[1] == "":
            for root in (cgroup, cgroup / "unified"):
                for folder in _upwards(root, parts[2]):
                    yield from _room(folder, ("memory.max", "memory.high"), "memory.current", "inactive_file")
        elif "memory" in parts[1].split(","):
            for folder in _upwards(cgroup / "memory", parts[2]):
                yield from _room(folder, ("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_inactive_file")


def _upwards(root: Path, name: str) -> Iterator[Path]:
    """The group's folder and those that enclose it.

    In a container the name may be the host's while the mount shows only our part; then just the root of the mount is there.
    """
    parts = [part for part in PurePosixPath(name).parts if part not in ("/", "..")]
    for count in range(len(parts), -1, -1):
        folder = root.joinpath(*parts[:count])
        if folder.is_dir():
            yield folder


def _room(folder: Path, limits: tuple[str, ...], current: str, cache: str) -> Iterator[int]:
    known = [n for n in (_integer(_read(folder / name)) for name in limits) if n is not None and n < _NO_LIMIT]
    used = _integer(_read(folder / current))
    if not known or used is None:
        return
    match = re.search(rf"^{cache} (\d{{1,18}})$", _read(folder / "memory.stat"), re.MULTILINE)
    yield max(0, min(known) - max(0, used - (int(match[1]) if match else 0)))


def container(root: Path = Path("/"), environ: Mapping[str, str] = os.environ) -> str | None:
    """What kind of container this process is in (docker, podman, kubernetes, lxc, ...), or None on a host."""
    if "KUBERNETES_SERVICE_HOST" in environ:
        return "kubernetes"
    named = _read(root / "run/systemd/container").strip() or environ.get("container", "")
    if re.fullmatch(r"[a-z0-9-]{1,32}", named):
        return named
    if (root / ".dockerenv").exists():
        return "docker"
    if (root / "run/.containerenv").exists():
        return "podman"
    for line in _read(root / "proc/1/cgroup").splitlines():
        for word, kind in (("kubepods", "kubernetes"), ("docker", "docker"), ("libpod", "podman"), ("lxc", "lxc")):
            if word in line:
                return kind
    return None
