"""The kernel's asynchronous I/O calls, straight from Python: contexts, requests and completions."""

from __future__ import annotations

import ctypes
import errno
import os
import platform

import numpy as np
from numpy.typing import NDArray

_GENERIC = {"io_setup": 0, "io_destroy": 1, "io_submit": 2, "io_getevents": 4}
_NUMBERS = {
    "x86_64": {"io_setup": 206, "io_destroy": 207, "io_getevents": 208, "io_submit": 209},
    "aarch64": _GENERIC,
    "riscv64": _GENERIC,
    "loongarch64": _GENERIC,
}
SUPPORTED = platform.machine() in _NUMBERS
_calls = _NUMBERS.get(platform.machine(), _GENERIC)
_SETUP, _DESTROY, _SUBMIT, _GETEVENTS = (
    ctypes.c_long(_calls[name]) for name in ("io_setup", "io_destroy", "io_submit", "io_getevents")
)
_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long
_long = ctypes.c_long
_ptr = ctypes.c_void_p

PREAD, PWRITE = 0, 1
IOCB = np.dtype(
    [
        ("data", "<u8"),
        ("key", "<u4"),
        ("rw_flags", "<i4"),
        ("opcode", "<u2"),
        ("reqprio", "<i2"),
        ("fd", "<u4"),
        ("buffer", "<u8"),
        ("nbytes", "<u8"),
        ("offset", "<i8"),
        ("reserved", "<u8"),
        ("flags", "<u4"),
        ("resfd", "<u4"),
    ]
)
EVENT = np.dtype([("data", "<u8"), ("obj", "<u8"), ("res", "<i8"), ("res2", "<i8")])


def _fail(call: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{call}: {os.strerror(number)}")


class Context:
    """A queue in the kernel for ``depth`` requests in flight. Addresses are of iocb pointers and of event slots."""

    def __init__(self, depth: int) -> None:
        """Raises OSError; EAGAIN when fs.aio-max-nr doesn't leave ``depth`` events."""
        handle = ctypes.c_ulong(0)
        if _syscall(_SETUP, _long(depth), ctypes.byref(handle)) < 0:
            raise _fail("io_setup")
        self._handle: ctypes.c_ulong | None = handle

    def submit(self, pointers: int, count: int) -> int:
        """Hands ``count`` requests over; how many were taken, at least one. Raises OSError."""
        taken: int = _syscall(_SUBMIT, self._handle, _long(count), _ptr(pointers))
        if taken <= 0:
            raise _fail("io_submit")
        return taken

    def reap(self, least: int, most: int, events: int) -> int:
        """Waits for ``least`` completions and takes up to ``most``. Raises OSError."""
        while True:
            got: int = _syscall(_GETEVENTS, self._handle, _long(least), _long(most), _ptr(events), None)
            if got >= 0:
                return got
            if ctypes.get_errno() != errno.EINTR:
                raise _fail("io_getevents")

    def close(self) -> None:
        """Waits for what is in flight and gives the queue back."""
        handle, self._handle = self._handle, None
        if handle is not None:
            _syscall(_DESTROY, handle)


class Requests:
    """One slice of a tensor as ready-made requests of at most ``block`` bytes, and the slots their completions go to."""

    def __init__(self, start: int, length: int, block: int) -> None:
        self.count = -(-length // block)
        offsets = start + np.arange(self.count, dtype=np.int64) * block
        self._iocbs = np.zeros(self.count, IOCB)
        self._iocbs["offset"] = offsets
        self._iocbs["nbytes"] = block
        self._iocbs["nbytes"][-1] = length - block * (self.count - 1)
        self._pointers = self._iocbs.ctypes.data + np.arange(self.count, dtype=np.uint64) * np.uint64(IOCB.itemsize)
        self._events = np.zeros(self.count, EVENT)
        self.pointers: int = self._pointers.ctypes.data
        self.events: int = self._events.ctypes.data

    def aim(self, opcode: int, handle: int, buffer: int) -> None:
        """Points the requests at an open file and at the tensor's address in memory."""
        self._iocbs["opcode"] = opcode
        self._iocbs["fd"] = handle
        self._iocbs["buffer"] = np.uint64(buffer) + self._iocbs["offset"].astype(np.uint64)

    def results(self) -> NDArray[np.int64]:
        """Of every completion: bytes moved, or a negative error number."""
        results: NDArray[np.int64] = self._events["res"]
        return results

    @property
    def length(self) -> int:
        return int(self._iocbs["nbytes"].sum())


def transfer(context: Context, requests: Requests, depth: int, *, single: bool, overlap: bool) -> None:
    """Moves a slice as DeepSpeed's op does: queue filled to ``depth``, then refilled after each completion or all of them."""
    total, submitted, reaped = requests.count, 0, 0
    pointers, events = requests.pointers, requests.events
    submit, reap = context.submit, context.reap
    try:
        while reaped < total:
            room = min(depth - (submitted - reaped), total - submitted)
            target = submitted + room
            while submitted < target:
                submitted += submit(pointers + 8 * submitted, 1 if single else target - submitted)
            pending = submitted - reaped
            least = 1 if overlap else pending
            reaped += reap(least, pending, events + EVENT.itemsize * reaped)
    except OSError:
        # What was accepted still writes into the caller's memory; it must land before anyone goes on.
        while reaped < submitted:
            reaped += reap(submitted - reaped, submitted - reaped, events + EVENT.itemsize * reaped)
        raise
