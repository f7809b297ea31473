"""A warm worker: a child process that answers JSON requests and whose hang or death is a value, not the end of the run."""

from __future__ import annotations

import json
import os
import re
import selectors
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from runners.launch import carry
from runners.process import die_with, end_group, signal_name
from runners.runner import Failure, Json

Request = dict[str, Json]
Reply = dict[str, Json]

_LOG = 16384
_PARENT = "CLUSTERTUNE_WORKER_PARENT"


class Worker:
    """One child process in a session of its own, ``python -m module``, which runs ``serve`` on its side.

    Where our modules were sent to this host as text, they are to the child, too.

    The child dies with this process, whatever kills it. The kernel ties that to the thread that made the worker: it must
    outlive the worker. One request at a time: ``send`` then ``gather``, or ``call``.
    """

    def __init__(self, module: str, arguments: Sequence[str] = (), *, env: Mapping[str, str] | None = None) -> None:
        line = carry.own_line()
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments] if line is None else [*carry.argv(sys.executable, module), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # With -m and -c Python looks for modules where it is started, and the user's folder may well hold a runners/ or a
            # torch.py of its own: it is started in our own root folder, or where there are none.
            cwd="/" if line is not None else Path(__file__).resolve().parent.parent,
            env={**(os.environ if env is None else env), _PARENT: str(os.getpid())},
            start_new_session=True,
        )
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert stream is not None
            os.set_blocking(stream.fileno(), stream is self._process.stdin)
        if line is not None:
            assert self._process.stdin is not None
            with suppress(BrokenPipeError):
                self._process.stdin.write(line)
                self._process.stdin.flush()
        self._pending = b""
        self._log = b""
        self._ended: Failure | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._ended is None

    @property
    def log(self) -> str:
        """The end of what the child wrote to its standard output and error."""
        return self._log.decode(errors="replace")

    def send(self, request: Request) -> None:
        """Hands over a request; a child that is gone is reported by gather."""
        assert self._process.stdin is not None
        if self._ended is None:
            with suppress(BrokenPipeError):
                self._process.stdin.write(json.dumps(request).encode() + b"\n")
                self._process.stdin.flush()

    def call(self, request: Request, limit: float) -> Reply | Failure:
        """The answer to ``request``, or what happened instead within ``limit`` seconds."""
        self.send(request)
        return gather([self], limit)[0]

    def kill(self) -> None:
        """Ends the child and all that it started, now."""
        self._finish(Failure("crash", "the worker was stopped", self.log))

    def close(self, grace: float = 5.0) -> None:
        """Ends the child: its input ends, and it has ``grace`` seconds to leave by itself."""
        if self._ended is None:
            assert self._process.stdin is not None
            with suppress(BrokenPipeError):
                self._process.stdin.close()
            deadline = time.monotonic() + grace
            while time.monotonic() < deadline and not self._gone():
                self._drain_log()
                time.sleep(0.002)
            self.kill()

    def _gone(self) -> bool:
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _drain_log(self) -> bool:
        """Takes in what the child has printed; True when it can't print any more."""
        assert self._process.stderr is not None
        while data := _read(self._process.stderr.fileno()):
            self._log = (self._log + data)[-_LOG:]
        return data == b""

    def _take(self) -> bytes | None:
        """A whole line of the answer, or None when there is none yet; b"" when the child closed its end."""
        assert self._process.stdout is not None
        while b"\n" not in self._pending:
            data = _read(self._process.stdout.fileno())
            if not data:
                return data
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _finish(self, ended: Failure) -> None:
        if self._ended is not None:
            return
        self._ended = ended
        end_group(self.pid, 0.0)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()

    def _died(self) -> Failure:
        """The child closed its answers: it is dead or dying; waits a moment for its last words."""
        deadline = time.monotonic() + 10.0  # a core dump of much locked memory takes its time
        while time.monotonic() < deadline and not self._gone():
            self._drain_log()
            time.sleep(0.002)
        self._drain_log()
        status = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if status is None:
            how = "closed its output"
        elif status.si_code == os.CLD_EXITED:
            how = f"ended with status {status.si_status}"
        else:
            how = f"was ended by {signal_name(status.si_status)}"
            if status.si_status == signal.SIGKILL:
                how += ", perhaps because memory ran out"
        said = last_words(self.log)
        failure = Failure("crash", f"the worker {how}" + (f": {said}" if said else ""), self.log)
        self._finish(failure)
        return failure


def gather(workers: Sequence[Worker], limit: float) -> list[Reply | Failure]:
    """The answers of workers that were sent a request each, in order, by one deadline ``limit`` seconds from now.

    A worker that has not answered by then is killed, with all that it started. Interrupted, it kills those still at work:
    their late answers would be taken for answers to the next request.
    """
    deadline = time.monotonic() + limit
    answers: dict[int, Reply | Failure] = {}
    waiting: dict[int, Worker] = {}
    for index, worker in enumerate(workers):
        if worker._ended is not None:
            answers[index] = worker._ended
        else:
            waiting[index] = worker
    try:
        with selectors.DefaultSelector() as selector:
            for index, worker in waiting.items():
                assert worker._process.stdout is not None
                assert worker._process.stderr is not None
                selector.register(worker._process.stdout, selectors.EVENT_READ, (index, False))
                selector.register(worker._process.stderr, selectors.EVENT_READ, (index, True))
            while waiting and (left := deadline - time.monotonic()) > 0:
                for key, _ in selector.select(left):
                    index, is_log = key.data
                    worker = workers[index]
                    if is_log:
                        # Its answer may have ended in this very turn, and its streams with it.
                        if not worker.alive or worker._drain_log():
                            selector.unregister(key.fileobj)
                        continue
                    if index not in waiting or (line := worker._take()) is None:
                        continue
                    answers[index] = worker._died() if line == b"" else json.loads(line)
                    del waiting[index]
                    selector.unregister(key.fileobj)
            for index, worker in waiting.items():
                worker._drain_log()
                answers[index] = Failure("timeout", f"no answer within {limit:.1f} s", worker.log, limit)
                worker._finish(Failure("crash", "the worker was stopped at its time limit", worker.log))
    except BaseException:
        for worker in waiting.values():
            worker.kill()
        raise
    return [answers[index] for index in range(len(workers))]


def _read(handle: int) -> bytes | None:
    try:
        return os.read(handle, 65536)
    except BlockingIOError:
        return None


def last_words(log: str) -> str:
    """The line of a log that says why a program died: a failed assertion, or the last line of a traceback."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    for line in lines:
        if match := re.search(r"Assertion .* failed|terminate called .*", line):
            return match[0]
    for line in reversed(lines):
        if re.match(r"[\w.]+(Error|Exception|Interrupt|Exit)\b", line):
            return line
    return ""


def serve(handle: Callable[[Request], Reply], close: Callable[[], None] = lambda: None) -> None:
    """The child's side: answers requests until its input ends, then calls ``close`` and leaves without further ado.

    Libraries print to standard output; the answers go elsewhere, so that nothing can garble them.
    """
    die_with(int(os.environ[_PARENT]))()
    answers = os.dup(1)
    os.dup2(2, 1)
    with os.fdopen(answers, "wb", buffering=0) as out:
        status = 0
        try:
            for line in sys.stdin.buffer:
                out.write(json.dumps(handle(json.loads(line))).encode() + b"\n")
            close()
        except Exception:
            traceback.print_exc()
            status = 1
        sys.stderr.flush()
        # Native libraries abort now and then while the interpreter is torn down; there is nothing left to tear down here.
        os._exit(status)
