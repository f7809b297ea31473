"""Plain system calls to write work files and to read them back: the path that the engine under test has no part in."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from runners.aio.content import Bytes, Sectors

CHUNK = 8 << 20
_fallocate = ctypes.CDLL(None).fallocate


@dataclass(frozen=True, slots=True)
class Expected:
    """What a file should hold: its size in bytes, its number and generation in the tags, and the sector they count by."""

    path: str
    file: int
    size: int
    generation: int
    sector: int


def aligned(size: int) -> Bytes:
    """``size`` bytes that start on a page, as O_DIRECT wants them."""
    # Private, as memory from malloc is, which DeepSpeed's op uses: how contiguous its pages lie decides much of the speed.
    return np.frombuffer(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), dtype=np.uint8)


def write_file(path: str, buffer: Bytes, sector: int) -> None:
    """Makes ``path`` hold exactly ``buffer``; ``settle`` brings it to the device for certain. Raises OSError."""
    direct = os.O_DIRECT if buffer.size % sector == 0 else 0
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | direct, 0o600)
    try:
        # Reserving first is several times faster than growing by writes; a file system without it grows by writes.
        _fallocate(handle, 0, ctypes.c_int64(0), ctypes.c_int64(buffer.size))
        done = 0
        while done < buffer.size:
            written = os.pwrite(handle, buffer[done : done + CHUNK].data, done)
            if written <= 0:
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)
            done += written
        os.ftruncate(handle, buffer.size)
    finally:
        os.close(handle)


def settle(paths: Sequence[str]) -> None:
    """Waits until the files are on the device. All at the end: the first of them commits most of the journal for all."""
    for path in paths:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fdatasync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)


def check_size(expected: Expected) -> str | None:
    """None when the file has the size that it should have, else a sentence."""
    try:
        size = Path(expected.path).stat().st_size
    except FileNotFoundError:
        return "the file was never made"
    return None if size == expected.size else f"the file holds {size} of {expected.size} bytes"


def read_back(expected: Expected, chunk: Bytes) -> int:
    """How many sectors of the file are wrong, all of it read through ``chunk`` (whole sectors). Raises OSError."""
    pieces = [(start, min(chunk.size, expected.size - start)) for start in range(0, expected.size, chunk.size)]
    return _wrong(expected, pieces, chunk)


def spots(expected: Expected, offsets: Sequence[int], chunk: Bytes) -> int:
    """How many of the sectors at ``offsets`` are wrong. Raises OSError."""
    return _wrong(expected, [(start, min(expected.sector, expected.size - start)) for start in offsets], chunk)


def _wrong(expected: Expected, pieces: Sequence[tuple[int, int]], chunk: Bytes) -> int:
    handle = os.open(expected.path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECT)
    try:
        wrong = 0
        for start, length in pieces:
            sectors = Sectors(chunk[:length], expected.sector)
            sectors.clear()
            _fetch(handle, start, length, expected.sector, chunk)
            wrong += sectors.wrong(expected.file, expected.generation, start // expected.sector)
        return wrong
    finally:
        os.close(handle)


def _fetch(handle: int, start: int, length: int, sector: int, chunk: Bytes) -> None:
    """Reads what there is of ``length`` bytes from ``start``; asks for whole sectors, which an odd file ends in one of."""
    room = -(-length // sector) * sector
    done = 0
    while done < length:
        got = os.preadv(handle, [chunk[done:room].data], start + done)
        done += got
        if got <= 0 or got % sector:
            break


def edges(size: int, threads: int, sector: int, most: int = 2) -> list[int]:
    """Offsets of the file's first and last sector and of those around up to ``most`` places where two slices meet."""
    last = (size - 1) // sector * sector
    found = {0, last}
    if threads > 1 and size // threads:
        meetings = range(1, threads)
        step = max(1, len(meetings) // most)
        for number in list(meetings[::step])[:most]:
            meeting = size // threads * number // sector * sector
            found |= {max(0, meeting - sector), min(meeting, last)}
    return sorted(found)
