"""Turns dataclass fields and knobs into command-line parameters."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from spaces.space import Knob, Space

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
StorageOption = Annotated[
    typing.Optional[str],  # noqa: UP045  Typer reads this at run time on Python 3.10 too
    typer.Option("--storage", help="SQLite file or database URL that keeps the studies.", metavar="WHERE"),
]


def of_dataclass(
    kind: type[Any], only: Iterable[str] | None = None, told: Mapping[str, object] | None = None
) -> list[inspect.Parameter]:
    """A keyword parameter for each field, with the help and metavar of its metadata (runners.options.option).

    ``told`` are defaults that apply where the field's own is None.
    """
    hints = typing.get_type_hints(kind)
    parameters = []
    for field in dataclasses.fields(kind):
        if only is not None and field.name not in set(only):
            continue
        if field.default is not dataclasses.MISSING:
            default = field.default
        elif field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        else:
            default = inspect.Parameter.empty
        option = typer.Option(
            f"--{field.name.replace('_', '-')}",
            help=" ".join(filter(None, (field.metadata.get("help", ""), _told(field.name, told or {})))),
            metavar=field.metadata.get("metavar") or None,
        )
        parameters.append(_parameter(field.name, hints[field.name], option, default))
    return parameters


def _told(name: str, told: Mapping[str, object]) -> str:
    return f"Default {told[name]}." if name in told else ""


def of_knobs(space: Space) -> list[inspect.Parameter]:
    """An option a knob, taking a list, a range or one value as text."""
    parameters = []
    for knob in space.knobs:
        option = typer.Option(
            f"--{knob.option}",
            help=f"{knob.help} Searched: {searched(knob)}; default {knob.show(knob.default)}.",
            metavar="LIST|LOW:HIGH|VALUE",
        )
        parameters.append(_parameter(knob_parameter(knob), typing.Optional[str], option, None))  # noqa: UP045
    return parameters


def knob_parameter(knob: Knob) -> str:
    """The parameter name of a knob's option: apart from those of the runner's options."""
    return f"knob_{knob.name}"


def searched(knob: Knob) -> str:
    values = knob.domain.values
    if knob.domain.ordinal and len(values) > 3:
        return f"{knob.show(values[0])} to {knob.show(values[-1])}"
    return ", ".join(knob.show(value) for value in values)


def _parameter(name: str, kind: Any, option: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option])
