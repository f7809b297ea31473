"""What the ranks of one process do: real TCPStore objects, made, waited on and used when the gates open."""

from __future__ import annotations

import json
import mmap
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from runners.tcpstore.job import BARRIER, CREATING, DONE, IN, Job, Reading

_STACK = 256 << 10
_VALUE = b"v"


class Gates(NamedTuple):
    """Read ends of pipes that nobody writes to: a gate opens for all at once when its other end is closed.

    ``serve`` lets rank 0 begin, ``start`` all others.
    """

    serve: int
    start: int


class WrongAnswer(RuntimeError):
    """The store answered, and not with what was put into it."""


def work(
    job: Job, ranks: Sequence[int], port: int, listener: socket.socket | None, gates: Gates, out: int, places: mmap.mmap
) -> None:
    """One start of ``ranks``, a thread each where there are several; then they stay connected until somebody ends them.

    Each process writes a line when its ranks are at the gate, each rank one with its reading or what went wrong.
    """
    from torch.distributed import HashStore

    warm = HashStore()  # touches the code between Python and a store, which a process of its own would have touched too
    pass_barrier(warm, "keys", "warm", 1, timedelta(seconds=1))
    arrived = threading.Barrier(len(ranks) + 1)

    def run(rank: int) -> None:
        try:
            arrived.wait()
            store = _start(job, rank, port, listener, gates, out, places)
        except Exception as error:  # whatever torch raises is an outcome of the measurement
            _say(out, {"error": f"{type(error).__name__}: {error}", "rank": rank, "wrong": isinstance(error, WrongAnswer)})
            return
        threading.Event().wait()
        del store

    threading.stack_size(_STACK)
    threads = [threading.Thread(target=run, args=(rank,)) for rank in ranks]
    for thread in threads:
        thread.start()
    arrived.wait()
    _say(out, {"ready": len(ranks)})
    for thread in threads:
        thread.join()


def _say(out: int, line: dict[str, Any]) -> None:
    # Shorter than PIPE_BUF, so that lines of several processes never mix.
    os.write(out, json.dumps(line).encode()[:4000] + b"\n")


def _start(
    job: Job, rank: int, port: int, listener: socket.socket | None, gates: Gates, out: int, places: mmap.mmap
) -> object:
    from torch.distributed import TCPStore

    limit = timedelta(seconds=job.timeout)
    more: dict[str, Any] = {"wait_for_workers": True, "multi_tenant": True}
    if rank == 0 and listener is not None:
        more = {"master_listen_fd": listener.detach()}
    os.read(gates.serve if rank == 0 else gates.start, 1)
    _come_late(job, rank, "join")
    places[rank] = CREATING
    process, thread, began = time.process_time(), time.thread_time(), time.monotonic()
    store = TCPStore(job.host, port, job.clients, rank == 0, limit, use_libuv=job.backend == "libuv", **more)
    created, cpu, serving = time.monotonic(), time.thread_time() - thread, time.process_time() - process
    places[rank] = IN
    _come_late(job, rank, "barrier")
    barriers = []
    process = time.process_time()
    for count in range(job.barriers):
        places[rank] = BARRIER
        came = time.monotonic()
        pass_barrier(store, job.barrier, f"barrier/{count}", job.clients, limit)
        barriers.append((came, time.monotonic()))
    waiting = time.process_time() - process
    added = time.monotonic()
    store.add("all", 1)
    added_until = time.monotonic()
    pass_barrier(store, "keys", "all/added", job.clients, limit)
    server = operations = None
    if rank == 0:
        total = store.add("all", 0)
        if total != job.clients:
            raise WrongAnswer(f"{job.clients} ranks added 1 and the store says {total}")
        server = {
            "libuv": store.libuvBackend,
            "threads": sorted(_thread_names()),
            "descriptors": len(list(Path("/proc/self/fd").iterdir())),
            "cpu_creation": serving,
            "cpu_barriers": waiting,
        }
    if rank == job.clients - 1:
        operations = _operations(store, job.operations, limit)
    places[rank] = DONE
    reading = Reading(rank, began, created, barriers, (added, added_until), cpu, server, operations)
    _say(out, {"reading": asdict(reading)})
    return store


def _come_late(job: Job, rank: int, place: str) -> None:
    if rank == job.late_rank and place == job.late_to:
        time.sleep(job.late_seconds)


def pass_barrier(store: Any, form: str, key: str, ranks: int, limit: timedelta) -> None:
    """Waits until ``ranks`` ranks came. ``key`` must be a fresh one: a key's count never goes back."""
    if form == "store_barrier":
        store.barrier(key, ranks, limit)
        return
    count = store.add(key, 1)
    if form == "keys":
        count = store.add(key, 0)
    if count == ranks:
        store.set(f"{key}:last_worker", "1")
    store.wait([f"{key}:last_worker"], limit)


def _operations(store: Any, count: int, limit: timedelta) -> dict[str, list[float]]:
    """Seconds of each of ``count`` gets, adds, waits and sets of this rank while all others are connected and idle."""
    time.sleep(0.005)  # the others write their readings
    store.set("operation", _VALUE)

    def get() -> None:
        if store.get("operation") != _VALUE:
            raise WrongAnswer("a key that was set holds something else")

    calls: dict[str, Callable[[], object]] = {
        "get": get,
        "add": lambda: store.add("operation/count", 1),
        "wait": lambda: store.wait(["operation"], limit),
        "set": lambda: store.set("operation", _VALUE),
    }
    found: dict[str, list[float]] = {}
    for name, call in calls.items():
        seconds = sorted(_timed(call) for _ in range(count))
        found[name] = [seconds[count // 2], seconds[min(count - 1, count * 9 // 10)]]
    if store.add("operation/count", 0) != count:
        raise WrongAnswer(f"{count} times 1 was added and the store says another number")
    return found


def _timed(call: Callable[[], object]) -> float:
    begun = time.monotonic()
    call()
    return time.monotonic() - begun


def _thread_names() -> list[str]:
    return [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
