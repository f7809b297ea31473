"""All ranks of one measurement as processes forked from one that has torch loaded: started together, watched, ended."""

from __future__ import annotations

import fcntl
import gc
import json
import math
import mmap
import os
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
from runners.tcpstore.broken import CrowdFailure
from runners.tcpstore.job import IN, PLACES, Job, Reading
from runners.tcpstore.rank import Gates, work

_PIPE_SIZE = 1 << 20
_F_SETPIPE_SZ = 1031
_LAST_WORDS = 0.5


@dataclass(frozen=True, slots=True)
class Round:
    """``released``: when the ranks could begin, by CLOCK_MONOTONIC; ``counters``: what the kernel saw until all were in.

    ``serving`` are the seconds that rank 0 had before that, until its server listened.
    """

    released: float
    readings: list[Reading]
    counters: network.Counters
    serving: float = 0.0


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
        self._readings: list[Reading] = []
        self._counted: network.Counters | None = None
        self._released, self._serving = math.inf, 0.0
        self.port = job.port or network.free_ports(1)[0]

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
        listener = _listener(self.port) if self._job.start == "listening" else None
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
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            # Rank 0 keeps the limit that it would have in the job, unless it is asked to raise it.
            network.raise_descriptors(self._job.nofile if ranks == [0] else 1 << 30)
            gc.disable()  # a collection would copy the pages of all of torch
            work(self._job, ranks, self.port, listener, gates, out, self._places)
        except BaseException:  # nothing may return from here into the parent's code
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)

    def start(self) -> Round:
        """The start: all ranks join, wait for each other, and try the store's operations. Raises CrowdFailure."""
        self.get_ready()
        if self._job.start == "server_first":
            self.serve()
        self.go()
        while (found := self.poll(0.02)) is None:
            pass
        return found

    def get_ready(self) -> None:
        """Until every process is at its gate."""
        deadline = time.monotonic() + self._job.timeout
        ready, count = 0, len(self._pids)
        while ready < count:
            self._collect(0.02)
            self._watch()
            ready += len(self._take("ready"))
            if time.monotonic() > deadline:
                raise CrowdFailure("timeout", f"{ready} of {count} processes were up after {self._job.timeout:.0f} s")
        self._before = network.counters()

    def serve(self) -> None:
        """Lets rank 0 begin before all others; returns when its server listens."""
        served = time.monotonic()
        self._open(0)
        while not network.listens(self.port):
            self._collect(0.0005)
            self._watch()
            if time.monotonic() > served + self._job.timeout:
                raise CrowdFailure("timeout", f"the server did not listen within {self._job.timeout:.0f} s")
        self._serving = time.monotonic() - served

    def go(self) -> float:
        """Lets all begin that wait still; returns when that was."""
        self._released = time.monotonic()
        for gate in (0, 1):
            self._open(gate)
        return self._released

    def poll(self, patience: float) -> Round | None:
        """What was seen, once all ranks of this host are through; None while that takes longer than ``patience`` seconds."""
        job, until = self._job, time.monotonic() + patience
        while len(self._readings) < len(job.mine):
            self._collect(0.02)
            self._watch()
            self._readings += [Reading(**line["reading"]) for line in self._take("reading")]
            places = self._places[job.mine.start : job.mine.stop]
            if self._counted is None and min(places) >= IN:
                self._counted = network.counters().since(self._before)
            now = time.monotonic()
            if now > self._released + job.timeout:
                joined = sum(place >= IN for place in places)
                raise CrowdFailure("timeout", f"{joined} of {len(places)} ranks had joined after {job.timeout:.0f} s")
            if now > until and len(self._readings) < len(places):
                return None
        counters = self._counted or network.counters().since(self._before)
        return Round(self._released, self._readings, counters, self._serving)

    def _open(self, gate: int) -> None:
        end, self._gates[gate] = self._gates[gate], -1
        if end >= 0:
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
            raise CrowdFailure("crash", gone, said, gone=True)
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
