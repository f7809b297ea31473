"""`tune export | lint`: the files of users, written and checked."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from tuner import targets
from tuner.cli import options
from tuner.errors import WrongUsage

_EXPORT = """Write a study's recommendation as a file that works as it is, or merge it into yours.

Example: tune export aio-20260131-142501-3f2a --into ds_config.json --diff
Back again: tune export --rollback ds_config.json
"""
_LINT = """Find settings in an existing file that are dead, misspelt or harmful; exit code 1 when there are any.

Example: tune lint ds_config.json --fix
"""
FINDINGS = 1  # exit code of lint


def add_to(app: typer.Typer) -> None:
    extra, names = _file_options()
    app.command("export", help=_EXPORT, short_help="Write or merge the recommended file.")(
        _signed(_export, _EXPORT_PARAMETERS + extra, names)
    )
    app.command("lint", help=_LINT, short_help="Check a settings file that you have.")(
        _signed(_lint, _LINT_PARAMETERS + extra, names)
    )


def _file_options() -> tuple[list[inspect.Parameter], list[str]]:
    """What the targets' exporters want to know about a file, each option once."""
    found: dict[str, inspect.Parameter] = {}
    for name in targets.names():
        for parameter in options.of_dataclass(targets.load(name).exporter.FILE_OPTIONS):
            found.setdefault(parameter.name, parameter)
    return list(found.values()), list(found)


def refuse_foreign(target: str, given: Mapping[str, object]) -> None:
    """Options of other targets' files would do nothing, in silence. Raises WrongUsage."""
    known = {
        f"--{parameter.name.replace('_', '-')}"
        for parameter in options.of_dataclass(targets.load(target).exporter.FILE_OPTIONS)
    }
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        if value not in (None, False) and option not in known:
            shown = option if value is True else f"{option} {value}"
            raise WrongUsage(
                f"{shown}: changes nothing in the files of {target}, the study's target; leave it out",
                f"what does: {', '.join(sorted(known))}" if known else "",
            )


def _signed(function: Any, parameters: list[inspect.Parameter], extra: list[str]) -> Any:
    def command(**given: Any) -> None:
        asked = {name: given.pop(name) for name in extra}
        function(options={name: value for name, value in asked.items() if value is not None}, **given)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


def _parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


_EXPORT_PARAMETERS = [
    _parameter("study", Annotated[Optional[str], typer.Argument(metavar="STUDY", help="Name of a finished study.")], None),  # noqa: UP045
    _parameter("format", Annotated[Optional[str], typer.Option("--format", help="Which of the target's formats.")], None),  # noqa: UP045
    _parameter(
        "output",
        Annotated[Optional[Path], typer.Option("-o", "--output", help="Write it to this file or folder.")],  # noqa: UP045
        None,
    ),
    _parameter(
        "into",
        Annotated[Optional[Path], typer.Option("--into", help="Merge it into this file of yours; a backup is kept.")],  # noqa: UP045
        None,
    ),
    _parameter(
        "rollback",
        Annotated[Optional[Path], typer.Option("--rollback", help="Put back what this file was; again undoes it. No STUDY.")],  # noqa: UP045
        None,
    ),
    _parameter("diff", Annotated[bool, typer.Option("--diff", help="Show what would change and write nothing.")], False),
    _parameter("storage", options.StorageOption, None),
    _parameter("as_json", options.AsJson, False),
]
_LINT_PARAMETERS = [
    _parameter("file", Annotated[Path, typer.Argument(metavar="FILE", help="The file to check.")]),
    _parameter("fix", Annotated[bool, typer.Option("--fix", help="Apply the safe mends; a backup is kept.")], False),
    _parameter(
        "target",
        Annotated[Optional[str], typer.Option("--target", help="Whose settings the file holds, where it isn't plain.")],  # noqa: UP045
        None,
    ),
    _parameter("as_json", options.AsJson, False),
]


def _export(
    *,
    study: str | None,
    format: str | None,
    output: Path | None,
    into: Path | None,
    rollback: Path | None,
    diff: bool,
    storage: str | None,
    as_json: bool,
    options: dict[str, Any],
) -> None:
    from tuner.database import default_storage
    from tuner.export import export
    from tuner.followup import finished
    from tuner.storage import Storage

    if rollback is not None:
        if study is not None or format is not None or output is not None or into is not None:
            raise WrongUsage("--rollback FILE goes alone: it needs no study and writes no other file")
        _roll_back(rollback, diff=diff, as_json=as_json)
        return
    if study is None:
        raise WrongUsage("the name of a study is missing", "`tune studies` lists them; --rollback FILE needs none")
    if format is not None and into is not None:
        raise WrongUsage("--format and --into can't be used together: the file to merge into has its own format")
    with Storage(storage or default_storage(), reading=True) as opened:
        answer = finished(opened.open(study))
    refuse_foreign(answer.target, options)
    result = export(answer, format, output, into, diff, options)
    if as_json:
        from tuner import as_json as json_form

        json_form.dump(
            {
                "study": study,
                "decision": answer.decision,
                "files": dict(result.texts),
                "written": [str(path) for path in result.written],
                "backups": [str(path) for path in result.backups],
                "diff": result.diff,
                "notes": list(result.notes),
            }
        )
        return
    if answer.decision == "keep":
        typer.echo("note: nothing beat the baseline in this study; this is the baseline itself", err=True)
    for note in result.notes:
        typer.echo(f"note: {note}", err=True)
    if diff:
        typer.echo(result.diff or "nothing would change", nl=not result.diff)
    elif result.written:
        for path in result.written:
            typer.echo(f"wrote {path}", err=True)
        for path in result.backups:
            typer.echo(f"the old file is kept as {path}", err=True)
    elif into is not None:
        typer.echo(f"{into} has these settings already", err=True)
    else:
        for text in result.texts.values():
            typer.echo(text, nl=False)


def _roll_back(path: Path, *, diff: bool, as_json: bool) -> None:
    from tuner.export import rolled_back

    result = rolled_back(path, diff)
    if as_json:
        from tuner import as_json as json_form

        whole = {"files": dict(result.texts), "written": [str(path) for path in result.written]}
        json_form.dump({**whole, "backups": [str(path) for path in result.backups], "diff": result.diff})
    elif diff:
        typer.echo(result.diff or "nothing would change", nl=not result.diff)
    else:
        typer.echo(f"{path} is what it was before the last export", err=True)
        typer.echo(f"what stood there is kept as {result.backups[0]}", err=True)


def _lint(*, file: Path, fix: bool, target: str | None, as_json: bool, options: dict[str, Any]) -> None:
    from tuner.lint import fix_file, lint_file

    result = fix_file(file, options, target) if fix else lint_file(file, options, target)
    left = getattr(result, "left", result.findings)
    if as_json:
        from tuner import as_json as json_form

        json_form.dump(dict(result.json()))
    else:
        _show_findings(file, result.findings, left, fixed=fix)
        backup = getattr(result, "backup", None)
        if backup is not None:
            typer.echo(f"mended {file}; the old file is kept as {backup}", err=True)
    raise typer.Exit(FINDINGS if left else 0)


def _show_findings(file: Path, findings: Any, left: Any, *, fixed: bool) -> None:
    from tuner import screen

    out = screen.console()
    for finding in left if fixed else findings:
        key = f" {screen.escape(finding.key)}" if finding.key else ""
        out.print(f"[bold]{screen.escape(f'{file}:{finding.line}')}[/]{key}")
        out.print(f"  {screen.escape(finding.message)}")
        out.print(f"  [dim]{screen.escape(finding.mend)}[/]{' [green](--fix does this)[/]' if finding.safe else ''}")
    if not findings:
        out.print(f"{screen.escape(str(file))}: nothing to mend")
    elif fixed and not left:
        out.print(f"{screen.escape(str(file))}: everything mended")
