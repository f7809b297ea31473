"""What rank 0's own lines say: the values that arrived, what really moves messages, and the algorithms that ran.

Lines of ranks interleave and may lack an end, so values are looked for, not lines (oneCCL 2021 and 2022, Intel MPI 2021).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from runners.runner import Json

_INFO = re.compile(r"CCL_INFO\| ([A-Z][A-Z0-9_]+): ?([^\n]*)")
_CHANGED = re.compile(r"value of ([A-Z][A-Z0-9_]+) changed to be (.*?) \(default:")
_SELECTED = re.compile(r"selected algo: coll ([a-z_]+), count (\d+), algo ([a-z0-9_]+)")
# What a rank picks out of its output, for the patterns here.
LINES = r"[^\n]*(?:CCL_INFO|value of CCL_|MPI startup)[^\n]*"
SELECTIONS = r"selected algo: coll [a-z_]+, count \d+, algo [a-z0-9_]+"
_UNSET = "<not specified>"
_PROVIDER = (
    re.compile(r"MPI startup\(\): libfabric provider: ([\w;.-]+)"),
    re.compile(r"CCL_INFO\| provider: ([\w;.-]+)"),
)
_VERSION = re.compile(r"library version: (\S+)")
_PINNED = re.compile(r"MPI startup\(\): (\d+)\s+\d+\s+(\S+)\s+\{([^}]*)\}")
_WORKERS = re.compile(r"local process \[[^\]]*\]: worker: (\d+), cpu: (\d+)")


@dataclass(frozen=True, slots=True)
class Seen:
    """``values`` are oneCCL's effective ones, by variable; ``changed`` those that it says differ from its defaults.

    ``provider`` is "" where MPI stays in shared memory, shm+tcp where there are two; ``release`` the library's full version.
    """

    values: Mapping[str, str]
    changed: Mapping[str, str]
    provider: str
    release: str
    pinning: Mapping[str, str]
    workers: tuple[int, ...]

    @property
    def transport(self) -> str:
        return self.values.get("CCL_ATL_TRANSPORT", "")

    def cores(self) -> tuple[tuple[int, ...], ...]:
        """The cores of each rank, as Intel MPI tells them; () where it doesn't."""
        return tuple(_cores(text) for text in self.pinning.values())

    def missing(self, wanted: Mapping[str, str]) -> str:
        """The first oneCCL variable of ``wanted`` that didn't arrive, in a sentence; "" when all did."""
        for name, value in wanted.items():
            if not name.startswith("CCL_") or name in ("CCL_ROOT", "CCL_PLUGIN", "CCL_LOG_LEVEL"):
                continue
            got = self.changed.get(name, self.values.get(name))
            if got is None and name == "CCL_KVS_IFACE":  # read where no line tells of it
                continue
            if got is None or got.strip().lower() != value.lower():
                shown = "nothing" if got is None else repr(got[:80])
                return f"{name}={value[:80]} did not arrive: oneCCL says {shown}"
        return ""

    def json(self) -> dict[str, Json]:
        """The part that is kept as evidence."""
        kept = ("CCL_ATL_TRANSPORT", "CCL_ATL_SHM", "CCL_WORKER_OFFLOAD", "CCL_WORKER_COUNT", "CCL_YIELD", "CCL_SPIN_COUNT",
                "CCL_CHUNK_COUNT", "CCL_FUSION", "CCL_MNIC")  # fmt: skip
        return {
            "effective": {name: self.values[name] for name in kept if name in self.values},
            "provider": self.provider or "none: shared memory",
            "pinned": dict(self.pinning),
            "release": self.release,
        }


def _cores(text: str) -> tuple[int, ...]:
    found: list[int] = []
    for part in filter(str.strip, text.split(",")):
        first, _, last = part.strip().partition("-")
        found += range(int(first), int(last or first) + 1)
    return tuple(found)


def seen(log: str) -> Seen:
    """From what a rank wrote to standard output until the communicator was there."""
    values = {name: value.strip() for name, value in _INFO.findall(log) if value.strip() != _UNSET}
    named = [name for pattern in _PROVIDER for name in pattern.findall(log)]
    release = _VERSION.search(log)
    return Seen(
        values,
        dict(_CHANGED.findall(log)),
        "+".join(dict.fromkeys(named)),
        release[1] if release else "",
        {f"{rank} on {node}": cpus for rank, node, cpus in _PINNED.findall(log)},
        tuple(sorted({int(cpu) for _, cpu in _WORKERS.findall(log)})),
    )


def selected(log: str, collective: str) -> dict[int, str]:
    """The algorithm of each count of elements that ``collective`` was called with, the outermost where calls nest."""
    found: dict[int, str] = {}
    for name, count, algorithm in _SELECTED.findall(log):
        if name == collective:
            found.setdefault(int(count), algorithm)
    return found
