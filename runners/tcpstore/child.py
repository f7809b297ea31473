"""The worker process of a run: it holds torch, so that forks of it are ranks at once, and measures one job a request."""

from __future__ import annotations

import gc
import json
import os
import socket
import time
from dataclasses import asdict
from datetime import timedelta
from typing import Any, cast

from runners.runner import Json
from runners.tcpstore import figures, network
from runners.tcpstore.crowd import Crowd, CrowdFailure, Round
from runners.tcpstore.job import Job
from runners.worker import Reply, Request, serve

_PORT_TAKEN = "address already in use"
_TRIES = 3


def handle(request: Request) -> Reply:
    """A reply, with a "failure" in it where the request could not be met as expected."""
    arguments: dict[str, Any] = dict(request)
    what = arguments.pop("do")
    if what == "hello":
        return _hello()
    job = Job.of(arguments)
    for attempt in range(_TRIES):
        try:
            return _measure(job)
        except CrowdFailure as failure:
            # Between looking for a free port and using it somebody else may take it; torch spells this in two ways.
            if job.port or _PORT_TAKEN not in failure.said.lower() or attempt == _TRIES - 1:
                return {"failure": {"kind": failure.kind, "reason": failure.reason, "said": failure.said}}
    raise AssertionError("unreachable")


def _measure(job: Job) -> Reply:
    rounds: list[Round] = []
    begun = time.monotonic()
    while not rounds or (len(rounds) < job.rounds and time.monotonic() - begun < job.enough):
        with Crowd(job) as crowd:
            rounds.append(crowd.start())
    servers: list[Json] = [r.server for each in rounds for r in each.readings if r.server]
    operations = [r.operations for each in rounds for r in each.readings if r.operations]
    return {
        "starts": cast("list[Json]", [asdict(figures.start(each)) for each in rounds]),
        "servers": servers,
        "operations": cast("Json", operations[-1]),
    }


def _hello() -> Reply:
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


if __name__ == "__main__":
    import torch.distributed  # noqa: F401

    # What is there now belongs to every fork, unchanged.
    gc.collect()
    gc.freeze()
    serve(handle)
