"""What else bears on a start script or an env file: how the job starts, its torch, and its ranks."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass, field

from runners.options import option
from runners.runner import Json
from runners.tcpstore.seen import SEEN
from runners.tcpstore.switches import Row, known, release
from tuner.errors import WrongUsage
from tuner.exporters import format as contract

LAUNCHES = ("script", "torchrun")


@dataclass(frozen=True, slots=True)
class FileOptions:
    """What `tune export` and `tune lint` let a user say about a start script; None leaves it to the file or this machine."""

    launch: str | None = field(
        default=None, metadata=option("How the job starts, where the file doesn't show it: script or torchrun.", "HOW")
    )
    torch_version: str | None = field(
        default=None, metadata=option("PyTorch that the job runs, where it isn't the one installed here.", "VERSION")
    )
    world_size: int | None = field(default=None, metadata=option("Ranks of the job, for the checks against limits.", "N"))


@dataclass(frozen=True, slots=True)
class Options:
    """``launch`` None is not known; ``torch`` is the release whose switches count and ``rows`` what was seen with it, of the
    newest release that was tried where nobody tried this one (``tried`` says so); ``ranks`` None is not known.
    """

    launch: str | None
    torch: str
    rows: tuple[Row, ...]
    tried: bool
    ranks: int | None


def read(options: contract.Options) -> Options:
    """The options that matter here, checked; raises WrongUsage."""
    launch = options.get("launch")
    if launch is not None and launch not in LAUNCHES:
        raise WrongUsage(f"--launch {launch}: must be script or torchrun.")
    newest = max(SEEN, key=lambda each: tuple(map(int, each.split("."))))
    version = options.get("torch_version") or newest
    if not isinstance(version, str) or not all(part.isdecimal() for part in release(version).split(".")):
        raise WrongUsage(f"--torch-version {version}: is not a version; write it like 2.13.0.")
    rows = known(version)
    return Options(
        launch if isinstance(launch, str) else None,
        release(version),
        tuple(rows if rows is not None else known(newest) or ()),
        rows is not None,
        contract.whole_number(options, "world_size", None),
    )


def machine_options() -> dict[str, Json]:
    """The installed PyTorch's version."""
    try:
        return {"torch_version": importlib.metadata.version("torch")}
    except importlib.metadata.PackageNotFoundError:
        return {"torch_version": None}
