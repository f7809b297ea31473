"""The memory policy of a process, set and read by Linux's own calls, so that no numactl is needed where ranks run.

Part of the text that is sent to ranks: standard library only, Python 3.7 or newer.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

# linux/mempolicy.h
MODES = {"default": 0, "prefer": 1, "bind": 2, "interleave": 3}
_CALLS = {"x86_64": (238, 239), "aarch64": (237, 236)}  # set_mempolicy, get_mempolicy
_MOST_NODES = 1024
_WORD = 8 * ctypes.sizeof(ctypes.c_ulong)
_Mask = ctypes.c_ulong * (_MOST_NODES // _WORD)


class CantPlace(Exception):
    """The kernel refuses a memory policy, and why."""


def set_memory(policy: str, nodes: list[int]) -> None:
    """Memory that this thread, and what it starts, touches first from now on. Raises CantPlace."""
    mask = _Mask()
    for node in nodes:
        if not 0 <= node < _MOST_NODES:
            raise CantPlace(f"there is no memory node {node}")
        mask[node // _WORD] |= 1 << (node % _WORD)
    call = _number(0)
    if call is None:
        raise CantPlace(f"memory can't be placed on {os.uname().machine}")
    # The kernel takes one less than it is told for the number of bits.
    if _syscall(call, MODES[policy], mask if nodes else None, _MOST_NODES + 1 if nodes else 0) != 0:
        code = ctypes.get_errno()
        where = ",".join(map(str, nodes))
        more = "; a container needs --cap-add SYS_NICE" if code == 1 else ""
        raise CantPlace(f"memory can't be placed ({policy} {where}): {os.strerror(code)}{more}")


def memory() -> dict[str, Any]:
    """``policy`` and ``nodes`` of this thread; {} where the kernel doesn't tell."""
    call, mode, mask = _number(1), ctypes.c_int(), _Mask()
    if call is None or _syscall(call, ctypes.byref(mode), mask, _MOST_NODES, None, 0) != 0:
        return {}
    names = {number: name for name, number in MODES.items()}
    nodes = [node for node in range(_MOST_NODES) if mask[node // _WORD] >> (node % _WORD) & 1]
    return {"policy": names.get(mode.value & 0xFF, str(mode.value)), "nodes": nodes}


def _number(which: int) -> int | None:
    numbers = _CALLS.get(os.uname().machine)
    return None if numbers is None else numbers[which]


def _syscall(*words: Any) -> int:
    return int(ctypes.CDLL(None, use_errno=True).syscall(*words))
