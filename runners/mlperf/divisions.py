"""What MLPerf Storage's two divisions let a submitter change, by version: CLOSED little, OPEN some more.

Sources: benchmark.sh of tag v0.5, the README of v1.0, mlpstorage/rules.py of v2.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from runners.mlperf.workloads import Version

Division = Literal["closed", "open", "none"]

_PLACE = frozenset(
    {
        *("dataset.num_files_train", "dataset.num_subfolders_train", "dataset.data_folder", "checkpoint.checkpoint_folder"),
        *("storage.storage_type", "storage.storage_root"),
    }
)
_OLD_READER = frozenset({"reader.read_threads", "reader.computation_threads"})
_READER = _OLD_READER | {"reader.transfer_size", "reader.odirect", "reader.prefetch_size"}
_MORE = frozenset({"framework", "dataset.format", "dataset.num_samples_per_file", "reader.data_loader"})

CLOSED: Mapping[Version, frozenset[str]] = {"v0.5": _PLACE | _OLD_READER, "v1.0": _PLACE | _READER, "v2.0": _PLACE | _READER}
OPEN: Mapping[Version, frozenset[str]] = {
    "v0.5": CLOSED["v0.5"] | _MORE | {"reader.transfer_size"},
    "v1.0": CLOSED["v1.0"] | _MORE,
    "v2.0": CLOSED["v2.0"] | _MORE,
}
# What the tools set themselves, in every run.
_TOOLS = ("workflow.", "profiling.", "output.")
# The rules speak of unet3d alone: the readers of the other formats have no O_DIRECT.
_ODIRECT_MODEL = "unet3d"


@dataclass(frozen=True, slots=True)
class Overrides:
    """The division that parameters keep to; ``why`` says which of them leave CLOSED, or are allowed in neither."""

    division: Division
    why: str


def division_of(version: Version, model: str, parameters: Iterable[str]) -> Overrides:
    """Which division ``parameters`` (as DLIO names them, without "workload.") keep to."""
    names = [name for name in parameters if not name.startswith(_TOOLS)]
    outside = [name for name in names if name not in OPEN[version]]
    if "reader.odirect" in names and model != _ODIRECT_MODEL and "reader.odirect" not in outside:
        outside.append("reader.odirect")
    if outside:
        return Overrides("none", f"{version} allows {', '.join(sorted(outside))} to be changed in neither division")
    beyond = [name for name in names if name not in CLOSED[version]]
    if beyond:
        return Overrides("open", f"{', '.join(sorted(beyond))} may be changed in OPEN only")
    return Overrides("closed", "")
