"""Assembles the commands and turns every expected error into one sentence and an exit code."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from runners.runner import EnvironmentProblem, UsageError
from spaces.space import BadValue
from tuner.cli import exporting, following, looking, signals, tuning
from tuner.errors import Interrupted, NotUsable, TunerError, WrongUsage

_HELP = """Finds the settings that make this machine fast, proves it, and writes them down ready to use.

Start with `tune aio --device DIR`: DIR is a folder on the device, a few GB are written and removed again.

Exit codes: 0 better setting proven, 3 nothing beat the baseline (keep it), 2 wrong usage, 4 environment not usable,
5 budget too small, 130 interrupted (resumable).
"""


def build() -> typer.Typer:
    """The whole command line; targets come from discovery."""
    app = typer.Typer(
        name="tune",
        help=_HELP,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    tuning.add_to(app)
    following.add_to(app)
    looking.add_to(app)
    exporting.add_to(app)
    return app


def run(arguments: Sequence[str]) -> int:
    """Runs one command and returns its exit code; nothing that a user can cause ends in a traceback."""
    signals.install()
    as_json = "--json" in arguments
    try:
        command = typer.main.get_command(build())
        result = command.main(args=list(arguments), prog_name="tune", standalone_mode=False)
    except (TunerError, BadValue, UsageError, EnvironmentProblem) as error:
        return _tell(_as_tuner_error(error), as_json)
    except (KeyboardInterrupt, typer.Abort):
        return _tell(Interrupted("stopped before anything was measured"), as_json)
    except BrokenPipeError:
        # The reader of a pipe went away (`tune knobs aio | head`): nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except typer.Exit as error:
        return int(error.exit_code)
    except Exception as error:
        return _tell(_usage(error) if hasattr(error, "format_message") else _bug(error), as_json)
    return int(result or 0)


def _as_tuner_error(error: Exception) -> TunerError:
    if isinstance(error, TunerError):
        return error
    if isinstance(error, EnvironmentProblem):
        return NotUsable(error.message, error.mend)
    return WrongUsage(str(error))


def _usage(error: Any) -> WrongUsage:
    """What Typer found wrong with the words of the command."""
    context = getattr(error, "ctx", None)
    where = f"`{context.command_path} --help` shows how" if context is not None else "`tune --help` shows how"
    return WrongUsage(str(error.format_message()).rstrip("."), where)


def _bug(error: Exception) -> TunerError:
    """A mistake of ours: the user gets a sentence and where to find the rest of it."""
    where = Path(tempfile.gettempdir()) / f"clustertune-{os.getpid()}.log"
    try:
        where.write_text("".join(traceback.format_exception(error)))
    except OSError:
        traceback.print_exception(error)
    kept = f"what happened is in {where}; please report it"
    return TunerError(f"a mistake in clustertune itself ({type(error).__name__}: {error})", kept)


def _tell(error: TunerError, as_json: bool) -> int:
    if as_json:
        from tuner import as_json as json_form

        json_form.dump(json_form.error(error))
    else:
        typer.echo(f"tune: {error.message.rstrip('.')}", err=True)
        if error.mend:
            typer.echo(f"      {error.mend}", err=True)
    return error.exit_code
