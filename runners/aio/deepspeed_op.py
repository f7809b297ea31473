"""The engine that counts: DeepSpeed's own async_io op, with a handle a setting and page-locked buffers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from runners.aio.content import Bytes
from runners.aio.engine import EngineFailure, Setting
from runners.aio.native import PAGE
from runners.limits import aio_events

_PATIENCE = 2.0


class DeepSpeedEngine:
    """Needs torch and deepspeed; the first use on a machine compiles the op, which takes minutes.

    Handles are kept for when their setting comes again, as long as they reserve no more than ``events`` aio events: to
    destroy one takes tens of milliseconds a thread, in which Python stands still.
    """

    def __init__(self, events: int) -> None:
        import deepspeed
        import torch
        from deepspeed.ops.op_builder import AsyncIOBuilder

        self._torch: Any = torch
        self._version = str(deepspeed.__version__)
        self._op: Any = AsyncIOBuilder().load(verbose=False)
        self._events = events
        self._handles: dict[Setting, Any] = {}
        self._setting: Setting | None = None
        self._handle: Any = None
        self._keeper: Any = None
        self._sizes: list[int] = []
        self._tensors: list[Any] = []
        self._buffers: list[Bytes] = []
        self._shared = _locks_for_all_handles(torch, self._op)

    def versions(self) -> dict[str, str]:
        return {"deepspeed": self._version, "torch": str(self._torch.__version__)}

    def configure(self, setting: Setting, sizes: Sequence[int]) -> list[Bytes]:
        self.release()
        self._handle = self._handles.pop(setting, None) or self._open(setting)
        self._setting = setting
        if not self._shared:
            self._allocate(self._handle, sizes)
        elif len(self._sizes) < len(sizes) or any(a < b for a, b in zip(self._sizes, sizes, strict=False)):
            self._keeper = self._keeper or self._op.aio_handle(PAGE, 1, False, False, 1)
            self._allocate(self._keeper, sizes)
        return self._buffers

    def _open(self, setting: Setting) -> Any:
        need = _reserved(setting)
        while self._handles and need + sum(map(_reserved, self._handles)) > self._events:
            self._handles.pop(next(iter(self._handles)))  # the one that was not used for longest
        # The op ignores that the kernel refused it a queue and aborts at its first operation.
        deadline = time.monotonic() + _PATIENCE
        while (events := aio_events()) is not None and need > events.free:
            self._handles.clear()
            if time.monotonic() > deadline:
                raise EngineFailure(
                    "infeasible",
                    f"a handle needs ({setting.threads} threads + 1) x {setting.queue_depth} = {need} aio events "
                    f"and {events.free} are free (fs.aio-max-nr)",
                )
            time.sleep(0.01)  # other ranks may still be giving back theirs
        return self._op.aio_handle(
            setting.block_size, setting.queue_depth, setting.single_submit, setting.overlap_events, setting.threads
        )

    def _allocate(self, handle: Any, sizes: Sequence[int]) -> None:
        """A locked tensor for each slot: releases before 0.19 know a locked tensor only by where it begins."""
        self._free(self._keeper)
        example = self._torch.empty(0, dtype=self._torch.uint8)
        self._sizes = list(sizes)
        self._tensors = [handle.new_cpu_locked_tensor(size, example) for size in sizes]
        self._buffers = [tensor.numpy() for tensor in self._tensors]

    def read(self, path: str, slot: int, size: int) -> None:
        self._judge(self._handle.sync_pread(self._view(slot, size), path), "read")

    def write(self, path: str, slot: int, size: int) -> None:
        self._judge(self._handle.sync_pwrite(self._view(slot, size), path), "write")

    def _view(self, slot: int, size: int) -> Any:
        tensor = self._tensors[slot]
        return tensor if tensor.numel() == size else tensor[:size]

    def _judge(self, result: int, what: str) -> None:
        if result < 0:
            raise EngineFailure("infeasible", f"DeepSpeed's op refused to {what} (result {result})")

    def _free(self, handle: Any) -> None:
        tensors, self._tensors, self._buffers, self._sizes = self._tensors, [], [], []
        if handle is not None:
            for tensor in tensors:
                handle.free_cpu_locked_tensor(tensor)

    def release(self) -> None:
        handle, setting, self._handle = self._handle, self._setting, None
        if handle is None or setting is None:
            return
        if not self._shared:
            self._free(handle)
        elif _reserved(setting) <= self._events:
            self._handles[setting] = handle

    def close(self) -> None:
        """Nothing: to destroy many handles takes seconds, and the kernel gives back what a process held when it ends."""


def _reserved(setting: Setting) -> int:
    """Aio events of a handle: a queue for each thread and one for itself."""
    return (setting.threads + 1) * setting.queue_depth


def _locks_for_all_handles(torch: Any, op: Any) -> bool:
    """Whether what one handle has locked counts as locked with any other; else a buffer is of use to its own handle only."""
    maker, user = op.aio_handle(PAGE, 1, False, False, 1), op.aio_handle(PAGE, 1, False, False, 1)
    if not hasattr(user, "is_pinned"):
        return False
    tensor = maker.new_cpu_locked_tensor(PAGE, torch.empty(0, dtype=torch.uint8))
    try:
        return bool(user.is_pinned(tensor))
    finally:
        maker.free_cpu_locked_tensor(tensor)
