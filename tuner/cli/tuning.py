"""`tune TARGET`: one command for each discovered target, its options made from the target's knobs and dataclasses."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Annotated, Any

import typer

from tuner import targets
from tuner.cli import options
from tuner.cli.output import reporting, show
from tuner.request import Request

Events = Annotated[bool, typer.Option("--events", help="Print one JSON line an event on standard error.")]


def add_to(app: typer.Typer) -> None:
    for name in targets.names():
        target = targets.load(name)
        app.command(name, help=f"{target.summary}\n\nExample: {target.example}")(_command(target))


def _command(target: targets.Target) -> Any:
    def command(**given: Any) -> None:
        from tuner.session import Ask, start

        narrow = {k.name: given[p] for k in target.space.knobs if given[p := options.knob_parameter(k)] is not None}
        ask = Ask(target, _pick(target.options, given), narrow, _pick(Request, given))
        with reporting(as_json=given["as_json"], events=given["events"]) as reporter:
            answer = start(ask, reporter)
        raise typer.Exit(show(answer, given["storage"], as_json=given["as_json"]))

    parameters = [
        *options.of_dataclass(target.options),
        *options.of_knobs(target.space),
        *options.of_dataclass(Request, told=target.defaults),
        inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=options.AsJson),
        inspect.Parameter("events", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Events),
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _pick(kind: type[Any], given: dict[str, Any]) -> Any:
    return kind(**{field.name: given[field.name] for field in dataclasses.fields(kind)})
