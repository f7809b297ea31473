"""One host of several: the worker process there, what it has, and how its clock differs from ours."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, NoReturn

from runners.hosts.host import Host
from runners.hosts_doctor import unreachable
from runners.launch import carry
from runners.launch.job import Job, Launcher, Process, Rank
from runners.runner import EnvironmentProblem, Failure, Problem
from runners.tcpstore import fit, network
from runners.tcpstore.clocks import Clock

_MODULE = "runners.tcpstore.there"
# All that the worker imports of ours.
CARRIED = (
    "spaces.space", "spaces.units", "runners.limits", "runners.options", "runners.process", "runners.runner",
    "runners.tcpstore.able", "runners.tcpstore.broken", "runners.tcpstore.crowd", "runners.tcpstore.figures",
    "runners.tcpstore.fit", "runners.tcpstore.job", "runners.tcpstore.kernel", "runners.tcpstore.names",
    "runners.tcpstore.network", "runners.tcpstore.options", "runners.tcpstore.rank", "runners.tcpstore.weigh", _MODULE,
)  # fmt: skip
# The host's own clock ends what nobody else can end any more; no run is as long.
_LIFE = 14 * 86400.0
_BEGIN, _LOAD, _ANSWER = 60.0, 180.0, 30.0
_QUESTIONS = 6
_NO_PROGRAM = "its program can't be started"
_ALONE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class HostFailure(Exception):
    """A host that can't go on, or what it says went wrong there: ``told`` holds what the host said of it, if it did."""

    def __init__(self, host: Host, failure: Failure, told: Mapping[str, Any] | None = None) -> None:
        self.host, self.failure, self.told = host, failure, told
        super().__init__(failure.reason)


class Seat:
    """``facts`` is there after ``begin``, ``can`` after ``load``. One question at a time; every one may raise HostFailure."""

    def __init__(self, host: Host, launcher: Launcher, python: str) -> None:
        self.host, self.clock = host, Clock()
        self.facts: dict[str, Any] = {}
        self.can: dict[str, str] = {}
        self._launcher, self._python = launcher, python
        self._running: Process | None = None

    def begin(self) -> Problem | None:
        """Starts the worker there; why the host can't be used, if it can't."""
        rank = Rank(self.host, carry.argv(self._python, _MODULE), _ALONE)
        self._running = self._launcher.start(Job((rank,), _LIFE))
        told = self._running.ask(carry.texts(CARRIED), _BEGIN)
        if isinstance(told, Failure):
            named = self._named(told)
            if named.kind == "environment" and _NO_PROGRAM not in named.reason:
                return unreachable(self.host, named)
            mend = f"--python names a Python there that is {carry.OLDEST_SHOWN} or newer and has torch (now {self._python})"
            reason = named.reason.replace(_NO_PROGRAM, f"{self._python} can't be started", 1)
            return Problem("hosts-python", "error", reason.replace("its worker", self._python, 1), mend)
        self.facts = self._parsed(told)
        return None

    def load(self) -> None:
        """Loads torch there and tries what it can. Raises EnvironmentProblem where it has none that works."""
        try:
            self.can = {name: str(why) for name, why in self.ask({"do": "able"}, _LOAD)["can"].items()}
        except HostFailure as problem:
            mend = f"name the Python that has torch on {self.host.name}: --python PROGRAM (now {self.facts['python']})"
            raise EnvironmentProblem(f"{self.host.name}: torch does not start: {problem.failure.reason}", mend) from None

    @property
    def machine(self) -> fit.Machine:
        told = self.facts["machine"]
        return fit.Machine(**{**told, "descriptors": network.Descriptors(**told["descriptors"])})

    def ask(self, request: Mapping[str, Any], limit: float = _ANSWER) -> dict[str, Any]:
        """The worker's answer."""
        assert self._running is not None
        line = self._running.ask(json.dumps(request), limit)
        if isinstance(line, Failure):
            raise HostFailure(self.host, self._named(line))
        told = self._parsed(line)
        if failed := told.get("failure"):
            raise HostFailure(self.host, Failure(failed["kind"], failed["reason"], failed["said"]), failed)
        return told

    def set_clock(self) -> None:
        """Asks for the time there again, a few times in a row."""
        for _ in range(_QUESTIONS):
            asked = time.monotonic()
            there = float(self.ask({"do": "clock"})["clock"])
            self.clock.hear(asked, there, time.monotonic())

    def stop(self) -> None:
        """Ends the worker and all that it started; it puts back what it changed."""
        running, self._running = self._running, None
        if running is not None:
            running.stop()

    def _named(self, failure: Failure) -> Failure:
        """The worker is the only rank of its job, and no rank of the user's."""
        name = self.host.name
        reason = failure.reason.replace(f"rank 0 on {name}: ", f"{name}: ", 1)
        reason = reason.replace(f"rank 0 on {name} ", f"{name}: its worker ", 1)
        if reason.startswith("the job "):
            reason = reason.replace("the job ", f"{name}: its worker ", 1)
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
