"""One host of several, and the program of ours there that answers questions: started, asked, ended."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NoReturn

from runners.hosts.host import Host
from runners.hosts_doctor import unreachable
from runners.launch import carry
from runners.launch.job import Job, Launcher, Process, Rank
from runners.runner import Failure, Problem

# The host's own clock ends what nobody else can end any more; no run is as long.
_LIFE = 14 * 86400.0
_BEGIN, _ANSWER = 60.0, 30.0
_NO_PROGRAM = "its program can't be started"


class HostFailure(Exception):
    """A host that can't go on, or what it says went wrong there: ``told`` holds what the host said of it, if it did."""

    def __init__(self, host: Host, failure: Failure, told: Mapping[str, Any] | None = None) -> None:
        self.host, self.failure, self.told = host, failure, told
        super().__init__(failure.reason)


class Seat:
    """``facts`` are there after ``begin``: the first that the program says. One question at a time.

    A kind of seat names the ``module`` that is started, what of ours it needs (``carried``; () for all that it imports), what
    its Python needs beside (``wanted``, like " and has torch"), and its ``environment``. Every question may raise HostFailure.
    """

    module: ClassVar[str]
    carried: ClassVar[Sequence[str]] = ()
    wanted: ClassVar[str] = ""
    environment: ClassVar[Mapping[str, str]] = {}

    def __init__(self, host: Host, launcher: Launcher, python: str) -> None:
        self.host = host
        self.facts: dict[str, Any] = {}
        self._launcher, self._python = launcher, python
        self._running: Process | None = None

    def begin(self) -> Problem | None:
        """Starts the program there; why the host can't be used, if it can't."""
        rank = Rank(self.host, carry.argv(self._python, self.module), self.environment)
        self._running = self._launcher.start(Job((rank,), _LIFE))
        told = self._running.ask(carry.texts(tuple(self.carried) or carry.needed((self.module,))), _BEGIN)
        if isinstance(told, Failure):
            named = self._named(told)
            if named.kind == "environment" and _NO_PROGRAM not in named.reason:
                return unreachable(self.host, named)
            wanted = f"{carry.OLDEST_SHOWN} or newer{self.wanted}"
            mend = f"--python names a Python there that is {wanted} (now {self._python})"
            reason = named.reason.replace(_NO_PROGRAM, f"{self._python} can't be started", 1)
            return Problem("hosts-python", "error", reason.replace("its worker", self._python, 1), mend)
        self.facts = self._parsed(told)
        return None

    def ask(self, request: Mapping[str, Any], limit: float = _ANSWER) -> dict[str, Any]:
        """The program's answer."""
        assert self._running is not None
        line = self._running.ask(json.dumps(request), limit)
        if isinstance(line, Failure):
            raise HostFailure(self.host, self._named(line))
        told = self._parsed(line)
        if failed := told.get("failure"):
            raise HostFailure(self.host, Failure(failed["kind"], failed["reason"], failed["said"]), failed)
        return told

    def stop(self) -> None:
        """Ends the program and all that it started; it puts back what it changed."""
        running, self._running = self._running, None
        if running is not None:
            running.stop()

    def _named(self, failure: Failure) -> Failure:
        """The program is the only rank of its job, and no rank of the user's."""
        name = self.host.name
        reason = failure.reason.replace(f"rank 0 on {name}: ", f"{name}: ", 1)
        reason = reason.replace(f"rank 0 on {name} ", f"{name}: its worker ", 1)
        if reason.startswith("the job "):
            reason = reason.replace("the job ", f"{name}: its worker ", 1)
        # Its last words may be its last answer, which is no business of people's.
        reason = reason.partition(": {")[0]
        return Failure(failure.kind, reason, failure.log, failure.seconds)

    def _parsed(self, line: str) -> dict[str, Any]:
        try:
            told = json.loads(line)
        except ValueError:
            self._not_understood(line)
        if not isinstance(told, dict):
            self._not_understood(line)
        return told

    def _not_understood(self, line: str) -> NoReturn:
        reason = f"{self.host.name}: what it answers is not understood: {line[:80]!r}"
        raise HostFailure(self.host, Failure("environment", reason))
