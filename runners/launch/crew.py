"""A seat on each of several hosts, asked all at the same time; closed, they have left nothing on any of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from runners.hosts.host import Host
from runners.launch.seat import HostFailure, Seat
from runners.runner import EnvironmentProblem, Problem

T = TypeVar("T")
S = TypeVar("S", bound=Seat)

# Threads, one a host: a word must reach all of them at once.
_AT_ONCE = 4096


class Unreachable(EnvironmentProblem):
    """Hosts that can't be used, a problem each."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = list(problems)
        more = f" (and {len(self.problems) - 1} more of the hosts can't be used)" if len(self.problems) > 1 else ""
        super().__init__(f"{self.problems[0].message}{more}", self.problems[0].mend)


class Crew(Generic[S]):
    """``seats`` in the order of the hosts."""

    def __init__(self, seats: Sequence[S]) -> None:
        self.seats = list(seats)
        self.alive = True
        self._pool = ThreadPoolExecutor(min(_AT_ONCE, len(self.seats)), "hosts")

    def begin(self) -> None:
        """Starts the programs on all hosts. Raises Unreachable with a problem for every host that can't be used."""
        found = [problem for problem in self.everywhere(lambda seat: seat.begin()) if problem is not None]
        if found:
            self.close()
            raise Unreachable(found)

    @property
    def hosts(self) -> tuple[Host, ...]:
        return tuple(seat.host for seat in self.seats)

    def everywhere(self, act: Callable[[S], T], seats: Sequence[S] | None = None) -> list[T]:
        """What ``act`` gives for every host, all at the same time; the first that raises ends the work on all hosts."""
        futures = [self._pool.submit(act, seat) for seat in (self.seats if seats is None else seats)]
        try:
            return [future.result() for future in futures]
        except HostFailure as problem:
            self.close()
            raise EnvironmentProblem(problem.failure.reason) from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends the programs on all hosts, each by its keeper there; returns when that is proven or given up."""
        if not self.alive:
            return
        self.alive = False
        with ThreadPoolExecutor(min(_AT_ONCE, len(self.seats)), "ending") as pool:
            list(pool.map(lambda seat: seat.stop(), self.seats))
        self._pool.shutdown(wait=True)
