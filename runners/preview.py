"""What a target can say without measuring, and without touching hosts that are not there: for `tune TARGET --dry-run`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from runners.runner import Json
from spaces.space import Config, Space


@dataclass(frozen=True)
class Preview:
    """``space`` has the rules of the machine that was described; ``machine`` is what a study there would keep of it.

    ``notes`` tell of the machine, ``described`` of a setting on it: lines of text.
    """

    engine: str
    space: Space
    machine: Mapping[str, Json]
    notes: tuple[str, ...]
    described: Callable[[Config], list[str]]
