"""What ds_nvme_tune leaves to read: a log file a run, and the block that it prints at its end."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runners.aio.pasted import as_flag
from spaces.space import Config
from spaces.units import parse_size

_NAME = re.compile(
    r"(?P<way>read|write)_(?P<submit>single|block)_(?P<events>sequential|overlap)_ftd(?P<folders>\d{1,4})"
    r"_d(?P<depth>\d{1,9})_bs(?P<block>\d{1,9}[KMG]?)_p(?P<threads>\d{1,4})\.txt",
    re.ASCII,
)
_SPEED = re.compile(r"^E2E (?:Read|Write) Speed = (\S+) GB/sec\s*$", re.MULTILINE)
_BEST = re.compile(r"^Best performance \(GB/sec\): read = *(\S+), write = *(\S+)\s*$", re.MULTILINE)
_DYING = re.compile(r"(?:Assertion .* failed|terminate called|\w*Error: ).*")
_LARGEST_LOG = 1 << 20

# Submit, events, folders, depth, block and threads, in its own order.
Key = tuple[str, str, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Logs:
    """Its log files: GiB/s by setting in each direction, None where the run printed none; ``dying`` the last words of one."""

    read: Mapping[Key, float | None]
    write: Mapping[Key, float | None]
    dying: str = ""

    @property
    def done(self) -> int:
        return sum(speed is not None for speed in (*self.read.values(), *self.write.values()))

    @property
    def settings(self) -> int:
        return len({key for side in (self.read, self.write) for key, speed in side.items() if speed is not None})


@dataclass(frozen=True, slots=True)
class Printed:
    """Its answer: the text as printed, the block in it, and the GiB/s that it claims."""

    text: str
    block: Mapping[str, object]
    read: float
    write: float


def read_logs(folder: Path) -> Logs:
    """What its log files in ``folder`` say; others, and what can't be read, are passed over."""
    sides: dict[str, dict[Key, float | None]] = {"read": {}, "write": {}}
    dying = ""
    for way, side in sides.items():
        place = folder / f"_aio_bench_{way}_logs"
        for path in sorted(place.iterdir()) if place.is_dir() else []:
            key = parse_name(path.name, way)
            if key is None:
                continue
            try:
                with path.open("rb") as file:
                    text = file.read(_LARGEST_LOG).decode(errors="replace")
            except OSError:
                continue
            side[key] = parse_speed(text)
            if side[key] is None and (last := _DYING.search(text)):
                dying = last[0].strip()[:120]
    return Logs(sides["read"], sides["write"], dying)


def parse_name(name: str, way: str) -> Key | None:
    """The setting that a log's name stands for: submit, events, folders, depth, block, threads, as the tool orders them."""
    match = _NAME.fullmatch(name)
    if match is None or match["way"] != way:
        return None
    block = parse_size(match["block"])
    return match["submit"], match["events"], int(match["folders"]), int(match["depth"]), block, int(match["threads"])


def parse_speed(text: str) -> float | None:
    """The first speed that a run's log holds, GiB/s; None where there is none."""
    match = _SPEED.search(text)
    return None if match is None else _figure(match[1])


def _figure(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def winner(logs: Logs) -> tuple[Key, float, float | None] | None:
    """By its own rule, the largest sum of read and write; by reads alone while no setting has both; None without any."""
    reads = {key: speed for key, speed in logs.read.items() if speed is not None}
    both = {key: (reads[key], speed) for key, speed in logs.write.items() if speed is not None and key in reads}
    if both:
        key = max(both, key=lambda each: sum(both[each]))
        return key, *both[key]
    if reads:
        key = max(reads, key=reads.__getitem__)
        return key, reads[key], None
    return None


def config_of(key: Key) -> Config:
    submit, events, _folders, depth, block, threads = key
    return {
        "block_size": block,
        "queue_depth": depth,
        "intra_op_parallelism": threads,
        "single_submit": submit == "single",
        "overlap_events": events == "overlap",
    }


def parse_printed(text: str) -> Printed | None:
    """Its answer in what it printed; None where there is none or it is no block of settings."""
    best = _BEST.search(text)
    if best is None:
        return None
    read, write = _figure(best[1]), _figure(best[2])
    start = text.find("{", best.end())
    if read is None or write is None or start < 0:
        return None
    try:
        document, end = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    block = document.get("aio") if isinstance(document, dict) else None
    return Printed(text[start:end], block, read, write) if isinstance(block, dict) else None


def setting_of(block: Mapping[str, object]) -> Config | None:
    """The setting that it means by a block: also its own name for the threads, and strings for booleans."""
    numbers = {
        "block_size": block.get("block_size"),
        "queue_depth": block.get("queue_depth"),
        "intra_op_parallelism": block.get("intra_op_parallelism", block.get("num_threads")),
    }
    flags = {name: as_flag(block.get(name)) for name in ("single_submit", "overlap_events")}
    config: dict[str, bool | int | str] = {}
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int) or not 0 < number < 1 << 31:
            return None
        config[name] = number
    for name, flag in flags.items():
        if flag is None:
            return None
        config[name] = flag
    return config
