"""The worker process of one rank: it fills, moves and checks the rank's files as the runner asks, one step a request."""

from __future__ import annotations

import errno
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runners.aio.content import Bytes, Sectors, fill_random
from runners.aio.engine import Engine, EngineFailure, Setting
from runners.aio.plain import CHUNK, Expected, aligned, check_size, edges, read_back, settle, spots, write_file
from runners.runner import FailureKind
from runners.worker import Reply, Request, serve

# No setting can do better: nothing is left to write to, or nothing that answers.
_FULL = (errno.ENOSPC, errno.EDQUOT)
_GONE = (errno.EIO, errno.ENODEV, errno.ENXIO, errno.EROFS, errno.ESTALE, errno.ENOMEM, errno.EACCES, errno.ENOENT)


@dataclass(frozen=True, slots=True)
class Batch:
    """Operations that are timed as one; operation i uses buffer i. ``kind`` is "read" or "write"."""

    kind: str
    items: tuple[Expected, ...]


class Child:
    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._buffers: list[Bytes] = []
        self._setting: Setting | None = None
        self._batch: Batch | None = None
        self._chunk = aligned(CHUNK)

    def handle(self, request: Request) -> Reply:
        """A reply, with a "failure" in it where the request could not be met as expected."""
        arguments: dict[str, Any] = dict(request)
        try:
            reply: Reply = getattr(self, f"do_{arguments.pop('do')}")(**arguments)
        except EngineFailure as failure:
            return _failure(failure.kind, failure.reason)
        except OSError as error:
            return _failure(*classify(error))
        return reply

    def do_load(self, engine: str, events: int) -> Reply:
        if engine == "deepspeed":
            from runners.aio.deepspeed_op import DeepSpeedEngine

            self._engine = DeepSpeedEngine(events)
        else:
            from runners.aio.native import NativeEngine

            self._engine = NativeEngine()
        versions: Reply = dict(self._engine.versions())
        return {"versions": versions}

    def do_fill(self, files: list[dict[str, Any]], seed: int) -> Reply:
        """Writes files in full, by plain system calls."""
        items = [Expected(**file) for file in files]
        buffer = aligned(max(item.size for item in items))
        fill_random(buffer, seed)
        for item in items:
            view = buffer[: item.size]
            Sectors(view, item.sector).stamp(item.file, item.generation)
            write_file(item.path, view, item.sector)
        settle([item.path for item in items])
        return {}

    def do_configure(self, setting: dict[str, Any], sizes: list[int], seed: int) -> Reply:
        assert self._engine is not None
        self._setting = Setting(**setting)
        buffers = self._engine.configure(self._setting, sizes)
        if buffers is not self._buffers:
            self._buffers = buffers
            for number, buffer in enumerate(buffers):
                fill_random(buffer, seed + number)
        return {}

    def do_ready(self, kind: str, items: list[dict[str, Any]]) -> Reply:
        """Puts the buffers in order: stamped for a write, without tags for a read."""
        self._batch = Batch(kind, tuple(Expected(**item) for item in items))
        for item, buffer in zip(self._batch.items, self._buffers, strict=False):
            sectors = Sectors(buffer[: item.size], item.sector)
            if kind == "write":
                sectors.stamp(item.file, item.generation)
            else:
                sectors.clear()
        return {}

    def do_go(self, start: int) -> Reply:
        """Moves the batch from ``start`` (CLOCK_MONOTONIC nanoseconds) on; when it began and ended."""
        assert self._engine is not None
        assert self._batch is not None
        move = self._engine.write if self._batch.kind == "write" else self._engine.read
        if (wait := start - time.monotonic_ns()) > 0:
            time.sleep(wait / 1e9)
        begin = time.monotonic_ns()
        for slot, item in enumerate(self._batch.items):
            move(item.path, slot, item.size)
        return {"begin": begin, "end": time.monotonic_ns()}

    def do_check(self, full: list[int], remove: bool) -> Reply:
        """Checks the batch by content; operations numbered in ``full`` are read back whole. Bytes read for it."""
        assert self._batch is not None
        if self._batch.kind == "read":
            return self._check_buffers(self._batch)
        try:
            return self._check_files(self._batch, frozenset(full))
        finally:
            if remove:
                for item in self._batch.items:
                    Path(item.path).unlink(missing_ok=True)

    def _check_buffers(self, batch: Batch) -> Reply:
        wrong = total = 0
        for item, buffer in zip(batch.items, self._buffers, strict=False):
            sectors = Sectors(buffer[: item.size], item.sector)
            wrong += sectors.wrong(item.file, item.generation)
            total += sectors.count
        return _verdict("read", wrong, total, batch, 0)

    def _check_files(self, batch: Batch, full: frozenset[int]) -> Reply:
        assert self._setting is not None
        wrong = total = fetched = 0
        last = {item.path: number for number, item in enumerate(batch.items)}
        for number, item in enumerate(batch.items):
            if last[item.path] != number:
                continue  # a later operation of the batch wrote this file again
            if (short := check_size(item)) is not None:
                return _short(item, short)
            if number in full:
                wrong += read_back(item, self._chunk)
                total += -(-item.size // item.sector)
                fetched += item.size
            else:
                offsets = edges(item.size, self._setting.threads, item.sector)
                wrong += spots(item, offsets, self._chunk)
                total += len(offsets)
                fetched += len(offsets) * item.sector
        return _verdict("write", wrong, total, batch, fetched)

    def do_release(self) -> Reply:
        assert self._engine is not None
        self._engine.release()
        return {}

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()


def classify(error: OSError) -> tuple[FailureKind, str]:
    """What a system call's refusal means for the run, and a sentence."""
    reason = error.strerror or str(error)
    if error.filename:
        reason = f"{os.fsdecode(error.filename)}: {reason}"
    if error.errno in _FULL:
        return "environment", f"the disk is full ({reason})"
    if error.errno in _GONE:
        return "environment", f"the device or folder can't be used any more ({reason})"
    return "infeasible", reason


def _failure(kind: FailureKind, reason: str) -> Reply:
    return {"failure": {"kind": kind, "reason": reason}}


def _short(item: Expected, reason: str) -> Reply:
    """A write of the wrong length: the disk ran full behind the op's back, or the op went wrong."""
    space = os.statvfs(Path(item.path).parent)
    if space.f_bavail * space.f_frsize < item.size:
        return _failure("environment", f"the disk is full: the write said success and {reason}")
    return _failure("wrong", f"the write said success and {reason}")


def _verdict(what: str, wrong: int, total: int, batch: Batch, fetched: int) -> Reply:
    if wrong:
        sector = batch.items[0].sector
        return _failure(
            "wrong", f"the {what} said success and {wrong} of {total} checked sectors ({wrong * sector} bytes) are wrong"
        )
    return {"fetched": fetched}


if __name__ == "__main__":
    child = Child()
    serve(child.handle, child.close)
