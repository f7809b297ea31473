"""The words of a command: what is wrong with them before any part of ours sees a value."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tuner.errors import WrongUsage

_WRITTEN = ("-o", "--output", "--storage")


def refuse_empty(arguments: Sequence[str]) -> None:
    """An empty word is a shell variable that nobody set: never what its option's default stands for."""
    for option, value in _given(arguments):
        if value == "" and option.startswith("--") and "=" not in option:
            raise WrongUsage(f"{option} '': the value is empty.", "give one, or leave the option out for its default")


def refuse_missing_folders(arguments: Sequence[str]) -> None:
    """``-o DIR/`` says that DIR is a folder, and a path forgets the last stroke: no file may come of it by that name."""
    for option, value in _given(arguments):
        if option in _WRITTEN and value.endswith("/") and not Path(value).is_dir():
            raise WrongUsage(f"{option} {value}: there is no such folder", f"mkdir -p {shlex.quote(value)}")


def usage(error: Any, arguments: Sequence[str]) -> WrongUsage:
    """What Typer found wrong with the words of the command; it leaves out the value of a number that is none."""
    context = getattr(error, "ctx", None)
    where = f"`{context.command_path} --help` shows how" if context is not None else "`tune --help` shows how"
    message = str(error.format_message()).replace("Value error, ", "").rstrip(".")
    for option in getattr(getattr(error, "param", None), "opts", ()):
        given = [value for name, value in _given(arguments) if name == option]
        if given and given[-1] not in message:
            return WrongUsage(f"{option} {given[-1]}: {_wanted(message)}", where)
    return WrongUsage(message, where)


def _given(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each word with the one before it, which may be its option, and the two halves of one like --time=1m; in their order."""
    for before, word in itertools.pairwise(("", *arguments)):
        yield before, word
        option, equals, value = word.partition("=")
        if equals:
            yield option, value


def _wanted(message: str) -> str:
    """What a value must be, from Typer's "Invalid value for …: Input should be a valid integer, unable to …"."""
    wanted = message.rpartition("Input should be ")[2].partition(",")[0]
    wanted = wanted.replace("a valid integer", "a whole number").replace("a valid number", "a number")
    return f"must be {wanted}" if "Input should be " in message else message
