"""oneCCL's C API on host buffers, by ctypes: part of the text that is sent to ranks, standard library only."""

from __future__ import annotations

import ctypes
import os
from typing import Any

PLUGIN = "ONECCL_LEGACY_CPU"  # without it oneCCL asks SYCL for a device, and every call fails where there is none
_SUM = 0


class UniqueId(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char * 4096)]


class CallFailed(Exception):
    """A call of oneCCL's ended with a result other than success."""


class Library:
    """One communicator of one process. Loads oneCCL; raises OSError where it can't be loaded."""

    def __init__(self, path: str) -> None:
        os.environ["CCL_PLUGIN"] = PLUGIN
        # Its own libraries look for symbols of each other's.
        self.api = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        size, pointer, number = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
        end: list[Any] = [number, pointer, pointer]  # data type or root, communicator, stream
        self.api.onecclCommInitRank.argtypes = [pointer, size, UniqueId, number]
        self.api.onecclCommDestroy.argtypes = [pointer]
        self.api.onecclAllReduce.argtypes = [pointer, pointer, size, number, *end]
        self.api.onecclReduceScatter.argtypes = [pointer, pointer, size, number, *end]
        self.api.onecclReduce.argtypes = [pointer, pointer, size, number, number, *end]
        self.api.onecclBroadcast.argtypes = [pointer, pointer, size, number, *end]
        self.api.onecclAllGather.argtypes = [pointer, pointer, size, *end]
        self.api.onecclAllToAll.argtypes = [pointer, pointer, size, *end]
        self._comm = ctypes.c_void_p()

    def version(self) -> str:
        """As 2022.1; the C API gives no patch level."""
        number = ctypes.c_int()
        self._check("onecclGetVersion", self.api.onecclGetVersion(ctypes.byref(number)))
        return f"{number.value // 10000}.{number.value // 100 % 100}"

    def unique_id(self) -> bytes:
        unique = UniqueId()
        self._check("onecclGetUniqueId", self.api.onecclGetUniqueId(ctypes.byref(unique)))
        return ctypes.string_at(ctypes.byref(unique), ctypes.sizeof(unique))

    def join(self, unique: bytes, rank: int, ranks: int) -> None:
        """Makes the communicator, together with all other ranks."""
        told = UniqueId()
        ctypes.memmove(ctypes.byref(told), unique, ctypes.sizeof(told))
        self._check("onecclCommInitRank", self.api.onecclCommInitRank(ctypes.byref(self._comm), ranks, told, rank))

    def leave(self) -> None:
        self.api.onecclCommDestroy(self._comm)

    def call(self, collective: str, send: int, receive: int, count: int, dtype: int) -> Any:
        """A function without arguments that makes one call, done when it returns, and gives oneCCL's result (0 is success).

        ``send`` and ``receive`` are addresses.
        """
        api, comm = self.api, self._comm
        name, arguments = {
            "allreduce": ("onecclAllReduce", (dtype, _SUM, comm, None)),
            "reduce": ("onecclReduce", (dtype, _SUM, 0, comm, None)),
            "bcast": ("onecclBroadcast", (dtype, 0, comm, None)),
            "reduce_scatter": ("onecclReduceScatter", (dtype, _SUM, comm, None)),
            "allgather": ("onecclAllGather", (dtype, comm, None)),
            "alltoall": ("onecclAllToAll", (dtype, comm, None)),
        }[collective]
        function = getattr(api, name)
        return lambda: function(send, receive, count, *arguments)

    def flush(self) -> None:
        """What native code has printed leaves its buffers."""
        ctypes.CDLL(None).fflush(None)

    def _check(self, name: str, result: int) -> None:
        if result != 0:
            raise CallFailed(f"{name} failed with result {result}")
