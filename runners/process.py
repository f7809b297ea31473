"""Running one program to its end: output captured within bounds, a time limit, and nothing of it left running."""

from __future__ import annotations

import ctypes
import os
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from runners.runner import Failure

_PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None).prctl
_CHUNK = 65536
CAPTURE = 16 << 20
_ASK = 0.5


@dataclass(frozen=True, slots=True)
class Completed:
    """A program that ended by itself; the exit status is the caller's to judge. Output as text, its tail if very long."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    seconds: float


def run(
    argv: Sequence[str],
    *,
    limit: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    grace: float = 2.0,
    capture: int = CAPTURE,
    enough: Callable[[], bool] | None = None,
) -> Completed | Failure:
    """Runs ``argv`` for at most ``limit`` seconds in a session of its own, or until ``enough``, asked twice a second, is true.

    Failure "environment" where it can't be started, "timeout" when it was stopped, "crash" when a signal ended it. Whatever it
    started is killed too: politely first, ``grace`` seconds later without asking. If this process dies, the program dies.
    The kernel ties that to the thread that called: a thread that calls must outlive the program, as it does here.
    """
    begun = time.monotonic()
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=None if env is None else dict(env),
            cwd=cwd,
            start_new_session=True,
            preexec_fn=die_with(os.getpid()),  # two system calls, nothing that could need a lock
        )
    except OSError as error:
        return Failure("environment", f"{argv[0]} can't be started: {error.strerror or error}")
    assert process.stdout is not None
    assert process.stderr is not None
    outputs = {process.stdout: Tail(capture), process.stderr: Tail(capture)}
    ended = False
    try:
        ended = _pump(process.pid, outputs, begun + limit, enough or (lambda: False))
    finally:
        # The dead leader stays unreaped until its group is gone: as long as it does, nobody else can be given its number.
        end_group(process.pid, 0.0 if ended else grace)
        returncode = process.wait()
        process.stdout.close()
        process.stderr.close()
    stdout, stderr = (tail.text() for tail in outputs.values())
    seconds = time.monotonic() - begun
    if not ended:
        return Failure("timeout", f"{argv[0]} was stopped after {limit:.1f} s", stderr[-8192:] or stdout[-8192:], seconds)
    if returncode < 0:
        return Failure("crash", f"{argv[0]} was ended by {signal_name(-returncode)}", stderr[-8192:], seconds)
    return Completed(tuple(argv), returncode, stdout, stderr, seconds)


class Tail:
    """The last ``size`` bytes of a stream."""

    def __init__(self, size: int) -> None:
        self._size, self._held = size, 0
        self._parts: deque[bytes] = deque()

    def add(self, part: bytes) -> None:
        self._parts.append(part)
        self._held += len(part)
        while self._held - len(self._parts[0]) >= self._size:
            self._held -= len(self._parts.popleft())

    def text(self) -> str:
        return b"".join(self._parts)[-self._size :].decode(errors="replace")


def _pump(pid: int, outputs: Mapping[IO[bytes], Tail], deadline: float, enough: Callable[[], bool]) -> bool:
    """Reads until the program ends (True), or the deadline passes or ``enough`` is true (False)."""
    asked = time.monotonic()
    with selectors.DefaultSelector() as selector:
        for stream, tail in outputs.items():
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, selectors.EVENT_READ, tail)
        pause = 0.001
        while True:
            gone = _ended(pid)
            # A child that outlives the program may hold the pipes open; what is in them now is all that is waited for.
            for key, _ in selector.select(0 if gone else pause):
                data = _read(key.fd)
                if data:
                    key.data.add(data)
                    gone = False
                elif data == b"":
                    selector.unregister(key.fileobj)
            if gone:
                return True
            now = time.monotonic()
            if now >= deadline:
                return False
            if now - asked >= _ASK:
                asked = now
                if enough():
                    return False
            if not selector.get_map():
                time.sleep(pause)
            pause = min(0.02, pause * 2)


def _read(handle: int) -> bytes | None:
    try:
        return os.read(handle, _CHUNK)
    except BlockingIOError:
        return None


def _ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def end_group(pid: int, grace: float) -> None:
    """Ends the process group that ``pid`` leads (an unreaped child of ours) and every descendant that left the group."""
    others = descendants(pid)
    if grace > 0:
        _signal_all(pid, others, signal.SIGTERM)
        deadline = time.monotonic() + grace
        while time.monotonic() < deadline and not _ended(pid):
            time.sleep(0.01)
    others = sorted({*others, *descendants(pid)})
    _signal_all(pid, others, signal.SIGKILL)


def _signal_all(group: int, others: Sequence[int], number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
    for pid in others:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def descendants(pid: int) -> list[int]:
    """Processes that ``pid`` started, and they, and so on, as far as their parents still live."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, IndexError, ValueError):
                # The name in parentheses may hold anything, so count from its end: state, then the parent.
                parent = int((entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found, frontier = [], [pid]
    while frontier:
        below = children.get(frontier.pop(), [])
        found += below
        frontier += below
    return found


def die_with(parent: int) -> Callable[[], None]:
    """For the child, between fork and exec, or first thing in its main: be killed when ``parent`` dies."""

    def arrange() -> None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before we asked
            os._exit(1)

    return arrange


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
