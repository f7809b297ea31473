"""`tune doctor | knobs`: what can run here, and what there is to tune."""

from __future__ import annotations

import dataclasses
import inspect
import shlex
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from runners.runner import Problem, UsageError
from tuner import targets
from tuner.cli import options
from tuner.errors import NotUsable

_DOCTOR = """Say what can run here, what is missing, and the one command that mends it.

Example: tune doctor aio --device DIR
"""


def add_to(app: typer.Typer) -> None:
    doctor = typer.Typer(
        help=_DOCTOR,
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    for name in targets.names():
        target = targets.load(name)
        doctor.command(name, help=f"Check this machine for `tune {name}`.")(_doctor(target))
    doctor.command("hosts", help="Check hosts that shall work together: logins, versions, clocks, networks, call-backs.")(
        hosts
    )
    app.add_typer(doctor, name="doctor", short_help="Say what can run here and what is missing.")
    app.command("knobs", short_help="Explain every knob of a target.")(knobs)


def hosts(
    given: Annotated[
        str,
        typer.Option(
            "--hosts", metavar="FILE|LIST", help="A hosts file, an Ansible inventory, or names like a,b:4; or Slurm's, PBS's."
        ),
    ] = "",
    python: Annotated[str, typer.Option(help="The Python that is started on the hosts.", metavar="PROGRAM")] = "python3",
    ssh: Annotated[str, typer.Option(help="The ssh command, with options that it needs.", metavar="COMMAND")] = "ssh",
    as_json: options.AsJson = False,
) -> None:
    from runners.hosts import hosts_for
    from runners.hosts_doctor import problems
    from runners.launch.direct import Ssh
    from runners.launch.reach import Reach
    from tuner.session import user_mistakes

    with user_mistakes():
        found = hosts_for(given)
        if found is None:
            raise UsageError("hosts", "''", "no host is named; give a hosts file, or names like a,b:4")
        words = _words(ssh)
        _tell(problems(found, Ssh(Reach(ssh=words, python=python)), python), "these hosts can work together", as_json=as_json)


def _words(command: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(command))
    except ValueError:
        raise UsageError("ssh", command, "a quote is not closed") from None
    if not words:
        raise UsageError("ssh", "''", "name a program, like ssh")
    return words


def _doctor(target: targets.Target) -> Any:
    def command(as_json: bool, **given: Any) -> None:
        from tuner.session import user_mistakes

        with user_mistakes():
            problems = target.doctor(target.options(**given))
        _tell(problems, f"`tune {target.name}` can run here", as_json=as_json)

    parameters = [
        *options.of_dataclass(target.options),
        inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=options.AsJson),
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


def _tell(problems: Sequence[Problem], ready: str, *, as_json: bool) -> None:
    """Prints problems, the worst first, and ends the command with an exit code where one is an error."""
    if as_json:
        from tuner import as_json as json_form

        json_form.dump({"problems": [dataclasses.asdict(problem) for problem in problems]})
    else:
        from tuner import screen

        out = screen.console()
        order = {"error": 0, "warning": 1, "note": 2}
        for problem in sorted(problems, key=lambda each: order[each.severity]):
            screen.show_problem(out, problem)
        if not any(problem.severity == "error" for problem in problems):
            out.print(f"[bold green]ready[/]   {ready}")
    if any(problem.severity == "error" for problem in problems):
        raise typer.Exit(NotUsable.exit_code)


def knobs(
    target: str = typer.Argument(metavar="TARGET", help="One of the targets, like aio."),
    as_json: options.AsJson = False,
) -> None:
    """Show every knob of a target: what is searched, the default, what it means, and where that is known from."""
    loaded = targets.load(target)
    if as_json:
        from tuner import as_json as json_form

        json_form.dump(
            {
                "target": target,
                "knobs": [
                    {
                        "name": knob.name,
                        "option": f"--{knob.option}",
                        "kind": knob.domain.kind,
                        "values": list(knob.domain.values),
                        "default": knob.default,
                        "unit": knob.unit,
                        "help": knob.help,
                        "source": knob.source,
                    }
                    for knob in loaded.space.knobs
                ],
            }
        )
        return
    from tuner import screen

    table = screen.table("knob", "option", "searched", "default", "known from", "meaning")
    for knob in loaded.space.knobs:
        row = (knob.name, f"--{knob.option}", options.searched(knob), knob.show(knob.default), knob.source, knob.help)
        table.add_row(*map(screen.escape, row))
    screen.console().print(table)
