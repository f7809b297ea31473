"""DeepSpeed's names around NVMe offload, and which of them a wrong one is meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Literal

from tuner.json_text.scan import Document, Path

AIO, ZERO = "aio", "zero_optimization"
PARAM: Path = (ZERO, "offload_param")
OPTIMIZER: Path = (ZERO, "offload_optimizer")
SECTIONS = (PARAM, OPTIMIZER)

Kind = Literal["device", "path", "count", "flag", "share"]

# The fields of DeepSpeed's two models (runtime/zero/offload_config.py); a key beyond them makes it refuse the file.
_BOTH: dict[str, Kind] = {"device": "device", "nvme_path": "path", "buffer_count": "count", "pin_memory": "flag"}
FIELDS: dict[Path, dict[str, Kind]] = {
    PARAM: {**_BOTH, "buffer_size": "count", "max_in_cpu": "count"},
    OPTIMIZER: {
        **_BOTH,
        "pipeline_read": "flag",
        "pipeline_write": "flag",
        "fast_init": "flag",
        "ratio": "share",
        "super_offload": "flag",
        "cpuadam_cores_perc": "share",
    },
}
DEVICES = ("none", "cpu", "nvme")

# What a hand writes for aio: three letters are too few to measure likeness.
_AIO_MEANT = frozenset({"aio", "aios", "aoi", "aio_config", "async_io", "asyncio", "libaio"})
# Keys of zero_optimization that look like one of an offload section's, and are right.
_ZERO_OTHERS = frozenset({"cpu_offload", "cpu_offload_param", "cpu_offload_use_pin_memory"})
# Below this likeness a key is rather a stranger than a slip of the fingers.
_ALIKE = 0.8
# Among users' own keys at the top level, which DeepSpeed doesn't mind, it must be closer.
_VERY_ALIKE = 0.85


def plain(name: str) -> str:
    return name.strip().lower().replace("-", "_").replace(" ", "_")


def alike(name: str, known: Iterable[str], cutoff: float = _ALIKE) -> str | None:
    """The known name that ``name`` is a slip of, or None."""
    close = difflib.get_close_matches(plain(name), list(known), n=1, cutoff=cutoff)
    return close[0] if close else None


def misnamed_aio(document: Document) -> list[Path]:
    """Objects at the top level that are meant to be the aio block and don't bear its name."""
    return [
        (member.key,)
        for member in document.root.members
        if member.key != AIO and member.node.kind == "object" and plain(member.key) in _AIO_MEANT
    ]


def misnamed_zero(document: Document) -> list[Path]:
    """Objects at the top level that are meant to be zero_optimization and don't bear its name."""
    found: list[Path] = []
    for member in document.root.members:
        name = plain(member.key)
        if member.key == ZERO or member.node.kind != "object":
            continue
        holds = {inner.key for inner in member.node.members} & {"stage", *(str(section[-1]) for section in SECTIONS)}
        if alike(name, [ZERO], _VERY_ALIKE) or (name.startswith("zero") and holds):
            found.append((member.key,))
    return found


def offload_meant(name: str) -> str | None:
    """offload_param or offload_optimizer, where ``name`` is one of them or a slip of it."""
    names = [str(section[-1]) for section in SECTIONS]
    return None if name in _ZERO_OTHERS else alike(name, names, _VERY_ALIKE)
