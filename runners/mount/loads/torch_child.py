"""The process that holds torch: runs a DataLoader over files for a while and tells what its workers read."""

from __future__ import annotations

import mmap
import os
import random
import struct
import time
from collections.abc import Sequence
from typing import Any, cast

from runners.runner import Json
from runners.worker import Request, serve

_ALIGNED = 4096
_COUNTERS = struct.Struct("=QQ")  # bytes, files, for each worker


class Files:
    """A map-style dataset: an item is a file, read whole in blocks and thrown away. Workers count in shared memory."""

    def __init__(self, paths: Sequence[str], block: int, direct: bool, deadline: float, counters: mmap.mmap) -> None:
        self._paths, self._direct, self._deadline, self._counters = paths, direct, deadline, counters
        self._block = max(_ALIGNED, -(-block // _ALIGNED) * _ALIGNED) if direct else block

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> int:
        from torch.utils.data import get_worker_info

        info = get_worker_info()
        place = (info.id if info is not None else 0) * _COUNTERS.size
        if time.time() >= self._deadline:
            return 0
        handle = os.open(self._paths[index], os.O_RDONLY | (os.O_DIRECT if self._direct else 0))
        read = 0
        try:
            with mmap.mmap(-1, self._block) as buffer:
                while (got := os.preadv(handle, [buffer], read)) > 0:
                    read += got
                    self._count(place, got, 0)
                    if time.time() >= self._deadline:
                        return read
        finally:
            os.close(handle)
        self._count(place, 0, 1)
        return read

    def _count(self, place: int, size: int, files: int) -> None:
        before = _COUNTERS.unpack_from(self._counters, place)
        _COUNTERS.pack_into(self._counters, place, before[0] + size, before[1] + files)


def epoch(paths: Sequence[str], request: Request, deadline: float, *, filling: bool) -> dict[str, Json]:
    """One pass over ``paths``, cut at ``deadline`` (time.time())."""
    from torch.utils.data import DataLoader

    workers = int(cast(int, request["workers"]))
    with mmap.mmap(-1, _COUNTERS.size * workers) as counters:
        files = Files(paths, int(cast(int, request["block"])), bool(request["direct"]), deadline, counters)
        loader: Any = DataLoader(
            cast(Any, files),
            batch_size=None,
            num_workers=workers,
            sampler=range(len(paths)),
            multiprocessing_context="fork",
        )
        began = time.time()
        for _read in loader:
            pass
        ended = time.time()
        counted = [_COUNTERS.unpack_from(counters, number * _COUNTERS.size) for number in range(workers)]
        del loader, files
    return {
        "began": began,
        "ended": ended,
        "bytes": sum(each[0] for each in counted),
        "files": sum(each[1] for each in counted),
        "filling": filling,
    }


def forget(paths: Sequence[str]) -> None:
    """Puts files out of the page cache, as far as their owner may ask for it."""
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)


def handle(request: Request) -> dict[str, Json]:
    if "hello" in request:
        import torch

        torch.set_num_threads(1)
        return {"torch": str(torch.__version__)}
    named = cast("list[list[Any]]", request["files"])
    paths = [f"{request['folder']}/{name}" for name, _size in named]
    if request["shuffle"]:
        random.Random(0).shuffle(paths)
    epochs: list[dict[str, Json]] = []
    try:
        if request["fill"]:
            epochs.append(epoch(paths, request, float("inf"), filling=True))
            forget(paths)
        deadline = time.time() + float(cast(float, request["seconds"]))
        while time.time() < deadline:
            if epochs and not epochs[-1]["filling"]:
                forget(paths)
            epochs.append(epoch(paths, request, deadline, filling=False))
            if epochs[-1]["bytes"] == 0:
                break
    except OSError as error:
        # A worker's own traceback is in the message; its last line says what it was.
        return {"error": str(error.strerror or error).strip().splitlines()[-1]}
    return {"epochs": cast(Json, epochs)}


if __name__ == "__main__":
    serve(handle)
