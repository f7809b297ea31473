"""Assembles the commands and turns every expected error into one sentence and an exit code."""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from runners.runner import EnvironmentProblem, UsageError
from spaces.space import BadValue
from tuner.cli import comparing, exporting, following, looking, mlperf, signals, tuning, words
from tuner.errors import Interrupted, NotUsable, TunerError, WrongUsage

_HELP = """Finds the settings that make this machine fast, proves it, and writes them down ready to use.

Start with `tune aio --device DIR`: DIR is a folder on the device, a few GB are written and removed again.

Exit codes: 0 better setting proven, 3 nothing beat the baseline (keep it), 2 wrong usage, 4 environment not usable,
5 budget too small, 130 interrupted (resumable).
"""


_LONGEST = 1000
_STOPPED = Interrupted("stopped before anything was measured")


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
    app.callback()(_main)
    tuning.add_to(app)
    following.add_to(app)
    comparing.add_to(app)
    looking.add_to(app)
    exporting.add_to(app)
    mlperf.add_to(app)
    return app


def _never_fail_to_print() -> None:
    """File names and keys may hold what the terminal's encoding has no sign for."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"tune (clustertune) {importlib.metadata.version('clustertune')}")
        raise typer.Exit


def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    pass


def run(arguments: Sequence[str]) -> int:
    """Runs one command and returns its exit code; nothing that a user can cause ends in a traceback."""
    _never_fail_to_print()
    as_json = "--json" in arguments
    try:
        words.refuse_empty(arguments)
        words.refuse_missing_folders(arguments)
        command = typer.main.get_command(build())
        result = command.main(args=list(arguments), prog_name="tune", standalone_mode=False)
        if result == _STOPPED.exit_code:  # Typer sees some interrupts itself, and makes a number of them
            return _tell(_STOPPED, as_json)
    except (TunerError, BadValue, UsageError, EnvironmentProblem) as error:
        return _tell(_as_tuner_error(error), as_json)
    except (KeyboardInterrupt, typer.Abort):
        return _tell(_STOPPED, as_json)
    except BrokenPipeError:
        # The reader of a pipe went away (`tune knobs aio | head`): nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except typer.Exit as error:
        # Typer turns an interrupt that it sees itself into this.
        return _tell(_STOPPED, as_json) if error.exit_code == _STOPPED.exit_code else int(error.exit_code)
    except OSError as error:
        return _tell(NotUsable(f"the operating system refuses: {error.strerror or error}"), as_json)
    except Exception as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(error.format_message())  # type: ignore[attr-defined]
            return WrongUsage.exit_code
        return _tell(words.usage(error, arguments) if hasattr(error, "format_message") else _bug(error), as_json)
    return int(result or 0)


def _as_tuner_error(error: Exception) -> TunerError:
    if isinstance(error, TunerError):
        return error
    if isinstance(error, EnvironmentProblem):
        return NotUsable(error.message, error.mend)
    return WrongUsage(str(error))


def _bug(error: Exception) -> TunerError:
    """A mistake of ours: the user gets a sentence and where to find the rest of it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, KeyboardInterrupt):
            return _STOPPED  # it came in the middle of something that wrapped it
        cause = cause.__cause__ or cause.__context__
    where = Path(tempfile.gettempdir()) / f"clustertune-{os.getpid()}.log"
    try:
        where.write_text("".join(traceback.format_exception(error)))
    except OSError:
        traceback.print_exception(error)
    kept = f"what happened is in {where}; please report it"
    return TunerError(f"a mistake in clustertune itself ({type(error).__name__}: {error})", kept)


def _tell(error: TunerError, as_json: bool) -> int:
    if isinstance(error, Interrupted):
        signals.finish()
    # Nobody may be left to hear it: a closed or full output changes nothing about how the run ended.
    with contextlib.suppress(OSError):
        if as_json:
            from tuner import as_json as json_form

            json_form.dump(json_form.error(error))
        else:
            typer.echo(f"tune: {_one_line(error.message).rstrip('.')}", err=True)
            if error.mend:
                typer.echo(f"      {_one_line(error.mend)}", err=True)
    return error.exit_code


def _one_line(text: str) -> str:
    """One line of readable length, whatever a user or a file put into it."""
    line = "".join(c if c.isprintable() else "?" for c in text)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 40]} … {line[-30:]}"
