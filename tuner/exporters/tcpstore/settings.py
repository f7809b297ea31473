"""Finds and changes assignments of variables in env files and start scripts, and nothing else of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_VALUE = r"\"[^\"\n]*\"|'[^'\n]*'|[^\s;&|\"'`()#]*"
_ASSIGNMENT = re.compile(rf"(?<![\w$./?&=%:-])(?P<name>{_NAME})=(?P<value>{_VALUE})")
_WORD = re.compile(r"(?:^|[\s/;&|(])(torchrun|torch\.distributed\.(?:run|launch))(?=\s|$)")


@dataclass(frozen=True, slots=True)
class Assignment:
    """``NAME=VALUE`` at ``start`` to ``end`` of the text, ``value`` without quotes; ``alone``: its line holds nothing else."""

    name: str
    value: str
    line: int
    start: int
    end: int
    alone: bool


def code_lines(text: str) -> list[tuple[int, int, str]]:
    """Line number from 1, offset, and the line without its comment, for every line."""
    found, offset = [], 0
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        found.append((number, offset, _uncommented(line.rstrip("\r\n"))))
        offset += len(line)
    return found


def _uncommented(line: str) -> str:
    quote = ""
    for place, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter == "#" and (place == 0 or line[place - 1].isspace()):
            return line[:place]
    return line


def assignments(text: str) -> list[Assignment]:
    """All of them, in order."""
    found = []
    for number, offset, line in code_lines(text):
        for match in _ASSIGNMENT.finditer(line):
            alone = re.fullmatch(r"\s*(?:export\s+)?", line[: match.start()]) and not line[match.end() :].strip(" \t;")
            value = match["value"]
            plain = value[1:-1] if value[:1] in ("'", '"') else value
            place = (offset + match.start(), offset + match.end())
            found.append(Assignment(match["name"], plain, number, *place, bool(alone)))
    return found


def last(text: str) -> dict[str, Assignment]:
    """By name, the assignment that counts."""
    return {each.name: each for each in assignments(text)}


def replaced(text: str, each: Assignment, name: str, value: str) -> str:
    return f"{text[: each.start]}{name}={value}{text[each.end :]}"


def without(text: str, each: Assignment) -> str:
    """``text`` without an assignment; its line goes too where it holds nothing else."""
    if not each.alone:
        return text[: each.start] + text[each.end :].removeprefix(" ")
    lines = text.splitlines(keepends=True)
    del lines[each.line - 1]
    return "".join(lines)


def assign(text: str, values: dict[str, str]) -> str:
    """``text`` with each name set to its value: where it is assigned, else in new lines before the first command."""
    missing = []
    for name, value in values.items():
        places = [each for each in assignments(text) if each.name == name]
        for each in reversed(places):
            text = replaced(text, each, name, value)
        if not places:
            missing.append((name, value))
    if not missing:
        return text
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines(keepends=True)
    head = 0
    while head < len(lines) and (not lines[head].strip() or lines[head].lstrip().startswith("#")):
        head += 1
    if head and not lines[head - 1].endswith(("\n", "\r")):
        lines[head - 1] += newline
    word = "export " if _is_script(text) else ""
    lines[head:head] = [f"{word}{name}={value}{newline}" for name, value in missing]
    return "".join(lines)


def _is_script(text: str) -> bool:
    return text.startswith("#!") or bool(re.search(r"^\s*export\s", text, re.MULTILINE)) or torchrun_line(text) is not None


def torchrun_line(text: str) -> int | None:
    """The first line that starts a job with torchrun; None where none does."""
    for number, _, line in code_lines(text):
        if _WORD.search(line):
            return number
    return None
