"""The worker process on a host of several: holds its torch, forks its share of the ranks, and answers lines of JSON.

It is sent to the host as text (runners.launch.carry): nothing but Python and torch has to be there.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.metadata
import json
import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from runners.runner import EnvironmentProblem
from runners.tcpstore import figures, fit, kernel, names, network
from runners.tcpstore.able import able
from runners.tcpstore.broken import CrowdFailure
from runners.tcpstore.crowd import Crowd
from runners.tcpstore.job import Job

_CONNECT = 5.0
_SPIN = 0.002


class There:
    """One request after the other; what failed as it may is a reply with "failure" in it."""

    def __init__(self) -> None:
        self.backlogs = kernel.Backlogs()
        self._left = kernel.clear()
        self._crowd: Crowd | None = None
        self._door: socket.socket | None = None
        self._word = ""

    def facts(self) -> dict[str, Any]:
        """What this host has; imports no torch."""
        try:
            torch = importlib.metadata.version("torch")
        except importlib.metadata.PackageNotFoundError:
            torch = ""
        return {
            "node": os.uname().nodename,
            "python": sys.executable,
            "torch": torch,
            "machine": asdict(fit.machine()),
            "backlogs": kernel.present(),
            "addresses": network.addresses(),
            "left": [asdict(each) for each in self._left],
        }

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        what = request["do"]
        if what == "clock":
            return {"clock": time.monotonic()}
        if what == "able":
            return _able()
        if what == "names":
            found = names.look_up(request["host"], request["ranks"], request["limit"])
            return {"lookup": asdict(found), "back": names.ways_back(request["addresses"], request["limit"])}
        if what == "may_raise":
            return {"refusal": kernel.refusal(request["backlog"])}
        if what == "open":
            return self._open(request["port"])
        if what == "call":
            return {"said": _call_all(request["addresses"], request["port"], request["word"])}
        if what == "shut":
            self._shut()
            return {}
        return self._of_the_crowd(what, request)

    def _of_the_crowd(self, what: str, request: dict[str, Any]) -> dict[str, Any]:
        try:
            if what == "prepare":
                self._end()
                job = Job.of(request["job"])
                self.backlogs.at_least(request["backlog"])
                self._crowd = Crowd(job).__enter__()
                self._crowd.get_ready()
                return {"port": self._crowd.port}
            crowd = self._crowd
            if what == "end" or crowd is None:
                self._end()
                return {}
            if what == "serve":
                crowd.serve()
                return {}
            if what == "go":
                _wait_until(request["at"])
                return {"released": crowd.go()}
            seen = crowd.poll(request["patience"])
            return {"part": None if seen is None else asdict(figures.part(seen, fit.cores()))}
        except CrowdFailure as failure:
            told = failure.json()
            self._end()
            return {"failure": told}
        except EnvironmentProblem as problem:
            self._end()
            return {"failure": {"kind": "environment", "reason": problem.message, "said": ""}}

    def _end(self) -> None:
        crowd, self._crowd = self._crowd, None
        if crowd is not None:
            crowd.close()

    def _open(self, port: int) -> dict[str, Any]:
        """Lets others call us at ``port``, 0 for a free one, and tells them from strangers by a word."""
        self._shut()
        door = socket.socket()
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            door.bind(("", port))
            door.listen(256)
        except OSError as error:
            door.close()
            return {"busy": error.strerror or str(error), "free": network.free_ports(1)[0]}
        self._door, self._word = door, secrets.token_hex(16)
        threading.Thread(target=_greet, args=(door, self._word), daemon=True).start()
        return {"port": door.getsockname()[1], "word": self._word}

    def _shut(self) -> None:
        door, self._door = self._door, None
        if door is not None:
            with contextlib.suppress(OSError):
                door.shutdown(socket.SHUT_RDWR)
            door.close()

    def close(self) -> None:
        """No rank is left, and the backlogs are as they were."""
        self._end()
        self.backlogs.put_back()


def _wait_until(moment: float) -> None:
    """Sleep alone may take a millisecond too long."""
    time.sleep(max(0.0, moment - time.monotonic() - _SPIN))
    while time.monotonic() < moment:
        pass


def _greet(door: socket.socket, word: str) -> None:
    while True:
        try:
            line, _ = door.accept()
        except OSError:
            return
        with line, contextlib.suppress(OSError):
            line.sendall(word.encode())


def _call_all(addresses: list[str], port: int, word: str) -> dict[str, str]:
    """All at once: each that nobody answers takes its whole time."""
    with ThreadPoolExecutor(max(1, len(addresses))) as pool:
        return dict(zip(addresses, pool.map(lambda each: _call(each, port, word), addresses), strict=True))


def _call(address: str, port: int, word: str) -> str:
    """Why nobody answers there with the right word, "" when somebody does."""
    try:
        with socket.create_connection((address, port), _CONNECT) as line:
            line.settimeout(_CONNECT)
            told = b""
            while len(told) < len(word) and (data := line.recv(64)):
                told += data
            return "" if told == word.encode() else "another program answered"
    except OSError as error:
        return error.strerror or str(error) or type(error).__name__


def _able() -> dict[str, Any]:
    try:
        import torch.distributed  # noqa: F401
    except Exception as error:  # whatever it is, this host has no torch that works
        return {"failure": {"kind": "environment", "reason": f"{type(error).__name__}: {error}", "said": ""}}
    # What is there now belongs to every fork, unchanged.
    gc.collect()
    gc.freeze()
    found = able()
    return {"can": found["can"]}


def main() -> None:
    """Libraries print to standard output; the answers go elsewhere, so that nothing can garble them."""
    there = There()

    def leave(*_: object) -> None:
        there.close()
        os._exit(143)

    answers = os.dup(1)
    os.dup2(2, 1)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
    try:
        _say(answers, there.facts())
        for line in _lines():
            _say(answers, there.answer(json.loads(line)))
    finally:
        there.close()
    sys.stderr.flush()
    # Native libraries abort now and then while the interpreter is torn down; there is nothing left to tear down here.
    os._exit(0)


def _lines() -> Iterator[bytes]:
    while line := sys.stdin.buffer.readline():
        if line.strip():
            yield line


def _say(answers: int, told: dict[str, Any]) -> None:
    data = json.dumps(told).encode() + b"\n"
    while data:
        data = data[os.write(answers, data) :]


if __name__ == "__main__":
    main()
