"""The words of a command: what is wrong with them before any part of ours sees a value."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tuner.errors import WrongUsage

_WRITTEN = ("-o", "--output", "--storage")


def refuse_empty(arguments: Sequence[str]) -> None:
    """An empty word is a shell variable that nobody set: never what its option's default stands for."""
    for before, word in itertools.pairwise(arguments):
        if word == "" and before.startswith("--") and "=" not in before:
            raise WrongUsage(f"{before} '': the value is empty.", "give one, or leave the option out for its default")
    for word in arguments:
        if word.startswith("--") and word.endswith("=") and word.count("=") == 1:
            raise WrongUsage(f"{word[:-1]} '': the value is empty.", "give one, or leave the option out for its default")


def refuse_missing_folders(arguments: Sequence[str]) -> None:
    """``-o DIR/`` says that DIR is a folder, and a path forgets the last stroke: no file may come of it by that name."""
    for before, word in [*itertools.pairwise(arguments), *(word.split("=", 1) for word in arguments if "=" in word)]:
        if before in _WRITTEN and word.endswith("/") and not Path(word).is_dir():
            raise WrongUsage(f"{before} {word}: there is no such folder", f"mkdir -p {shlex.quote(word)}")


def usage(error: Any, arguments: Sequence[str]) -> WrongUsage:
    """What Typer found wrong with the words of the command; it leaves out the value of a number that is none."""
    context = getattr(error, "ctx", None)
    where = f"`{context.command_path} --help` shows how" if context is not None else "`tune --help` shows how"
    message = str(error.format_message()).replace("Value error, ", "").rstrip(".")
    for option in getattr(getattr(error, "param", None), "opts", ()):
        given = [word.partition("=")[2] for word in arguments if word.startswith(f"{option}=")]
        given += [word for before, word in itertools.pairwise(arguments) if before == option]
        if given and given[-1] not in message:
            return WrongUsage(f"{option} {given[-1]}: {_wanted(message)}", where)
    return WrongUsage(message, where)


def _wanted(message: str) -> str:
    """What a value must be, from Typer's "Invalid value for …: Input should be a valid integer, unable to …"."""
    wanted = message.rpartition("Input should be ")[2].partition(",")[0]
    wanted = wanted.replace("a valid integer", "a whole number").replace("a valid number", "a number")
    return f"must be {wanted}" if "Input should be " in message else message
