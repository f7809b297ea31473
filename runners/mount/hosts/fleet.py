"""The programs on the client hosts: started with what a study asks for, asked all at once, ended with every host put right."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from runners.hosts import Host
from runners.launch import carry, marks
from runners.launch.crew import Crew
from runners.launch.job import Job, Launcher, Rank
from runners.launch.seat import HostFailure, Seat
from runners.launch.together import Together
from runners.mount.hosts import joined
from runners.mount.loads import LOADS
from runners.runner import EnvironmentProblem, UsageError
from spaces.space import Space

_MODULE = "runners.mount.hosts.there"
# What a load's module starts by its name.
_STARTED = {"torch": ("runners.mount.loads.torch_child",)}
# What every question may take: a look at the data and a mount, or a FUSE process that has to come back. And some more for a
# program that waits for something as long.
PATIENCE, _MORE = 180.0, 30.0
_WAIT = """
import sys
deadline = time.monotonic() + float(sys.argv[2])
while holders(sys.argv[1]) and time.monotonic() < deadline:
    time.sleep(0.1)
"""

Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """A target that mounts: its name, its limits out of what JSON holds of them, and its space within limits.

    ``variables`` are beginnings of names: those of this shell are handed on, as a mount here would have them.
    """

    target: str
    limits: Callable[[Mapping[str, Any]], Any]
    within: Callable[[Space, Any], Space]
    variables: tuple[str, ...] = ()


def seat_of(kind: Kind, load: str) -> type[Seat]:
    """The kind of seat whose program can make runners of a target, and has the module of a load."""
    loads = (f"runners.mount.loads.{load}", *_STARTED.get(load, ()))
    roots = (_MODULE, f"runners.{kind.target}", f"spaces.{kind.target}", "runners.mount.hosts.watchman", *loads)
    own = {name: value for name, value in os.environ.items() if name.startswith(kind.variables)}

    class MountSeat(Seat):
        module, carried = _MODULE, carry.needed(roots)
        environment: ClassVar[Mapping[str, str]] = own

    return MountSeat


class Fleet:
    """``options`` are those of each host's own runner. What is asked of a fleet that was ended starts it anew."""

    def __init__(self, kind: Kind, options: Mapping[str, Any], hosts: Sequence[Host], launcher: Launcher, python: str) -> None:
        self.hosts = tuple(hosts)
        self._kind, self._launcher, self._python = kind, launcher, python
        self._request: dict[str, Any] = {"target": kind.target, "options": dict(options)}
        self._crew: Crew[Seat] | None = None
        self._watchmen: dict[str, str] = {}

    @property
    def at_work(self) -> bool:
        """Whether all hosts have their runners."""
        return self._crew is not None and self._crew.alive and bool(self._watchmen)

    def same(self) -> list[tuple[str, str]]:
        """Hosts that are one machine under two names, each with the first of its names."""
        first: dict[str, str] = {}
        seats = self._crew.seats if self._crew is not None else []
        pairs = [(first.setdefault(str(seat.facts.get("system")), seat.host.name), seat.host.name) for seat in seats]
        return [(one, other) for one, other in pairs if one != other]

    def doctor(self) -> dict[str, Answer]:
        """What each host's doctor says. Raises Unreachable, UsageError and EnvironmentProblem."""
        return self._checked(self._ask(self._seated(), {"do": "doctor", **self._request}, PATIENCE))

    def create(self) -> dict[str, Answer]:
        """A runner on each host, and what it knows by then. Raises as ``doctor``, and where hosts share what they must not."""
        told = self._checked(self._ask(self._seated(), {"do": "create", **self._request}, PATIENCE))
        self._watchmen = {host: str(answer["watchman"]) for host, answer in told.items()}
        seen: dict[str, str] = {}
        for host, answer in told.items():
            for identity in answer["alone"]:
                other = seen.setdefault(json.dumps(identity), host)
                if other != host and len(identity) > 1 and self._share(other, host, identity[0]):
                    self.close()
                    raise EnvironmentProblem(
                        f"{other} and {host} share {identity[0]}, and each must have one of its own that a study may change",
                        "tune one of the hosts, and give the file to all",
                    )
        return told

    def _share(self, one: str, other: str, path: str) -> bool:
        """Whether two hosts have one and the same file, which looks alike on both: those made from one image have two."""
        crew = self._seated()
        seats = {seat.host.name: seat for seat in crew.seats}
        sign = {"path": path, "token": secrets.token_hex(8)}

        def asked(host: str, what: str) -> Answer:
            return self._checked(self._ask(crew, {"do": what, **sign}, PATIENCE, [seats[host]]))[host]

        marked = asked(one, "mark")["marked"]
        try:
            return not marked or bool(asked(other, "seen")["seen"])
        finally:
            asked(one, "unmark")

    def ask(self, request: Mapping[str, Any], limit: float = PATIENCE) -> dict[str, Answer]:
        """Each host's answer, by its name. Raises UsageError and EnvironmentProblem, and has then ended the programs."""
        assert self._crew is not None, "create comes first"
        return self._checked(self._ask(self._crew, request, limit))

    def try_together(self, request: Mapping[str, Any], limit: float) -> dict[str, Answer]:
        """Each host's last answer to ``request``, which all take up together: none goes on where one can't.

        A host that is gone answers by a failure, and the programs on all have been ended then.
        """
        assert self._crew is not None, "create comes first"
        crew = self._crew
        told = self._ask(crew, request, limit)
        ready = [seat for seat in crew.seats if "mounted" in told[seat.host.name]]
        if crew.alive:
            word = "read" if len(ready) == len(crew.seats) else "leave"
            told.update(self._ask(crew, {"do": word}, limit, ready))
        return {host: answer for host, answer in told.items() if "outcome" in answer}

    def close(self, limit: float = PATIENCE) -> None:
        """Puts every host right and ends the programs there. Raises EnvironmentProblem where a host says that it can't."""
        crew, self._crew = self._crew, None
        watchmen, self._watchmen = self._watchmen, {}
        if crew is None:
            return
        said = []
        if crew.alive and watchmen:
            for host, answer in self._ask(crew, {"do": "close"}, limit).items():
                if "closed" in answer:
                    del watchmen[host]
                elif not answer.get("gone") and "outcome" in answer:
                    said.append(joined.named(host, answer["outcome"]["reason"]))
        crew.close()
        self._wait_for(watchmen)
        if said:
            raise EnvironmentProblem("; ".join(said), f"tune doctor {self._kind.target}, on that host")

    def _seated(self) -> Crew[Seat]:
        """The programs on the hosts. Raises Unreachable."""
        if self._crew is None or not self._crew.alive:
            kind = seat_of(self._kind, LOADS[self._request["options"]["load"]])
            self._crew, self._watchmen = Crew([kind(host, self._launcher, self._python) for host in self.hosts]), {}
            self._crew.begin()
        return self._crew

    def _ask(
        self, crew: Crew[Seat], request: Mapping[str, Any], limit: float, seats: Sequence[Seat] | None = None
    ) -> dict[str, Answer]:
        """Each host's answer; of one that is gone a Failure, and the programs on all have been ended then."""

        def ask(seat: Seat) -> Answer:
            try:
                return seat.ask(request, limit)
            except HostFailure as problem:
                failure = problem.failure if problem.told else replace(problem.failure, kind="environment")
                mend = (problem.told or {}).get("mend", "")
                return {"outcome": asdict(failure), "failed": True, "gone": not problem.told, "mend": mend}

        asked = crew.seats if seats is None else seats
        found = dict(zip((seat.host.name for seat in asked), crew.everywhere(ask, asked), strict=True))
        if any(answer.get("gone") for answer in found.values()):
            self.close()
        return found

    def _checked(self, answers: dict[str, Answer]) -> dict[str, Answer]:
        for host, answer in answers.items():
            if usage := answer.get("usage"):
                self.close()
                raise UsageError(usage["option"], usage["value"], f"{usage['why']} (on {host})")
            if answer.get("failed"):
                self.close()
                raise EnvironmentProblem(joined.named(host, answer["outcome"]["reason"]), str(answer["mend"]))
        return answers

    def _wait_for(self, watchmen: Mapping[str, str]) -> None:
        """Until nobody is left on the hosts who still puts something right. A host that is gone does so by itself."""
        source = carry.source_of(marks) + _WAIT
        together = Together()

        def wait(host: Host) -> None:
            words = (self._python, "-c", source, watchmen[host.name], str(PATIENCE))
            with together.start(self._launcher, Job((Rank(host, words),), PATIENCE + _MORE)) as running:
                running.wait()

        together.each(wait, [host for host in self.hosts if host.name in watchmen])
