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

DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Measure nothing: show one setting (pin knobs to a value), and the files for it.")
]
Events = Annotated[bool, typer.Option("--events", help="Print one JSON line an event on standard error.")]


def add_to(app: typer.Typer) -> None:
    for name in targets.names():
        target = targets.load(name)
        app.command(name, help=f"{target.summary}\n\nExample: {target.example}")(_command(target))


def _command(target: targets.Target) -> Any:
    def command(**given: Any) -> None:
        from tuner.session import Ask, start

        narrow = {k.name: given[p] for k in target.space.knobs if given[p := options.knob_parameter(k)] is not None}
        if given.get("dry_run"):
            _show_dry_run(target, _pick(target.options, given), narrow, as_json=given["as_json"])
            return
        ask = Ask(target, _pick(target.options, given), narrow, _pick(Request, given))
        with reporting(as_json=given["as_json"], events=given["events"]) as reporter:
            answer = start(ask, reporter)
        raise typer.Exit(show(answer, given["storage"], as_json=given["as_json"]))

    dry_run = [inspect.Parameter("dry_run", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=DryRun)]
    parameters = [
        *options.of_dataclass(target.options),
        *options.of_knobs(target.space),
        *(dry_run if target.preview is not None else []),
        *options.of_dataclass(Request, told=target.defaults),
        inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=options.AsJson),
        inspect.Parameter("events", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Events),
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _show_dry_run(target: targets.Target, chosen: Any, narrow: dict[str, str], *, as_json: bool) -> None:
    from tuner.dry_run import dry_run

    found = dry_run(target, chosen, narrow)
    if as_json:
        from tuner import as_json as json_form

        json_form.dump(found.json(target.name))
        return
    for line in found.lines:
        typer.echo(line, err=True)
    for name, text in found.files.items():
        typer.echo(f"\n==> {name} <==", err=True)
        typer.echo(text, nl=False)


def _pick(kind: type[Any], given: dict[str, Any]) -> Any:
    return kind(**{field.name: given[field.name] for field in dataclasses.fields(kind)})
