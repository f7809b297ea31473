"""`tune studies | show | resume | delete | verify | explain`: what is done with a study after it was started."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import random
import time
from typing import Annotated, Any

import typer

from tuner.cli import options
from tuner.cli.output import KEEP, reporting, show
from tuner.cli.tuning import Events
from tuner.errors import NoStudies
from tuner.request import Request

Name = Annotated[str, typer.Argument(metavar="STUDY", help="Name of a study, as `tune studies` prints it.")]
Anyway = Annotated[bool, typer.Option("--anyway", help="Go on although the machine or the space is another one.")]
Rounds = Annotated[int, typer.Option("--rounds", help="Interleaved rounds.", min=5, max=200, metavar="N")]


def add_to(app: typer.Typer) -> None:
    app.command("studies", short_help="List the studies.")(studies)
    app.command("show", short_help="Show an answer and its measurements.")(show_study)
    app.command("resume", help=_RESUME, short_help="Go on with a study.")(_resume())
    app.command("delete", short_help="Delete a study.")(delete)
    app.command("verify", short_help="Compare an answer with its baseline anew.")(verify)
    app.command("explain", short_help="Say what each knob is worth.")(explain)


def studies(storage: options.StorageOption = None, as_json: options.AsJson = False) -> None:
    """List the studies, newest first."""
    from tuner.database import default_storage
    from tuner.storage import Storage

    lines = []
    with contextlib.suppress(NoStudies), Storage(storage or default_storage(), reading=True) as opened:
        lines = opened.listing()
    if as_json:
        from tuner import as_json as json_form

        json_form.dump({"studies": [dataclasses.asdict(line) for line in lines]})
        return
    from tuner import screen

    table = screen.table("study", "target", "started", "measurements", "answer")
    for line in lines:
        started = time.strftime("%Y-%m-%d %H:%M", time.localtime(line.started))
        answer = {"adopt": "better setting proven", "keep": "keep the baseline"}.get(line.decision, "not finished")
        table.add_row(screen.escape(line.name), line.target, started, str(line.trials), answer)
    screen.console().print(table)


def show_study(
    study: Name,
    trials: Annotated[bool, typer.Option("--trials", help="List every measurement.")] = False,
    storage: options.StorageOption = None,
    as_json: options.AsJson = False,
) -> None:
    """Show a study's answer, and with --trials everything that was measured."""
    from tuner import followup, targets
    from tuner.database import default_storage, spelled
    from tuner.storage import Storage

    with Storage(storage or default_storage(), reading=True) as opened:
        record = opened.open(study)
        space = targets.load(record.header.target).space
        answer = record.recommendation()
        history = record.trials(space)
        confirmations = followup.confirmations(record)
    if as_json:
        from tuner import as_json as json_form

        whole: dict[str, Any] = {"study": study, "decision": None}
        if answer is not None:
            whole = json_form.recommendation(answer, {})
        if trials or answer is None:
            whole["measurements"] = [json_form.outcome(trial) for trial in history]
        json_form.dump(whole)
        return
    from tuner import screen

    out = screen.console()
    if trials or answer is None:
        screen.show_trials(out, history, space, record.header.objective)
    if answer is None:
        named = screen.escape(spelled(study, storage or default_storage()))
        out.print(f"{len(history)} measurements, no answer yet: tune resume {named}")
        return
    show(answer, storage, as_json=False)
    for line in confirmations:
        out.print(screen.escape(line))


_RESUME = """Go on with a study that was stopped, or search on with a larger --time, --trials or --max-write.

Example: tune resume aio-20260131-142501-3f2a --time 5m
"""


def _resume() -> Any:
    def command(study: str, as_json: bool, events: bool, anyway: bool, **given: Any) -> None:
        from tuner.session import resume

        override = Request(**given)
        with reporting(as_json=as_json, events=events) as reporter:
            answer = resume(study, override, reporter, anyway=anyway)
        raise typer.Exit(show(answer, override.storage, as_json=as_json))

    def parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)

    parameters = [
        parameter("study", Name),
        *options.of_dataclass(Request, only=("time", "trials", "max_write", "min_gain", "confidence", "storage")),
        parameter("anyway", Anyway, False),
        parameter("as_json", options.AsJson, False),
        parameter("events", Events, False),
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


def delete(
    study: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    storage: options.StorageOption = None,
) -> None:
    """Delete a study with all its measurements."""
    from tuner.database import default_storage
    from tuner.storage import Storage

    with Storage(storage or default_storage(), create=False) as opened:
        opened.open(study)
        if not yes and not typer.confirm(f"Delete study {study} and all its measurements?"):
            typer.echo("nothing was deleted", err=True)
            return
        opened.delete(study)
    typer.echo(f"deleted {study}", err=True)


def verify(
    study: Name,
    rounds: Rounds = 12,
    anyway: Anyway = False,
    storage: options.StorageOption = None,
    as_json: options.AsJson = False,
    events: Events = False,
) -> None:
    """Compare a study's recommendation with its baseline once more, interleaved, on fresh files."""
    from tuner import followup, session

    with session.reopened(study, storage, anyway=anyway) as (record, runner), reporting(as_json=as_json, events=events) as to:
        result = followup.verify(record, runner, rounds, to, random.Random())
    comparison = result.comparison
    proven = comparison.verdict == "better"
    if as_json:
        from tuner import as_json as json_form

        whole = {"study": study, "confirmed": proven, **dataclasses.asdict(comparison)}
        json_form.dump({**whole, "others": result.others, "others_missing": result.missing})
    else:
        from tuner import screen

        out = screen.console()
        mark = "[bold green]confirmed[/]" if proven else "[bold]not confirmed[/]"
        out.print(f"{mark}  the recommended setting {screen.escape(comparison.clause)}")
        for name, metrics in result.others.items():
            figures = ", ".join(f"{metric} {value:.3g}" for metric, value in metrics.items())
            out.print(f"[dim]an independent program, {name}: {figures}[/]")
        if result.missing:
            out.print(f"[dim]no independent check: {screen.escape(result.missing)}[/]")
    raise typer.Exit(0 if proven else KEEP)


def explain(
    study: Name,
    rounds: Rounds = 8,
    anyway: Anyway = False,
    storage: options.StorageOption = None,
    as_json: options.AsJson = False,
    events: Events = False,
) -> None:
    """Set each knob of the recommendation back alone, interleaved, and say what it was worth."""
    from tuner import followup, session

    with session.reopened(study, storage, anyway=anyway) as (record, runner), reporting(as_json=as_json, events=events) as to:
        found = followup.explain(record, runner, rounds, to, random.Random())
        space = runner.space
    if as_json:
        from tuner import as_json as json_form

        json_form.dump(
            {
                "study": study,
                "knobs": [
                    {
                        "knob": flip.knob,
                        "value": flip.value,
                        "baseline": flip.baseline,
                        **dataclasses.asdict(flip.comparison),
                    }
                    for flip in found
                ],
            }
        )
        return
    from tuner import screen

    table = screen.table("knob", "recommended", "set back to", "the recommended value")
    for flip in found:
        knob = space[flip.knob]
        table.add_row(knob.name, knob.show(flip.value), knob.show(flip.baseline), screen.escape(flip.comparison.clause))
    screen.console().print(table)
