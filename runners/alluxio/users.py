"""Who uses a mount: taking it away from under a job would end that job."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def users(point: Path, proc: Path = Path("/proc")) -> list[tuple[int, str]]:
    """Processes with a file or their working folder below ``point``, as far as this user may see; the mount isn't touched."""
    found = []
    for folder in proc.iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid() and any(_below(path, point) for path in _open(folder)):
            try:
                name = (folder / "comm").read_text(errors="replace").strip()
            except OSError:
                continue
            found.append((int(folder.name), name))
    return sorted(found)


def _open(folder: Path) -> Iterator[str]:
    for place in ("cwd", "root", "exe"):
        yield _link(folder / place)
    try:
        handles = list((folder / "fd").iterdir())
    except OSError:
        return
    for handle in handles:
        yield _link(handle)


def _link(path: Path) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115  what it says, whether or not that is a path
    except OSError:
        return ""


def _below(path: str, point: Path) -> bool:
    return path == str(point) or path.startswith(f"{point}/")
