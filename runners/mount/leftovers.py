"""What killed runs left: mounts in their scratch folders and the programs behind them, found by the mark they carry."""

from __future__ import annotations

from pathlib import Path

from runners import scratch
from runners.launch.marks import end_all
from runners.mount.unmount import detach
from runners.mounts import read_mounts


def mark_of(folder: Path) -> str:
    """What the programs of a scratch folder carry in their environment (runners.launch.marks.MARK)."""
    return f"mount{folder.name}"


def inside(folder: Path) -> list[str]:
    """Mount points in ``folder``, the innermost first."""
    root = f"{folder.resolve()}/"
    return sorted((m.point for m in read_mounts() if m.point.startswith(root)), key=len, reverse=True)


def empty(folder: Path) -> list[str]:
    """Ends the programs of a scratch folder of ours and unmounts what is mounted in it; mount points that stay."""
    end_all(mark_of(folder), 0.0)
    return [point for point in inside(folder) if not detach(Path(point))]


def clear(parent: Path) -> list[Path]:
    """Clears what killed runs left in ``parent``: programs, mounts, folders. Those of living runs are not touched."""
    for folder in scratch.leftovers(parent):
        empty(folder)
    return scratch.clear(parent)
