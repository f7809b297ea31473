"""`tune compare TARGET`: our search held against others, on this very machine."""

from __future__ import annotations

import dataclasses
import inspect
import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from tuner import targets
from tuner.cli import options
from tuner.cli.output import reporting
from tuner.cli.tuning import Events
from tuner.errors import TunerError, WrongUsage
from tuner.request import Request

_HELP = """Hold our search against others on this machine: each runs for real, then all picks race side by side.

Example: tune compare aio --against ds-nvme-tune,random --device /mnt/nvme --budget 10m
"""
# As in tuner.compare.opponents, which is too much to import for a help text.
STRATEGIES = ("random", "grid", "descent", "tpe", "gp")
_ONE = """Hold `tune {name}` against any of {programs}{strategies}.

--time and --max-write bound our search and each strategy over the same runner, --budget and --budget-write each program of
others. One that is stopped is shown with what it had.
"""


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(help=_HELP, no_args_is_help=True, rich_markup_mode=None)
    for name in targets.names():
        target = targets.load(name)
        own = target.opponents
        programs = "".join(f"{each}, " for each in own.OPPONENTS) if own is not None else ""
        told = _ONE.format(name=name, programs=programs, strategies=", ".join(STRATEGIES))
        group.command(name, help=told, short_help=f"Hold `tune {name}` against others.")(_command(target))
    app.add_typer(group, name="compare", short_help="Hold our search against others here.")


def _command(target: targets.Target) -> Any:
    own = target.opponents
    more_kind: type[Any] = own.OPTIONS if own is not None else _None

    def command(**given: Any) -> None:
        from tuner.compare.compare import chosen, compare
        from tuner.compare.report import markdown
        from tuner.compare.result import Result, plain
        from tuner.files import write_atomically
        from tuner.session import Ask

        narrow = {k.name: given[p] for k in target.space.knobs if given[p := options.knob_parameter(k)] is not None}
        ask = Ask(target, _pick(target.options, given), narrow, _pick(Request, given))
        against = chosen(target, given["against"])
        space = target.space.narrow(narrow)
        line = shlex.join(["tune", *sys.argv[1:]])
        output: Path | None = given["output"]
        _writable(output or Path.cwd() / "compare.md")

        def place(result: Result) -> Path:
            return output or Path.cwd() / f"compare-{result.study}.md"

        lost: list[TunerError] = []

        def keep(result: Result) -> None:
            lost.clear()
            try:
                write_atomically(place(result), markdown(result, space, line), backup=False)
            except TunerError as error:
                lost.append(error)  # no reason to give up what may take an hour: the study has it all too

        with reporting(as_json=given["as_json"], events=given["events"]) as reporter:
            result = compare(ask, against, _pick(more_kind, given), _terms(given), reporter, keep)
        if given["as_json"]:
            from tuner import as_json as json_form

            json_form.dump({**plain(result), "report": None if lost else str(place(result))})
        else:
            _show(result, space, None if lost else place(result))
        for error in lost:
            typer.echo(f"tune: the report is not kept: {error.message}", err=True)

    parameters = [
        *options.of_dataclass(target.options),
        *options.of_knobs(target.space),
        *options.of_dataclass(Request),
        *_PARAMETERS,
        *options.of_dataclass(more_kind),
        _parameter("as_json", options.AsJson, False),
        _parameter("events", Events, False),
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


@dataclasses.dataclass(frozen=True)
class _None:
    """The options of a target that has no opponents of its own."""


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


_PARAMETERS = [
    _parameter(
        "against",
        Annotated[
            Optional[str],  # noqa: UP045
            typer.Option(
                "--against", help="Whom to hold it against; by default programs, random, grid, tpe.", metavar="NAME,…"
            ),
        ],
        None,
    ),
    _parameter(
        "budget",
        Annotated[str, typer.Option("--budget", help="Time that each program of others may take.", metavar="DURATION")],
        "10m",
    ),
    _parameter(
        "budget_write",
        Annotated[str, typer.Option("--budget-write", help="Bytes that each program may write.", metavar="SIZE")],
        "64G",
    ),
    _parameter(
        "rounds",
        Annotated[int, typer.Option("--rounds", help="Rounds of the race.", min=5, max=200, metavar="N")],
        12,
    ),
    _parameter(
        "output",
        Annotated[
            Optional[Path],  # noqa: UP045
            typer.Option(
                "-o", "--output", help="Where the report is kept (compare-STUDY.md here by default).", metavar="FILE"
            ),
        ],
        None,
    ),
]


def _terms(given: dict[str, Any]) -> Any:
    from runners.opponent import Allowance
    from spaces.units import parse_duration, parse_size
    from tuner.compare.result import Terms

    values = []
    for name, parse in (("budget", parse_duration), ("budget_write", parse_size)):
        try:
            values.append(parse(given[name]))
        except ValueError as error:
            raise WrongUsage(f"--{name.replace('_', '-')} {given[name]}: {error}") from None
    return Terms(Allowance(float(values[0]), int(values[1])), given["rounds"])


def _writable(path: Path) -> None:
    """Said before minutes of measuring, not after them."""
    if path.is_dir():
        raise WrongUsage(f"--output {path}: is a folder", "name a file in it, like compare.md")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise WrongUsage(f"--output {path}: the folder is missing or not writable", "-o FILE names another place")


def _show(result: Any, space: Any, report: Path | None) -> None:
    from tuner import screen
    from tuner.compare import report as compare_report

    out = screen.console()
    rows = screen.table(*compare_report.TITLES)
    for cells in compare_report.table(result, space):
        rows.add_row(*map(screen.escape, cells))
    out.print()
    out.print(rows)
    out.print(f"\n[dim]true: {result.metric} in {result.unit}, {result.rounds} shuffled rounds, intervals in brackets[/]")
    for sentence in compare_report.sentences(result, space):
        out.print(screen.escape(sentence))
    out.print()
    if report is not None:
        out.print(f"the report is kept in {screen.escape(str(report))}")
    out.print(f"tune show {screen.escape(result.study)} --trials   [dim]every reading of our runner[/]")


def _pick(kind: type[Any], given: dict[str, Any]) -> Any:
    return kind(**{field.name: given[field.name] for field in dataclasses.fields(kind)})
