"""Finds and changes options of a mount command in scripts, systemd units and fstab lines, and nothing else of them.

Files are data and are never run. Understood are ``PROGRAM ... mount ... --name=value`` and ``--name value``, over lines that a
backslash continues, and fstab lines whose type is the program's.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tuner.exporters.shell import code_lines, unquoted

_WORD = r"(?:\"(?:\\.|[^\"\\\n])*\"|'[^'\n]*'|\\[^\n]|[^\s;&|\"'`()<>\\])+"
_OPTION = re.compile(rf"(?<!\S)--?(?P<name>[A-Za-z][\w-]*)(?:(?P<sign>=|[ \t]+(?!-))(?P<value>{_WORD}))?")
_FSTAB = re.compile(r"^[ \t]*(?P<what>[^\s#]\S*)[ \t]+(?P<where>/\S*)[ \t]+(?P<type>\S+)[ \t]+(?P<options>\S+)")


@dataclass(frozen=True, slots=True)
class Setting:
    """An option ``name`` (with dashes) at ``line``; ``start`` to ``end`` of the text is its value, empty for a bare one."""

    name: str
    value: str
    line: int
    start: int
    end: int
    bare: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """A mount command or fstab line: ``start`` to ``end`` of the text, new options go to ``insert``."""

    start: int
    end: int
    insert: int
    line: int
    fstab: bool


def commands(text: str, program: str) -> list[Command]:
    """The mount commands of ``program`` in ``text``, in order."""
    found: list[Command] = []
    call = re.compile(rf"(?:^|[\s/\"'=;&|(]){re.escape(program)}\b[^\n;&|]*?(?<!\S)mount(?=\s|$|\\)")
    lines = code_lines(text)
    for place, (number, offset, line) in enumerate(lines):
        if found and offset < found[-1].end:
            continue
        fstab = _FSTAB.match(line)
        if fstab and fstab["type"] in (program, f"fuse.{program}"):
            found.append(
                Command(
                    offset + fstab.start("options"), offset + fstab.end("options"), offset + fstab.end("options"), number, True
                )
            )
            continue
        # A unit's description may name what it does, and does nothing itself.
        if (match := call.search(line)) and not line.lstrip().startswith("Description="):
            end = place
            while lines[end][2].rstrip().endswith("\\") and end + 1 < len(lines):
                end += 1
            stop = lines[end][1] + len(lines[end][2])
            found.append(Command(offset + match.start(), stop, offset + match.end(), number, False))
    return found


def settings(text: str, program: str, switches: Collection[str] = ()) -> list[Setting]:
    """The options of all mount commands of ``program``, in order; ``switches`` take a value only behind ``=``."""
    return [each for command in commands(text, program) for each in _of(text, command, switches)]


def _of(text: str, command: Command, switches: Collection[str]) -> Iterator[Setting]:
    body = text[command.start : command.end]
    if command.fstab:
        offset = command.start
        for part in body.split(","):
            name, equals, value = part.partition("=")
            start = offset + len(name) + len(equals)
            line = command.line
            yield Setting(name.replace("_", "-"), value, line, start, start + len(value), not equals)
            offset += len(part) + 1
        return
    for match in _OPTION.finditer(body):
        name, value = match["name"], match["value"]
        line = command.line + body.count("\n", 0, match.start())
        bare = value is None or (name in switches and match["sign"] != "=")
        if bare:
            end = command.start + match.end("name")
            yield Setting(name, "", line, end, end, True)
        else:
            yield Setting(
                name, unquoted(value), line, command.start + match.start("value"), command.start + match.end("value")
            )


def put(text: str, program: str, name: str, value: str, switches: Collection[str] = ()) -> str:
    """``text`` with the option set in every mount command of ``program``, where it stands or else as a new one."""
    for command in reversed(commands(text, program)):
        there = [each for each in _of(text, command, switches) if each.name == name]
        for each in reversed(there):
            text = f"{text[: each.start]}{'=' if each.bare else ''}{value}{text[each.end :]}"
        if not there:
            new = f",{name}={value}" if command.fstab else f" --{name}={value}"
            text = f"{text[: command.insert]}{new}{text[command.insert :]}"
    return text


def renamed(text: str, each: Setting, name: str) -> str:
    """``text`` with an option called ``name``; its value stays."""
    head = text[: each.start]
    place = max(head.rfind(each.name), head.rfind(each.name.replace("-", "_")))
    return f"{text[:place]}{name}{text[place + len(each.name) :]}"
