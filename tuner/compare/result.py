"""What `tune compare` finds out, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import cast

from runners.opponent import Allowance, Pasted
from runners.runner import Json
from spaces.space import Config
from tuner.as_json import finite
from tuner.compare.standings import Standing


@dataclass(frozen=True, slots=True)
class Terms:
    """What each program of others may spend, and the rounds of the race; our search and strategies have the request's."""

    programs: Allowance
    rounds: int = 12


@dataclass(frozen=True, slots=True)
class Row:
    """One that took part. ``config`` is None where it came to no pick, ``mend`` set where it could not run here at all.

    ``promised`` are the figures that it chose by; ``measurements`` of our runner, from number ``first`` of the study.
    """

    name: str
    config: Config | None
    seconds: float
    bytes_written: int
    tried: int
    finished: bool
    note: str
    promised: Mapping[str, float] = field(default_factory=dict)
    printed: str = ""
    pasted: Pasted | None = None
    mend: str = ""
    first: int = 0
    measurements: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """What is known so far; ``standings`` by name, "baseline" and "… as printed" among them, are empty before the race."""

    study: str
    target: str
    engine: str
    metric: str
    unit: str
    baseline: Config
    rows: tuple[Row, ...]
    standings: Mapping[str, Standing] = field(default_factory=dict)
    rounds: int = 0
    machine: Mapping[str, Json] = field(default_factory=dict)


def as_printed(name: str) -> str:
    return f"{name} as printed"


def plain(result: Result) -> dict[str, Json]:
    """As JSON has it; infinite bounds, which it has no word for, are null."""
    return cast("dict[str, Json]", finite(asdict(result)))
