"""Runs one program of a job on its host, tells what it prints and how it ends, and leaves nothing of it there.

Sent to the host as text and run by the Python that is there, 3.7 or newer, with what it imports of ours.
It ends the program, and all that holds the program's mark in its environment, when the time is over, when it is told to, when
the connection ends, and when nobody has been heard for a while: a host that can't be reached any more cleans itself.

Three ways to run it: with a line of JSON on standard input, which then is the launcher's voice; so, but without a program, to
watch over what mpirun starts on this host; and below mpirun or srun around one rank, with everything in the environment and
standard input left to the program.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import resource
import select
import shutil
import signal
import sys
import time
import zlib
from contextlib import suppress
from typing import Any

from runners.launch.marks import TABLE, end_all, frames, holders, sweep
from runners.launch.starting import CantStart, make_folder, start

_BEATS = 5


class Keeper:
    """``spec`` holds job, rank, name, argv, env, cwd, cpus, limit, grace, silence, folder and files.

    Without argv it watches the whole job on this host, until its input is over (``e``).
    """

    def __init__(self, spec: dict[str, Any], control: int | None) -> None:
        self.spec = spec
        self.control = control
        self.mark = spec["job"] if spec["argv"] is None else f"{spec['job']}.{spec['name']}"
        self.number = 0
        self.begun = self.heard = self.told = time.monotonic()
        self.child: Any = None
        self.stopped = ""
        self.pending = b""
        self.input = b""
        self.input_ends = False

    def tell(self, kind: str, data: bytes) -> None:
        for frame in frames(self.spec["job"], self.spec["rank"], self.number, kind, data):
            self.number += 1
            while frame:
                frame = frame[os.write(1, frame) :]
        self.told = time.monotonic()

    def run(self) -> int:
        spec = self.spec
        end: dict[str, Any] = {"status": 127}
        # The last resort: also when a write blocks for ever because nobody reads any more.
        signal.signal(signal.SIGALRM, self._late)
        signal.setitimer(signal.ITIMER_REAL, spec["limit"] + spec["grace"] + 10.0)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._asked)
        try:
            try:
                make_folder(spec)
                if spec["argv"] is None:
                    self._say_started(os.getpid())
                else:
                    self.child = start(spec, self.mark, self.control is None)
                    self._say_started(self.child.pid)
            except CantStart as error:
                end["error"] = list(error.args)
            else:
                self._follow()
                end = {"status": self._finish()}
            left = end_all(self.mark, spec["grace"] if self.stopped else 0.0)
            end.update(stopped=self.stopped, left=sorted(left.values()), seconds=time.monotonic() - self.begun)
            self._clear()
            self.tell("X", json.dumps(end).encode())
        except OSError:  # nobody reads any more
            end_all(self.mark, spec["grace"])
            self._clear()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return int(end["status"])

    def _late(self, *_: object) -> None:
        end_all(self.mark, 0.0)
        self._clear()
        os._exit(1)

    def _clear(self) -> None:
        if self.spec["folder"]:
            shutil.rmtree(self.spec["folder"], ignore_errors=True)

    def _asked(self, *_: object) -> None:
        self.stopped = self.stopped or "asked"

    def _say_started(self, pid: int) -> None:
        host = {"pid": pid, "host": os.uname().nodename, "python": list(sys.version_info[:3])}
        self.tell("S", json.dumps(host).encode())

    def _follow(self) -> None:
        """Until the program ends or has to."""
        spec, child = self.spec, self.child
        streams = {} if child is None else {child.stdout.fileno(): "O", child.stderr.fileno(): "E"}
        for stream in streams:
            os.set_blocking(stream, False)
        if child is not None and child.stdin is not None:
            os.set_blocking(child.stdin.fileno(), False)
        control = self.control
        while True:
            now = time.monotonic()
            gone = self.input_ends if child is None else _ended(child.pid)
            if not self.stopped and now - self.begun >= spec["limit"]:
                self.stopped = "limit"
            if now - self.told >= spec["silence"] / _BEATS:
                self.tell("H", b"")
            if self.stopped:
                return
            readers = list(streams) + ([] if control is None else [control])
            feeding = child is not None and child.stdin is not None and (self.input or self.input_ends)
            writers = [child.stdin.fileno()] if feeding else []
            pause = 0.0 if gone else 0.05 if len(streams) == 1 else 0.25
            ready, writable, _ = select.select(readers, writers, [], pause)
            read_any = False
            for stream in ready:
                if control is not None and stream == control:
                    control = self._listen(control)
                    continue
                try:
                    data = os.read(stream, 65536)
                except BlockingIOError:
                    continue
                if data:
                    read_any = True
                    self.tell(streams[stream], data)
                else:
                    del streams[stream]
            if writable:
                self._feed()
            # Only what is silent now counts: this process may have been held up itself.
            if control is not None and control not in ready and now - self.heard >= spec["silence"]:
                self.stopped = self.stopped or "silence"
            if gone and not read_any:
                return

    def _listen(self, control: int) -> int | None:
        data = os.read(control, 65536)
        self.heard = time.monotonic()
        if not data:
            self.stopped = self.stopped or "connection"
            return None
        lines = (self.pending + data).split(b"\n")
        self.pending = lines.pop()
        for line in lines:
            if line.startswith(b"k"):
                self.stopped = self.stopped or "told"
            elif line.startswith(b"i"):
                self.input += base64.b64decode(line[1:])
            elif line.startswith(b"e"):
                self.input_ends = True
        return control

    def _feed(self) -> None:
        stdin = self.child.stdin
        try:
            self.input = self.input[os.write(stdin.fileno(), self.input[:65536]) :] if self.input else b""
        except BlockingIOError:
            return
        except OSError:
            self.input, self.input_ends = b"", True
        if self.input_ends and not self.input:
            stdin.close()
            self.child.stdin = None

    def _finish(self) -> int:
        """Ends what has to end, tells the last words, and returns the status; below zero it is a signal."""
        child = self.child
        if child is None:
            # What mpirun started here is about to leave; it may clean up behind itself first.
            patience = time.monotonic() + (0.0 if self.stopped else 2.0)
            while time.monotonic() < patience and holders(self.mark):
                time.sleep(0.02)
            return 0
        if self.stopped:
            end_all(self.mark, self.spec["grace"])
            # A program that changed who it is (sudo, setuid) may hide its environment: it still is our child.
            if not _ended(child.pid):
                child.kill()
            for stream, kind in ((child.stdout, "O"), (child.stderr, "E")):
                with suppress(OSError):
                    data = os.read(stream.fileno(), 1 << 20)  # as much as a pipe can hold
                    self.tell(kind, data)
        return int(child.wait())


def _ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def below_a_launcher(rank: int, words: list[str]) -> int:
    """A rank of mpirun or srun: what it is comes from the environment, its program from ``words`` or from there too."""
    table = json.loads(zlib.decompress(base64.b64decode(os.environ[TABLE])).decode())
    spec = dict(table["all"], rank=rank, name=str(rank))
    spec.update(table["ranks"].get(str(rank), {}))
    if words:
        spec["argv"] = words
    # Where the launcher gives a terminal for output, it must not change line ends: frames have a size.
    if os.isatty(1):
        import termios

        mode = termios.tcgetattr(1)
        mode[1] &= ~termios.OPOST
        termios.tcsetattr(1, termios.TCSANOW, mode)
    parent = os.getppid()
    ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        return 1
    return Keeper(spec, None).run()


def main() -> None:
    if len(sys.argv) > 1:
        status = below_a_launcher(int(sys.argv[1]), sys.argv[2:])
        if status < 0:
            # The launcher shall see what happened: die the same way, without a second core file.
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if -status != signal.SIGKILL:
                signal.signal(-status, signal.SIG_DFL)
            os.kill(os.getpid(), -status)
        os._exit(status & 0xFF)
    spec = json.loads(sys.stdin.buffer.readline().decode())
    if os.getpgrp() != os.getpid():
        with suppress(OSError):
            os.setsid()
    os.write(1, b"\n")  # ends what a login script may have printed without a line end
    if "sweep" in spec:
        sweep(spec)
    else:
        Keeper(spec, 0).run()
    os._exit(0)


if __name__ == "__main__":
    main()
