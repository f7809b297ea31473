"""Expands the short forms of host lists: node[01:16] and node[a:c] of Ansible, node[01-03,07] of Slurm."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import product

from runners.hosts.host import BadEntry, shown

MOST_HOSTS = 16384
_NUMBERS = re.compile(r"(\d{1,9})(?:([-:])(\d{1,9})(?::(\d{1,9}))?)?", re.ASCII)
_LETTERS = re.compile(r"([a-zA-Z]):([a-zA-Z])(?::(\d{1,9}))?", re.ASCII)


def split_outside(text: str, at: str = ",") -> list[str]:
    """``text`` cut at the separators that are not inside of brackets. Raises BadEntry where brackets don't match."""
    parts, depth, part = [], 0, ""
    for letter in text:
        if letter == "[":
            depth += 1
        elif letter == "]":
            depth -= 1
        if depth not in (0, 1):
            raise BadEntry(f"brackets don't match in {shown(text)}")
        if letter == at and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += letter
    if depth:
        raise BadEntry(f"brackets don't match in {shown(text)}")
    return [*parts, part]


def expand(text: str) -> list[str]:
    """All names that ``text`` stands for, in order. Raises BadEntry; more than MOST_HOSTS are an error too."""
    pieces = re.split(r"\[([^\[\]]*)\]", text)
    if any("[" in piece or "]" in piece for piece in pieces):
        raise BadEntry(f"brackets don't match in {shown(text)}")
    choices = [[piece] if index % 2 == 0 else _range(piece, text) for index, piece in enumerate(pieces)]
    total = 1
    for choice in choices:
        total *= len(choice)
    if total > MOST_HOSTS:
        raise BadEntry(f"{shown(text)} stands for more than {MOST_HOSTS} hosts")
    return ["".join(names) for names in product(*choices)]


def _range(inside: str, text: str) -> list[str]:
    return [name for part in inside.split(",") for name in _part(part.strip(), text)]


def _part(part: str, text: str) -> Iterator[str]:
    if match := _NUMBERS.fullmatch(part):
        first, last, step = match[1], match[3] or match[1], int(match[4] or 1)
        low, high = int(first), int(last)
        width = len(first) if first.startswith("0") else 0
        name: Callable[[int], str] = str
    elif match := _LETTERS.fullmatch(part):
        low, high, step, width, name = ord(match[1]), ord(match[2]), int(match[3] or 1), 0, chr
        if match[1].isupper() != match[2].isupper():
            high = low - 1
    else:
        raise BadEntry(f"{shown(part)} in {shown(text)} is not a range; write it like node[01:16] or node[1-3,7]")
    if high < low or step < 1:
        raise BadEntry(f"the range {shown(part)} in {shown(text)} is empty; write the smaller end first")
    if (high - low) // step >= MOST_HOSTS:
        raise BadEntry(f"{shown(text)} stands for more than {MOST_HOSTS} hosts")
    for value in range(low, high + 1, step):
        yield name(value).rjust(width, "0")
