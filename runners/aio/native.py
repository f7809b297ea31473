"""The engine that needs nothing but a kernel: DeepSpeed's way of cutting, queueing and reaping, done from Python."""

from __future__ import annotations

import ctypes
import errno
import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from queue import SimpleQueue

import numpy as np

from runners.aio.content import Bytes
from runners.aio.engine import EngineFailure, Setting
from runners.aio.linux_aio import PREAD, PWRITE, Context, Requests, transfer
from runners.aio.plain import aligned

PAGE = 4096
_PATIENCE = 0.5


class _Lane:
    """A thread with an aio context of its own, which lives as long as its setting does."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._context = Context(setting.queue_depth)
        self.inbox: SimpleQueue[Requests | None] = SimpleQueue()
        self.outbox: SimpleQueue[Exception | None] = SimpleQueue()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        setting = self._setting
        while (requests := self.inbox.get()) is not None:
            outcome: Exception | None = None
            try:
                transfer(
                    self._context,
                    requests,
                    setting.queue_depth,
                    single=setting.single_submit,
                    overlap=setting.overlap_events,
                )
            except Exception as error:
                outcome = error
            self.outbox.put(outcome)
        self._context.close()


class NativeEngine:
    def __init__(self) -> None:
        self._setting: Setting | None = None
        self._lanes: list[_Lane] = []
        self._sizes: list[int] = []
        self._buffers: list[Bytes] = []
        self._slices: dict[int, list[Requests]] = {}

    def versions(self) -> dict[str, str]:
        return {"kernel": os.uname().release}

    def configure(self, setting: Setting, sizes: Sequence[int]) -> list[Bytes]:
        self.release()
        if not _fits(self._sizes, sizes):
            self._sizes, self._buffers = list(sizes), buffers(sizes)
        self._setting = setting
        self._slices = {}
        deadline = time.monotonic() + _PATIENCE
        while len(self._lanes) < setting.threads:
            try:
                self._lanes.append(_Lane(setting))
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EINVAL):
                    raise
                if error.errno == errno.EINVAL or time.monotonic() > deadline:
                    raise _no_events(setting) from None
                # This rank and others may still be giving back the queues of the setting before.
                time.sleep(0.01)
        return self._buffers

    def read(self, path: str, slot: int, size: int) -> None:
        self._move(PREAD, os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC), slot, size)

    def write(self, path: str, slot: int, size: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_DIRECT | os.O_CLOEXEC
        self._move(PWRITE, os.open(path, flags, 0o600), slot, size)

    def _move(self, opcode: int, handle: int, slot: int, size: int) -> None:
        try:
            slices = self._slices.get(size) or self._cut(size)
            address = self._buffers[slot].ctypes.data
            for lane, requests in zip(self._lanes, slices, strict=True):
                requests.aim(opcode, handle, address)
                lane.inbox.put(requests)
            outcomes = [lane.outbox.get() for lane in self._lanes]
        finally:
            os.close(handle)
        for outcome, requests in zip(outcomes, slices, strict=True):
            if outcome is not None:
                raise _refused(outcome)
            _judge(requests)

    def _cut(self, size: int) -> list[Requests]:
        setting = self._setting
        assert setting is not None
        if size % setting.threads:
            raise EngineFailure("infeasible", f"{size} bytes do not divide by {setting.threads} threads")
        length = size // setting.threads
        made = [Requests(lane * length, length, setting.block_size) for lane in range(setting.threads)]
        self._slices[size] = made
        return made

    def release(self) -> None:
        # Not waited for: the kernel takes tens of milliseconds to destroy a context, and nothing depends on it.
        lanes, self._lanes = self._lanes, []
        for lane in lanes:
            lane.inbox.put(None)

    def close(self) -> None:
        self.release()


def _no_events(setting: Setting) -> EngineFailure:
    need = setting.threads * setting.queue_depth
    return EngineFailure(
        "infeasible", f"the kernel has no {need} aio events free ({setting.threads} threads x {setting.queue_depth} deep)"
    )


def buffers(sizes: Sequence[int]) -> list[Bytes]:
    """A page-aligned buffer of each size, cut from one piece and locked in memory where that is allowed."""
    starts = np.concatenate(([0], np.cumsum([-(-size // PAGE) * PAGE for size in sizes])))
    arena = aligned(int(starts[-1]))
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mlock(ctypes.c_void_p(arena.ctypes.data), ctypes.c_size_t(arena.size))
    return [arena[start : start + size] for start, size in zip(starts.tolist(), sizes, strict=False)]


def _fits(have: Sequence[int], want: Sequence[int]) -> bool:
    return len(have) >= len(want) and all(size <= held for size, held in zip(want, have, strict=False))


def _judge(requests: Requests) -> None:
    """The op counts completions and never looks at their results; this looks."""
    results = requests.results()
    if int(results.sum()) == requests.length and int(results.min()) > 0:
        return
    failed = results[results < 0]
    if failed.size:
        number = -int(failed[0])
        raise _refused(OSError(number, os.strerror(number)), int(failed.size), requests.count)
    raise EngineFailure(
        "wrong", f"{int(results.sum())} of {requests.length} bytes of a slice were moved; DeepSpeed's op would report success"
    )


def _refused(error: Exception, count: int = 0, total: int = 0) -> Exception:
    if not isinstance(error, OSError) or error.errno != errno.EINVAL:
        return error
    many = f"{count} of {total} requests of a slice" if count else "a request"
    return EngineFailure(
        "wrong", f"the kernel refused {many} as not aligned to the device's sectors; DeepSpeed's op would report success"
    )
