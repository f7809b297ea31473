"""What can be tuned here, found by name: a module of that name in spaces, runners and tuner.exporters, or an entry point."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, cast

import runners
import spaces
import tuner.exporters
from runners.preview import Preview
from runners.runner import Problem, Runner
from spaces.space import Space
from tuner.errors import WrongUsage

# A package of somebody else's names itself here and holds the modules space, runner and exporter.
ENTRY_POINTS = "clustertune.targets"


@dataclass(frozen=True, slots=True)
class Target:
    """One target's three parts. ``options`` is the dataclass of its runner's options, ``defaults`` its usual budget.

    ``preview``: what it can tell without measuring (`--dry-run`), None where that is nothing.
    """

    name: str
    summary: str
    example: str
    space: Space
    options: type[Any]
    defaults: Mapping[str, str]
    create: Callable[[Any, Space], Runner]
    doctor: Callable[[Any], list[Problem]]
    _exporter: str
    _opponents: str = ""
    preview: Callable[[Any, Space], Preview] | None = None

    @property
    def opponents(self) -> ModuleType | None:
        """The module with other people's tools for this target (runners.opponent), None where it has none."""
        try:
            found = importlib.util.find_spec(self._opponents) if self._opponents else None
        except ModuleNotFoundError:  # the runner is a single file
            return None
        return importlib.import_module(self._opponents) if found else None

    @property
    def exporter(self) -> ModuleType:
        """The module that renders, merges, reads and lints this target's files; imported when asked for."""
        return importlib.import_module(self._exporter)


def names() -> list[str]:
    """Every target's name; nothing of the targets is imported to find them."""
    return sorted({*_own(), *_third_party()})


def load(name: str) -> Target:
    """The target of that name; raises WrongUsage with the names there are."""
    if name in _own():
        space_module, runner_module = f"spaces.{name}", f"runners.{name}"
        exporter, opponents = f"tuner.exporters.{name}", f"runners.{name}.opponents"
    elif name in (others := _third_party()):
        package = others[name]
        space_module, runner_module, exporter = f"{package}.space", f"{package}.runner", f"{package}.exporter"
        opponents = f"{package}.opponents"
    else:
        raise WrongUsage(f"there is no target {name!r}", f"the targets are: {', '.join(names())}")
    what, how = importlib.import_module(space_module), importlib.import_module(runner_module)
    return Target(
        name,
        cast(str, what.SUMMARY),
        cast(str, how.EXAMPLE),
        cast(Space, what.SPACE),
        cast("type[Any]", how.OPTIONS),
        cast("Mapping[str, str]", how.DEFAULTS),
        how.create,
        how.doctor,
        exporter,
        opponents,
        getattr(how, "preview", None),
    )


def _own() -> set[str]:
    inside = (_modules(spaces), _modules(runners), _modules(tuner.exporters))
    return set.intersection(*inside)


def _modules(package: ModuleType) -> set[str]:
    return {module.name for module in pkgutil.iter_modules(package.__path__)}


def _third_party() -> dict[str, str]:
    return {point.name: point.value for point in importlib.metadata.entry_points(group=ENTRY_POINTS)}
