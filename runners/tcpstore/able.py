"""What the installed torch can do, found by trying."""

from __future__ import annotations

import json
import os
import socket
from datetime import timedelta
from typing import Any

from runners.runner import Json
from runners.tcpstore import network


def able() -> dict[str, Json]:
    """What this torch can do, found by trying: in a fork, because a server leaves threads behind."""
    import torch
    import torch.distributed as dist

    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            can = {
                "libuv": _tries(dist, True, taken_over=False),
                "legacy": _tries(dist, False, taken_over=False),
                "listening_libuv": _tries(dist, True, taken_over=True),
                "listening_legacy": _tries(dist, False, taken_over=True),
                "store_barrier": "" if hasattr(dist.TCPStore, "barrier") else "torch has no store.barrier",
            }
            os.write(writer, json.dumps(can).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    return {"torch": torch.__version__, "can": json.loads(text) if text else {}}


def _tries(dist: Any, libuv: bool, *, taken_over: bool) -> str:
    """Why such a server can't be had, "" when it can."""
    more: dict[str, Any] = {}
    port = network.free_ports(1)[0]
    if taken_over:
        listener = socket.socket()
        listener.bind(("", port))
        listener.listen()
        more["master_listen_fd"] = listener.detach()
    try:
        store = dist.TCPStore("127.0.0.1", port, 1, True, timedelta(seconds=10), use_libuv=libuv, **more)
        if store.libuvBackend is not libuv:
            return "another server was started than was asked for"
    except Exception as error:  # whatever it is, this torch can't
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return ""
