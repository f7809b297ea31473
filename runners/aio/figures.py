"""From timed batches to figures: GB/s of reads and of writes, the objective made of both, and its single readings."""

from __future__ import annotations

from collections.abc import Sequence

from runners.aio.measuring import Readings, Timed
from runners.aio.plan import Job
from runners.device import Device
from runners.runner import Json


def metrics(job: Job, readings: Readings) -> dict[str, float]:
    """``effective_gbs``, and ``read_gbs`` and ``write_gbs`` where that direction was measured."""
    found = {}
    if readings.reads:
        found["read_gbs"] = _rate(readings.reads)
    if readings.writes:
        found["write_gbs"] = _rate(readings.writes)
    return {"effective_gbs": effective(job.read_share, found.get("read_gbs"), found.get("write_gbs")), **found}


def effective(read_share: float, read_gbs: float | None, write_gbs: float | None) -> float:
    """GB/s at which bytes move of which ``read_share`` are read: the time of both directions added."""
    seconds = 0.0
    if read_gbs is not None:
        seconds += read_share / read_gbs
    if write_gbs is not None:
        seconds += (1 - read_share) / write_gbs
    return 1 / seconds


def samples(job: Job, readings: Readings) -> tuple[float, ...]:
    """The objective of each round; where one direction has fewer rounds, each of them stands for several."""
    reads, writes = readings.reads, readings.writes
    return tuple(
        effective(
            job.read_share,
            reads[number % len(reads)].gbs if reads else None,
            writes[number % len(writes)].gbs if writes else None,
        )
        for number in range(max(len(reads), len(writes)))
    )


def _rate(timeds: Sequence[Timed]) -> float:
    return sum(timed.bytes for timed in timeds) / sum(timed.seconds for timed in timeds) / 1e9


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def ceiling(devices: Sequence[Device]) -> float | None:
    """GB/s that the distinct disks carry together; None when one is unknown."""
    disks = {device.disk_ids: device.ceiling_gbs for device in devices}
    known = [ceiling for ceiling in disks.values() if ceiling is not None]
    return sum(known) if len(known) == len(disks) else None


def evidence(job: Job, devices: Sequence[Device], engine: str, readings: Readings) -> dict[str, Json]:
    """What shows that the figures are real. ``bytes_verified`` were checked in full, the other writes in spots."""
    shown: dict[str, Json] = {
        "engine": engine,
        "ranks": job.ranks,
        "rounds": len(readings.reads) + len(readings.writes),
        "bytes_read": sum(timed.bytes for timed in readings.reads),
        "bytes_verified": readings.verified,
        "bytes_read_back": readings.fetched,
        "io_seconds": readings.io_seconds,
        "check_seconds": readings.check_seconds,
    }
    missing = "writes" if not job.writes else "reads" if not job.reads else ""
    if missing:
        shown["warnings"] = [f"{missing} were not measured: this workload has none, so nothing is said about them"]
    if len(devices) > 1:
        shown["devices"] = {str(device.folder): _of(str(device.folder), readings) for device in devices}
    return shown


def _of(folder: str, readings: Readings) -> dict[str, Json]:
    directions = (("read_gbs", readings.reads), ("write_gbs", readings.writes))
    return {name: mean([timed.devices[folder] for timed in timeds]) for name, timeds in directions if timeds}
