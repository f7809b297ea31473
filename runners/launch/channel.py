"""One keeper at work, here or over ssh: its process, what is to be told to it, and what it tells."""

from __future__ import annotations

import base64
import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from runners.launch.frames import Decoder, Frame
from runners.launch.reach import last_line, spoken
from runners.process import end_group

_COMPLAINTS = 16384


class Channel:
    """``name`` is the host's. Reading is one thread's; ``say`` and those that call it may be any's. ``begin`` starts it."""

    def __init__(self, command: Sequence[str], spec: Mapping[str, Any], name: str) -> None:
        self.name = name
        self.decoder = Decoder(str(spec["job"]))
        self.ended = False
        self._command = tuple(command)
        self._complaints = b""
        self._lock = threading.Lock()
        self._outgoing = spoken(spec)
        self._waiting: bytes | None = b""  # input from before the keeper has begun; None once it has
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Raises OSError where the command can't be started."""
        self.begun = self.heard = self._said = time.monotonic()
        # A session of its own: Ctrl-C in a terminal is ours to handle.
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)

    @property
    def begun_at_all(self) -> bool:
        return self._process is not None

    @property
    def connecting(self) -> bool:
        """Begun, and its host has not answered yet."""
        return self._process is not None and not self.ended and self._waiting is not None

    @property
    def streams(self) -> tuple[int, int]:
        assert self._process is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        return self._process.stdout.fileno(), self._process.stderr.fileno()

    @property
    def complaint(self) -> str:
        """The last line of what ssh, or whatever starts the keeper, wrote to standard error, or else to standard output."""
        return last_line(self._complaints.decode(errors="replace")) or last_line(self.decoder.noise)

    @property
    def log(self) -> str:
        return self.decoder.noise + self._complaints.decode(errors="replace")

    def read(self) -> list[Frame]:
        """What has come in by now; sets ``ended`` when nothing can come any more."""
        output, complaints = self.streams
        while part := _read(complaints):
            self._complaints = (self._complaints + part)[-_COMPLAINTS:]
        frames: list[Frame] = []
        for _ in range(64):  # others want to be heard too
            part = _read(output)
            if not part:
                self.ended = part == b""
                break
            frames.extend(self.decoder.feed(part))
        if frames:
            self.heard = time.monotonic()
            if self._waiting is not None:
                with self._lock:
                    self._outgoing += self._waiting
                    self._waiting = None
        return frames

    def beat(self, interval: float) -> None:
        """A sign of life, if it is time for one; and whatever could not be written yet."""
        if self._process is None:
            return
        now = time.monotonic()
        if self._waiting is None and now - self._said >= interval:
            self._said = now
            self.say(b"\n")
        else:
            self.say(b"")

    def say(self, line: bytes) -> None:
        with self._lock:
            if line and self._waiting is not None:
                self._waiting += line
            else:
                self._outgoing += line
            if self._process is None:
                return
            stdin = self._process.stdin
            assert stdin is not None
            with suppress(BlockingIOError, BrokenPipeError, ValueError):
                while self._outgoing and not stdin.closed:
                    self._outgoing = self._outgoing[os.write(stdin.fileno(), self._outgoing[:65536]) :]

    @property
    def unsaid(self) -> bool:
        return self._process is not None and bool(self._outgoing)

    def tell_input(self, data: bytes) -> None:
        """Hands ``data`` to the program's standard input."""
        for start in range(0, len(data), 32768):
            self.say(b"i" + base64.b64encode(data[start : start + 32768]) + b"\n")

    def end_input(self) -> None:
        self.say(b"e\n")

    def tell_end(self) -> None:
        """Asks the keeper to end its program."""
        if self._waiting is not None:
            self._waiting = b""
        self.say(b"k\n")

    def close(self) -> None:
        """Ends ssh; a keeper that still runs sees that and ends what it keeps."""
        if self._process is None:
            return
        with suppress(OSError, ValueError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        end_group(self._process.pid, 0.0)
        self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()


def _read(stream: int) -> bytes | None:
    try:
        return os.read(stream, 65536)
    except BlockingIOError:
        return None
