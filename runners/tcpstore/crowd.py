"""All ranks of one measurement as processes forked from one that has torch loaded: started together, watched, ended."""

from __future__ import annotations

import fcntl
import gc
import json
import mmap
import os
import resource
import select
import signal
import socket
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from runners.process import die_with, signal_name
from runners.runner import FailureKind
from runners.tcpstore import network
from runners.tcpstore.job import IN, PLACES, Job, Reading
from runners.tcpstore.rank import Gates, work

_PIPE_SIZE = 1 << 20
_F_SETPIPE_SZ = 1031
_LAST_WORDS = 0.5


class CrowdFailure(Exception):
    """A measurement that can't go on: ``kind`` as in runners.runner.Failure, ``said`` what torch said, as it said it."""

    def __init__(self, kind: FailureKind, reason: str, said: str = "") -> None:
        self.kind, self.reason, self.said = kind, reason, said
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class Round:
    """``released``: when the ranks could begin, by CLOCK_MONOTONIC; ``counters``: what the kernel saw until all were in."""

    released: float
    readings: list[Reading]
    counters: network.Counters


class Crowd:
    """The processes of one start, fresh ones: torch remembers in a process which look-ups failed, so a second start in the
    same process is not a start. Leaving the context ends every one of them, whatever state it is in.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._pids: dict[int, list[int]] = {}
        self._gates: list[int] = []
        self._pending = b""
        self._lines: list[dict[str, Any]] = []
        self._places = mmap.mmap(-1, job.clients)
        self._out = -1
        self._port = job.port or network.free_ports(1)[0]

    def __enter__(self) -> Crowd:
        try:
            self._fork()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _fork(self) -> None:
        listener = _listener(self._port) if self._job.start == "listening" else None
        self._out, out = os.pipe()
        with suppress(OSError):
            fcntl.fcntl(out, _F_SETPIPE_SZ, _PIPE_SIZE)
        serve, start = os.pipe(), os.pipe()
        self._gates = [serve[1], start[1]]
        gates = Gates(serve[0], start[0])
        parent = os.getpid()
        sys.stderr.flush()
        try:
            for ranks in self._job.shares():
                try:
                    pid = os.fork()
                except OSError as error:
                    raise CrowdFailure("environment", f"process {len(self._pids) + 1} can't be started: {error}") from None
                if pid == 0:
                    self._in_child(parent, ranks, listener if ranks == [0] else None, gates, out)
                self._pids[pid] = ranks
        finally:
            if listener is not None:
                listener.close()
            for end in (*gates, out):
                os.close(end)

    def _in_child(self, parent: int, ranks: list[int], listener: socket.socket | None, gates: Gates, out: int) -> None:
        try:
            die_with(parent)()
            keep = {1, 2, out, *gates}
            if listener is not None:
                keep.add(listener.fileno())
            for number in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
                if number not in keep:
                    with suppress(OSError):
                        os.close(number)
            if ranks != [0]:  # rank 0 keeps the limit that it would have in the job
                _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
                resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            gc.disable()  # a collection would copy the pages of all of torch
            work(self._job, ranks, self._port, listener, gates, out, self._places)
        except BaseException:  # nothing may return from here into the parent's code
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)

    def start(self) -> Round:
        """The start: all ranks join, wait for each other, and try the store's operations. Raises CrowdFailure."""
        job = self._job
        deadline = time.monotonic() + job.timeout
        ready = 0
        while ready < len(self._pids):
            self._collect(0.02)
            self._watch()
            ready += len(self._take("ready"))
            if time.monotonic() > deadline:
                raise CrowdFailure("timeout", f"{ready} of {len(self._pids)} processes were up after {job.timeout:.0f} s")
        deadline = time.monotonic() + job.timeout
        before = network.counters()
        released = time.monotonic()
        self._open(0)
        if job.start == "server_first":
            while not network.listens(self._port):
                self._collect(0.0005)
                self._watch()
                if time.monotonic() > deadline:
                    raise CrowdFailure("timeout", f"the server did not listen within {job.timeout:.0f} s")
        self._open(1)
        counted = None
        readings: list[Reading] = []
        while len(readings) < job.clients:
            self._collect(0.02)
            self._watch()
            readings += [Reading(**line["reading"]) for line in self._take("reading")]
            if counted is None and min(self._places[:]) >= IN:
                counted = network.counters().since(before)
            if time.monotonic() > deadline:
                joined = sum(place >= IN for place in self._places[:])
                raise CrowdFailure("timeout", f"{joined} of {job.clients} ranks had joined after {job.timeout:.0f} s")
        return Round(released, readings, counted or network.counters().since(before))

    def _open(self, gate: int) -> None:
        end, self._gates[gate] = self._gates[gate], -1
        os.close(end)

    def _collect(self, pause: float) -> None:
        if select.select([self._out], [], [], pause)[0]:
            data = os.read(self._out, _PIPE_SIZE)
            *lines, self._pending = (self._pending + data).split(b"\n")
            self._lines += [json.loads(line) for line in lines]

    def _take(self, name: str) -> list[dict[str, Any]]:
        found = [line for line in self._lines if name in line]
        self._lines = [line for line in self._lines if name not in line]
        return found

    def _watch(self) -> None:
        """Raises CrowdFailure when a rank said that it failed, or its process is gone."""
        gone = self._reap()
        failed = self._take("error")
        if not gone and not failed:
            return
        until = time.monotonic() + _LAST_WORDS  # the cause may be a moment behind its first consequence
        while not gone and time.monotonic() < until:
            self._collect(0.02)
            gone = self._reap()
            failed += self._take("error")
        failed.sort(key=lambda line: (not line["wrong"], line["rank"]))
        said = failed[0]["error"] if failed else ""
        if gone:
            raise CrowdFailure("crash", gone, said)
        kind: FailureKind = "wrong" if failed[0]["wrong"] else "crash"
        more = f" (and {len(failed) - 1} more ranks)" if len(failed) > 1 else ""
        raise CrowdFailure(kind, f"rank {failed[0]['rank']}{more}: {said}", said)

    def _reap(self) -> str:
        """Which process is gone that should not be, and how it went; "" when none is."""
        found = ""
        while self._pids:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            ranks = self._pids.pop(pid, None)
            if ranks is None or status == 0:  # it said why in a line, or it is through
                continue
            code = os.waitstatus_to_exitcode(status)
            how = f"was ended by {signal_name(-code)}" if code < 0 else f"ended with status {code}"
            place = PLACES[max(self._places[rank] for rank in ranks)]
            who = "rank 0, the server," if ranks == [0] else f"the process of rank {ranks[0]}"
            if code < 0 or not found:
                found = f"{who} {how} {place}"
        return found

    def close(self) -> None:
        for pid in self._pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in self._pids:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
        self._pids.clear()
        for end in (*self._gates, self._out):
            if end >= 0:
                with suppress(OSError):
                    os.close(end)
        self._gates, self._out = [], -1
        self._places.close()


def _listener(port: int) -> socket.socket:
    """A socket that listens on ``port`` with the longest backlog that the kernel grants, as torch's own does."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(("", port))
        made.listen(network.somaxconn() or socket.SOMAXCONN)
    except OSError as error:
        made.close()
        raise CrowdFailure("crash", f"port {port}: {error.strerror}", str(error)) from None
    return made
