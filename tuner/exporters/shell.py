"""Finds and changes variables in env files and start scripts, and nothing else of them: files are data and are never run.

Understood are ``NAME=VALUE`` wherever a shell takes it for an assignment (also behind export, env, -x, -genv) and the pairs
``-genv NAME VALUE`` and ``-env NAME VALUE`` of mpirun.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_WORD = r"(?:\"(?:\\.|[^\"\\\n])*\"|'[^'\n]*'|\\[^\n]|[^\s;&|\"'`()<>\\])*"
_ASSIGNMENT = re.compile(rf"(?<![\w$./?&=%:-])(?P<name>{_NAME})=(?P<value>{_WORD})")
_PAIR = re.compile(rf"(?<!\S)--?g?env[ \t]+(?P<name>{_NAME})[ \t]+(?P<value>{_WORD})(?=\s|$)")
_PLAIN_LINE = re.compile(rf"[\ufeff \t]*(?P<name>{_NAME})=(?P<value>\"[^\"\r\n]*\"|'[^'\r\n]*'|[^\s\"'`]*)[ \t]*")
_SEGMENT = re.compile(r"\"((?:\\.|[^\"\\])*)\"|'([^']*)'|\\(.)|([^\"'\\]+)")
_UNSET = re.compile(rf"(?P<head>(?P<indent>[ \t]*)unset[ \t]+)(?P<names>{_NAME}(?:[ \t]+{_NAME})*)[ \t]*")
_OPENS = re.compile(r"(?:\b(?:then|do|else)|[{(]|&&|\|\|?|\))$")
_SAFE = re.compile(r"[\w@%+:,./^=-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Assignment:
    """A variable at ``start`` to ``end`` of the text, ``value`` as a program gets it; ``raw`` is how it is written.

    ``alone``: its line holds nothing else. ``pair``: it is -genv NAME VALUE. ``after`` is what follows on the line.
    """

    name: str
    value: str
    line: int
    start: int
    end: int
    alone: bool
    pair: bool = False
    raw: str = ""
    after: str = ""


def code_lines(text: str) -> list[tuple[int, int, str]]:
    """Line number from 1, offset, and the line without its comment, for every line."""
    found, offset = [], 0
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        found.append((number, offset, _uncommented(line.rstrip("\r\n"))))
        offset += len(line)
    return found


def _uncommented(line: str) -> str:
    quote, escaped = "", False
    for place, letter in enumerate(line):
        if escaped:
            escaped = False
        elif letter == "\\" and quote != "'":
            escaped = True
        elif quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter == "#" and (place == 0 or line[place - 1].isspace() or line[place - 1] == "\ufeff"):
            return line[:place]
    return line


def is_env_file(text: str) -> bool:
    """Whether there are lines NAME=VALUE and no others, without blanks but in quotes: such a file need not be for a shell."""
    lines = [line for _, _, line in code_lines(text) if line.strip("\ufeff \t\v\f")]
    return bool(lines) and all(_PLAIN_LINE.fullmatch(line) for line in lines) and not text.startswith("#!")


def assignments(text: str) -> list[Assignment]:
    """All of them, in order; a name that is handed on (``-genv NAME "$NAME"``) is none."""
    if is_env_file(text):
        return list(_of_env_file(text))
    found = []
    for number, offset, line in code_lines(text):
        pairs = list(_PAIR.finditer(line))
        inside = [match.span() for match in pairs]
        plain = [m for m in _ASSIGNMENT.finditer(line) if not any(a <= m.start() < b for a, b in inside)]
        for match in sorted([*pairs, *plain], key=lambda match: match.start()):
            pair = match in pairs
            after = line[match.end() :]
            alone = not pair and re.fullmatch(r"[\ufeff\s]*(?:export\s+)?", line[: match.start()]) and not after.strip(" \t;")
            start = match.start("name")
            place = (offset + start, offset + match.end())
            value = unquoted(match["value"])
            if value in (f"${match['name']}", f"${{{match['name']}}}"):
                continue
            found.append(Assignment(match["name"], value, number, *place, bool(alone), pair, match["value"], after))
    return found


def _of_env_file(text: str) -> Iterator[Assignment]:
    for number, offset, line in code_lines(text):
        match = _PLAIN_LINE.fullmatch(line)
        if match is None:
            continue
        raw = match["value"]
        whole = re.fullmatch(_WORD, raw)
        value = unquoted(raw) if whole else raw
        start = offset + match.start("name")
        yield Assignment(match["name"], value, number, start, offset + match.start("value") + len(raw), True, False, raw)


def last(text: str) -> dict[str, Assignment]:
    """By name, the assignment that counts."""
    return {each.name: each for each in assignments(text)}


def unquoted(word: str) -> str:
    """A shell word's text, without quotes and backslashes; parameters stay as they are written."""
    parts = []
    for match in _SEGMENT.finditer(word):
        double, single, escaped, plain = match.groups()
        if double is not None:
            parts.append(re.sub(r"\\([$`\"\\])", r"\1", double))
        else:
            parts.append(next(part for part in (single, escaped, plain) if part is not None))
    return "".join(parts)


def quoted(value: str) -> str:
    """``value`` as a shell word, quoted only where it must be."""
    if _SAFE.fullmatch(value):
        return value
    return '"' + re.sub(r"([$`\"\\])", r"\\\1", value) + '"'


def replaced(text: str, each: Assignment, name: str, value: str) -> str:
    written = (f"{name} " + (quoted(value) or '""')) if each.pair else f"{name}={quoted(value)}"
    return f"{text[: each.start]}{written}{text[each.end :]}"


def renamed(text: str, each: Assignment, name: str) -> str:
    return f"{text[: each.start]}{name}{text[each.start + len(each.name) :]}"


def without(text: str, each: Assignment) -> str:
    """``text`` without an assignment; its line goes too where it holds nothing else, and the option that it belongs to.

    Where a shell needs a command in its place there is a ":" then.
    """
    before, after = text[: each.start], text[each.end :]
    if each.alone:
        lines = text.splitlines(keepends=True)
        line, previous = lines[each.line - 1], lines[each.line - 2].rstrip() if each.line > 1 else ""
        end = line[len(line.rstrip("\r\n")) :]
        if previous.endswith("\\"):
            lines[each.line - 1] = end
        elif _OPENS.search(previous):
            lines[each.line - 1] = f"{line[: len(line) - len(line.lstrip())]}:{end}"
        else:
            del lines[each.line - 1]
        return "".join(lines)
    if option := re.search(r"(?<!\S)(?:--?g?env|-x)[ \t]+$", before):
        return before[: option.start()] + after.removeprefix(" ")
    begins = re.search(r"(?:^|[\n;&|({]|\b(?:then|do|else)[ \t])[ \t]*(export[ \t]+)?$", before)
    if begins and re.match(r"[ \t]*(?:[;&|)}\r\n]|$)", after):
        return before[: begins.start(1) if begins[1] else each.start] + ":" + after
    if re.match(r"[\r\n]|$", after):
        return before.rstrip(" \t") + after
    return before + after.removeprefix(" ")


def assign(text: str, values: Mapping[str, str]) -> str:
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
    text = _not_unset(text, {name for name, _ in missing})
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines(keepends=True)
    head = 0
    while head < len(lines) and (not lines[head].strip() or lines[head].lstrip("\ufeff \t").startswith("#")):
        head += 1
    if head and not lines[head - 1].endswith(("\n", "\r")):
        lines[head - 1] += newline
    word = "export " if is_script(text) else ""
    lines[head:head] = [f"{word}{name}={quoted(value)}{newline}" for name, value in missing]
    return "".join(lines)


def _not_unset(text: str, names: set[str]) -> str:
    """``text`` without ``names`` in its lines of unset."""
    for _, offset, line in reversed(code_lines(text)):
        if match := _UNSET.fullmatch(line):
            left = [name for name in match["names"].split() if name not in names]
            new = f"{match['head']}{' '.join(left)}" if left else f"{match['indent']}:"
            if len(left) < len(match["names"].split()):
                text = text[:offset] + new + text[offset + len(line) :]
    return text


def is_script(text: str) -> bool:
    """Whether a shell runs it: then a variable reaches programs only by export."""
    return text.startswith("#!") or (any(line.strip() for _, _, line in code_lines(text)) and not is_env_file(text))
