"""DLIO's reader as knobs: what of it may be tuned together with a mount, by MLPerf's divisions and by what this DLIO has."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import replace

from runners.mlperf.divisions import CLOSED, OPEN
from runners.mlperf.installed import Dlio
from runners.mlperf.workloads import Workload
from runners.mount.work import Able
from spaces.space import Config, Domain, Knob, Space, flag, log2, off_or_log2

PREFIX = "reader_"
_SOURCE = "DLIO, its configuration of the reader"
_LEAST_THREADS = 8
_DIRECT_FORMATS = ("npz", "npy")


def able(dlio: Dlio) -> Able:
    """What the reader of this host can do."""
    return Able(tuple(sorted(dlio.names)), most_threads())


def can_read_directly(able: Able, workload: Workload) -> bool:
    """Whether the workload's files can be read past the page cache."""
    return "odirect" in able.names and workload.sample.format in _DIRECT_FORMATS


def most_threads() -> int:
    """Reader processes of an accelerator beyond which DLIO itself warns, and some to spare."""
    return max(_LEAST_THREADS, 1 << max(0, (os.cpu_count() or 1) - 1).bit_length())


def knobs(workload: Workload, able: Able, *, beyond_closed: bool) -> tuple[Knob, ...]:
    """The knobs that the division allows and that do something: transfers in TensorFlow alone, O_DIRECT for some formats.

    Orders of files and samples are none: they change what is read, not how.
    """
    allowed = (OPEN if beyond_closed else CLOSED)[workload.version]
    known = [knob for knob in _all(workload, able) if knob.name.removeprefix(PREFIX) in able.names]
    return tuple(knob for knob in known if parameter_of(knob.name) in allowed)


def _all(workload: Workload, able: Able) -> tuple[Knob, ...]:
    threads = Knob(
        f"{PREFIX}read_threads",
        log2(1, able.threads),
        workload.read_threads,
        "Processes of an accelerator that read files ahead of it.",
        _SOURCE,
        unit="count",
    )
    prefetch = Knob(
        f"{PREFIX}prefetch_size",
        off_or_log2(1, 32),
        2,
        "Batches read ahead of an accelerator; with PyTorch each reader process gets its share, two where this is 0.",
        _SOURCE,
        unit="count",
        lowest=0,
    )
    found = [threads, prefetch]
    if workload.sample.framework == "tensorflow":
        size = log2(64 << 10, 16 << 20)
        found.append(
            Knob(f"{PREFIX}transfer_size", size, 256 << 10, "Bytes of one read of a record file.", _SOURCE, unit="bytes")
        )
    if can_read_directly(able, workload):
        found.append(Knob(f"{PREFIX}odirect", flag(), False, "Whether files are read past the page cache.", _SOURCE))
    return tuple(found)


def parameter_of(name: str) -> str:
    """DLIO's parameter for a knob."""
    return f"reader.{name.removeprefix(PREFIX)}"


def parameters(config: Config) -> dict[str, str]:
    """DLIO's parameters for the reader's part of ``config``."""
    return {parameter_of(name): str(value) for name, value in config.items() if name.startswith(PREFIX)}


def extended(space: Space, more: tuple[Knob, ...], fixed: Mapping[str, str]) -> Space:
    """``space`` with a reader's knobs beside its own; those that the user fixed (DLIO's parameters) have one value."""
    pinned = tuple(_pinned(knob, fixed.get(parameter_of(knob.name))) for knob in more)

    def canonical(config: Config) -> Config:
        own = {**config, **space.canonical(config)}
        return {**own, **_per_process(own)}

    def cost(config: Config) -> float:
        threads = int(config.get(f"{PREFIX}read_threads", 0))
        return space.cost(config) * (1 + threads / 1000) + threads

    return replace(space, knobs=(*space.knobs, *pinned), canonical=canonical, cost=cost)


def _pinned(knob: Knob, text: str | None) -> Knob:
    if text is None:
        return knob
    value = knob.parse(text)
    return replace(knob, domain=Domain(knob.domain.kind, (value,)), default=value)


def _per_process(config: Config) -> dict[str, int]:
    """PyTorch gives each process ceil(prefetch / processes) batches: the smallest prefetch of those that come to the same."""
    threads, prefetch = config.get(f"{PREFIX}read_threads"), config.get(f"{PREFIX}prefetch_size")
    if threads is None or prefetch is None or f"{PREFIX}transfer_size" in config:
        return {}
    share = math.ceil(int(prefetch) / int(threads)) or 2
    smallest = 1 if share == 1 else 0 if share == 2 else _doubling_above((share - 1) * int(threads))
    return {f"{PREFIX}prefetch_size": min(int(prefetch), smallest) if int(prefetch) else 0}


def _doubling_above(number: int) -> int:
    """The smallest power of two above ``number``."""
    return 1 << number.bit_length()
