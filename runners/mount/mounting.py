"""One mount program in the foreground, from its start to the last trace of it: nothing of it stays, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from runners.launch.marks import MARK, end_all
from runners.mount.guard import Guard
from runners.mount.programs import last_line
from runners.mount.unmount import detach, mounted
from runners.process import Tail, die_with, signal_name
from runners.runner import Failure

_LOG = 16384
_POLL = 0.02
_GRACE = 3.0


class MountProgram:
    """A mount program and what it mounted on ``point``.

    It runs in a session of its own, dies with the thread that started it, and carries a mark below ``mark`` in its
    environment, as all that it starts does.
    """

    def __init__(self, argv: Sequence[str], point: Path, mark: str, *, env: Mapping[str, str], cwd: Path) -> None:
        self.point, self._mark, self._name = point, f"{mark}.mount", Path(argv[0]).name
        self._tail = Tail(_LOG)
        self._closed = False
        self._turn = threading.Lock()
        self._process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**env, MARK: self._mark},
            cwd=cwd,
            start_new_session=True,
            preexec_fn=die_with(os.getpid()),
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> str:
        """The end of what the program printed."""
        return self._tail.text()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with suppress(OSError, ValueError):
            while part := os.read(self._process.stdout.fileno(), 65536):
                self._tail.add(part)

    def ended(self) -> Failure | None:
        """How the program ended, None while it runs."""
        if self._closed:
            return Failure("crash", f"{self._name} was unmounted", self.log)
        # Not reaped before the end: until then nobody else can be given its number, which is its group's, too.
        status = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if status is None:
            return None
        self._reader.join(0.5)
        exited = status.si_code == os.CLD_EXITED
        how = f"ended with status {status.si_status}" if exited else f"was ended by {signal_name(status.si_status)}"
        said = last_line(self.log)
        return Failure("crash", f"{self._name} {how}" + (f": {said}" if said else ""), self.log)

    def wait(self, limit: float, ready: Callable[[], bool] = lambda: True) -> Failure | None:
        """Waits until there is a mount on the point and ``ready`` says so (asked again and again), at most ``limit`` seconds.

        ``ready`` may touch the mount: where that hangs, the program is killed at the limit.
        """
        deadline = time.monotonic() + limit
        with Guard(limit, self.kill) as guard:
            while not guard.expired and time.monotonic() < deadline:
                if (failed := self.ended()) is not None:
                    break
                if mounted(self.point) and ready():
                    return None
                time.sleep(_POLL)
            else:
                failed = None
        if guard.expired or failed is None:
            return Failure("timeout", f"{self._name} did not mount within {limit:.1f} s", self.log)
        return failed

    def kill(self) -> None:
        """Ends the program without asking: the kernel then fails what waits on the mount. From any thread."""
        with self._turn:
            if not self._closed:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, signal.SIGKILL)
        end_all(self._mark, 0.0, patience=1.0)

    def close(self) -> None:
        """Unmounts and ends the program: it is given a moment to leave by itself. May be called twice."""
        if self._closed:
            return
        try:
            # Out of the tree first: most programs end by themselves then, and nobody can get onto a hanging mount any more.
            detach(self.point)
            end_all(self._mark, _GRACE)
            self.kill()
            with self._turn:
                self._process.wait()
                self._closed = True
            detach(self.point)
        finally:
            assert self._process.stdout is not None
            self._reader.join(1.0)
            if not self._reader.is_alive():
                self._process.stdout.close()


def start(argv: Sequence[str], point: Path, mark: str, *, env: Mapping[str, str], cwd: Path) -> MountProgram | Failure:
    """Starts a mount program; Failure "environment" where it can't be started."""
    try:
        return MountProgram(argv, point, mark, env=env, cwd=cwd)
    except OSError as error:
        return Failure("environment", f"{argv[0]} can't be started: {error.strerror or error}")
