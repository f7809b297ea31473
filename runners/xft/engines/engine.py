"""What every engine speaks: a layout in, the times of requests and what the ranks really had out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from runners.launch.job import Rank
from runners.runner import Failure, Json, Problem
from runners.xft.goal import Request
from runners.xft.layout import Layout
from runners.xft.place import Place
from spaces.xft import Software

# What a rank told of itself (runners.xft.engines.live), as it came over the wire.
Report = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Run:
    """One measurement. ``reports`` are one a rank in order, empty where a program was not watched; ``digest`` are numbers
    that any layout of the same model must come to, () where the engine has none.
    """

    requests: tuple[Request, ...]
    reports: tuple[Report, ...]
    digest: tuple[float, ...] = ()
    evidence: Mapping[str, Json] = field(default_factory=dict)


class Engine(Protocol):
    """Starts ranks as a layout says. ``software`` decides which knobs do something; ``stand_in``: this is not xFT itself."""

    @property
    def name(self) -> str: ...

    @property
    def software(self) -> Software: ...

    @property
    def stand_in(self) -> bool: ...

    def notes(self) -> tuple[str, ...]:
        """What a reader of the figures must know, a sentence each."""

    def facts(self) -> Mapping[str, Json]:
        """What changes the meaning of a figure: versions, the type of weights, what is cut."""

    def check(self) -> list[Problem]:
        """What stands in the way on the hosts."""

    def refuses(self, layout: Layout) -> str:
        """Why the engine can't run a layout that fits the hosts, "" where it can."""

    def measure(self, layout: Layout, limit: float) -> Run | Failure:
        """Runs requests within ``limit`` seconds; nothing is left running but warm jobs."""

    def close(self) -> None: ...


def ranks_of(place: Place, layout: Layout, commands: Sequence[tuple[str, ...]], common: Mapping[str, str]) -> tuple[Rank, ...]:
    """The ranks of a job: each on its host with its CPUs and variables; ``common`` is what the engine itself needs."""
    hosts = {host.name: host for host in place.hosts}
    return tuple(
        Rank(hosts[rank.host], command, {**common, **rank.env}, tuple(rank.cpus))
        for rank, command in zip(layout.ranks, commands, strict=True)
    )
