"""Makes the TCPStore of a job, and waits on it, as the variables in tcpstore.env say. Needs PyTorch alone.

from rendezvous import barrier, open_store
store = open_store(rank, world_size, host, port)
torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=world_size)
barrier(store, "after loading", world_size)
"""

from __future__ import annotations

import os
import socket
import time
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any


def open_store(rank: int, world_size: int, host: str, port: int, timeout: float = 300.0) -> Any:
    """The job's store; rank 0 has its server. Raises what torch raises when not all come within ``timeout`` seconds."""
    from torch.distributed import TCPStore

    if os.environ.get("CLUSTERTUNE_ADDRESS", "name") == "ip":
        host = str(socket.getaddrinfo(host, port, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])
    start = os.environ.get("CLUSTERTUNE_START", "together")
    more: dict[str, Any] = {}
    if rank == 0:
        check_backlog(world_size)
    if rank == 0 and start == "listening":
        more["master_listen_fd"] = listen(port)
    elif rank != 0 and start == "server_first":
        wait_for_server(host, port, timeout)
    use_libuv = os.environ.get("USE_LIBUV", "1") == "1"
    return TCPStore(host, port, world_size, rank == 0, timedelta(seconds=timeout), use_libuv=use_libuv, **more)


def listen(port: int) -> int:
    """A descriptor that listens on ``port`` already; call it as early as rank 0 can, before anything slow is imported."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("", port))
    made.listen(1 << 16)  # the kernel takes net.core.somaxconn of it
    return made.detach()


def check_backlog(world_size: int) -> None:
    """Says so where this was measured with a backlog that holds all ranks and rank 0's host has a shorter one."""
    try:
        most = int(Path("/proc/sys/net/core/somaxconn").read_text())
    except (OSError, ValueError):
        return
    if os.environ.get("CLUSTERTUNE_BACKLOG") == "raised" and most < world_size:
        warnings.warn(f"net.core.somaxconn is {most} and {world_size} ranks connect at once: raise it first", stacklevel=3)


def wait_for_server(host: str, port: int, timeout: float) -> None:
    """Returns when somebody listens there: clients that come before back off for half a second each time."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        try:
            socket.create_connection((host, port), timeout=5).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise TimeoutError(f"nobody listens on {host}:{port} after {timeout:.0f} s")


def barrier(store: Any, name: str, world_size: int, timeout: float = 300.0) -> None:
    """Waits until ``world_size`` ranks came. ``name`` must be a fresh one each time: a key's count never goes back."""
    limit = timedelta(seconds=timeout)
    form = os.environ.get("CLUSTERTUNE_BARRIER", "keys")
    if form == "store_barrier":
        store.barrier(name, world_size, limit)
        return
    count = store.add(name, 1)
    if form == "keys":
        count = store.add(name, 0)
    if count == world_size:
        store.set(f"{name}:last_worker", "1")
    store.wait([f"{name}:last_worker"], limit)
