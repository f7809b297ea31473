"""A job's ranks on several hosts: started together by clocks that are compared first, watched, and ended everywhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TypeVar, cast

from runners.hosts.host import Host
from runners.launch import crew
from runners.launch.job import Launcher
from runners.launch.seat import HostFailure
from runners.runner import Json
from runners.tcpstore import figures, shares
from runners.tcpstore.broken import port_taken
from runners.tcpstore.figures import Part, Start
from runners.tcpstore.job import Job
from runners.tcpstore.seat import Seat
from runners.worker import Reply

_T = TypeVar("_T")
_TRIES = 3
# Ranks begin so many seconds after the word for it was sent: it must be everywhere by then.
_AHEAD, _AHEAD_A_HOST = 0.03, 0.001
_PATIENCE, _LATE = 0.25, 20.0
# Clocks that were compared longer ago are compared again.
_SOON = 1.0


class Crew(crew.Crew[Seat]):
    """A worker on each host, the first of which is rank 0's. Closed, it has left nothing on any of them."""

    @classmethod
    def connect(cls, hosts: Sequence[Host], launcher: Launcher, python: str) -> Crew:
        """Workers on all hosts. Raises Unreachable with a problem for every host that can't be used."""
        made = cls([Seat(host, launcher, python) for host in hosts])
        made.begin()
        return made

    @property
    def head(self) -> Seat:
        """Rank 0's host."""
        return self.seats[0]

    def load(self) -> Mapping[str, Json]:
        """Loads torch everywhere; by name, what one of the hosts can't do and why. Raises EnvironmentProblem."""
        self.everywhere(lambda seat: seat.load())
        can: dict[str, Json] = dict(self.head.can)
        for seat in self.seats[1:]:
            if seat.can.get("store_barrier"):
                can["store_barrier"] = f"{seat.host.name}: {seat.can['store_barrier']}"
        return can

    def measure(self, job: Job, processes: Sequence[int], backlog: int) -> Reply | HostFailure:
        """Some starts of ``job``; ``processes`` are each host's at most. A failure of a host ends the crew, if it was of the
        host itself and not of what runs there.
        """
        parts: list[Start] = []
        servers: list[Json] = []
        operations: Json = None
        begun = time.monotonic()
        tries = 0
        while not parts or (len(parts) < job.rounds and time.monotonic() - begun < job.enough):
            found = self._round(job, processes, backlog)
            if isinstance(found, HostFailure):
                tries += 1
                if found.told and not job.port and port_taken(found.failure.log) and tries < _TRIES:
                    continue
                return found
            parts.append(found[0])
            servers.append(found[1].server)
            operations = cast("Json", found[2].operations)
        return {"starts": cast("list[Json]", [asdict(each) for each in parts]), "servers": servers, "operations": operations}

    def _round(self, job: Job, processes: Sequence[int], backlog: int) -> tuple[Start, Part, Part] | HostFailure:
        """One start, the part of rank 0's host and that of the last rank's; or why there was none."""
        found = self._try(lambda seat: seat.set_clock(), job)
        if isinstance(found, HostFailure):
            return found
        placed = shares.spread(self.hosts, job.clients)
        jobs = {
            seat: replace(job, first=share.first, count=share.count, processes=count)
            for seat, share, count in zip(self.seats, placed, processes, strict=True)
        }

        def prepare(seat: Seat) -> int:
            request = {"do": "prepare", "job": jobs[seat].json(), "backlog": backlog if seat is self.head else 0}
            return int(seat.ask(request, job.timeout + _LATE)["port"])

        # Rank 0's host first: where no port was asked for, it finds a free one, which the others must know.
        ports = self._try(prepare, job, [self.head])
        if isinstance(ports, HostFailure):
            return ports
        for seat in self.seats[1:]:
            jobs[seat] = replace(jobs[seat], port=ports[0])
        ready = self._try(prepare, job, self.seats[1:])
        if isinstance(ready, HostFailure):
            return ready
        if job.start == "server_first":
            served = self._try(lambda seat: seat.ask({"do": "serve"}, job.timeout + _LATE), job, [self.head])
            if isinstance(served, HostFailure):
                return served
        return self._together(job)

    def _together(self, job: Job) -> tuple[Start, Part, Part] | HostFailure:
        now = time.monotonic()
        slowest = max(seat.clock.unsure(now) for seat in self.seats)
        at = now + _AHEAD + _AHEAD_A_HOST * len(self.seats) + 4 * slowest
        released = self._try(lambda seat: seat.ask({"do": "go", "at": at + seat.clock.ahead(at)}), job)
        if isinstance(released, HostFailure):
            return released
        parts: dict[Seat, Part] = {}
        patience = _PATIENCE
        while waiting := [seat for seat in self.seats if seat not in parts]:
            request = {"do": "poll", "patience": patience}
            found = self._try(lambda seat: seat.ask(request)["part"], job, waiting)  # noqa: B023  used in this turn only
            if isinstance(found, HostFailure):
                return found
            parts |= {seat: Part.of(part) for seat, part in zip(waiting, found, strict=True) if part is not None}
            patience = min(1.0, 1.5 * patience)
        if time.monotonic() > at + _SOON:
            again = self._try(lambda seat: seat.set_clock(), job)
            if isinstance(again, HostFailure):
                return again
        now = time.monotonic()
        unsure = sorted((seat.clock.unsure(now) for seat in self.seats), reverse=True)
        moved = [parts[seat].shifted(-seat.clock.ahead(now)) for seat in self.seats]
        ended = self._try(lambda seat: seat.ask({"do": "end"}), job)
        if isinstance(ended, HostFailure):
            return ended
        return figures.start(moved, sum(unsure[:2])), moved[0], moved[-1]

    def _try(self, act: Callable[[Seat], _T], job: Job, seats: Sequence[Seat] | None = None) -> list[_T] | HostFailure:
        """As ``everywhere``, but a failure is a value: all hosts are heard before it is said which of theirs is the cause, and
        the ranks on all of them are ended.
        """

        def one(seat: Seat) -> _T | HostFailure:
            try:
                return act(seat)
            except HostFailure as problem:
                return problem

        found = self.everywhere(one, seats)
        failures = [each for each in found if isinstance(each, HostFailure)]
        if not failures:
            return cast("list[_T]", found)
        lost = next((each for each in failures if each.told is None), None)
        if lost is not None:
            self.close()
            return lost
        failures += self._others([each.host for each in failures])
        self._try(lambda seat: seat.ask({"do": "end"}, job.timeout + _LATE), job)
        return min(failures, key=_rank_of_cause)

    def _others(self, failed: Sequence[Host]) -> list[HostFailure]:
        """What the hosts say that have said nothing so far: the cause may be a moment behind its first consequence."""

        def ask(seat: Seat) -> HostFailure | None:
            try:
                seat.ask({"do": "poll", "patience": 2 * _PATIENCE})
            except HostFailure as problem:
                return problem if problem.told is not None else None
            except (KeyError, ValueError):
                return None
            return None

        found = self.everywhere(ask, [seat for seat in self.seats if seat.host not in failed])
        return [each for each in found if each is not None]


def _rank_of_cause(problem: HostFailure) -> tuple[bool, bool]:
    told = problem.told or {}
    return (not told.get("gone"), told.get("kind") != "wrong")
