"""Reads JSON with the place of every key and value; comments and trailing commas, which DeepSpeed takes, are kept apart."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NoReturn

from runners.runner import Json

Path = tuple[str | int, ...]

_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORD = re.compile(r"[^\s,:{}\[\]\"#/]+")
_WORDS: dict[str, Json] = {"true": True, "false": False, "null": None}
_SPACE = " \t\r\n"

# Far above any configuration file, far below Python's recursion limit.
_DEEPEST = 100
# Python refuses to turn longer digit strings into a number.
_LONGEST_NUMBER = 4000


class NotJson(ValueError):
    """Text that is not JSON; ``line`` counts from 1, ``why`` is a half-sentence for the user."""

    def __init__(self, line: int, why: str) -> None:
        self.line, self.why = line, why
        super().__init__(f"line {line}: {why}")


@dataclass(frozen=True, slots=True)
class Node:
    """A value at ``text[start:end]``. ``commas`` are the offsets of the commas inside an object or array, in order."""

    kind: Literal["object", "array", "scalar"]
    start: int
    end: int
    scalar: Json = None
    members: tuple[Member, ...] = ()
    items: tuple[Node, ...] = ()
    commas: tuple[int, ...] = ()

    @property
    def value(self) -> Json:
        """The value as Python's json gives it: of a key that appears twice, the last one counts."""
        if self.kind == "object":
            return {member.key: member.node.value for member in self.members}
        if self.kind == "array":
            return [item.value for item in self.items]
        return self.scalar

    @property
    def trailing_comma(self) -> int | None:
        """Offset of the comma after the last member or item, if there is one."""
        return self.commas[-1] if self.commas and len(self.commas) == len(self.members) + len(self.items) else None


@dataclass(frozen=True, slots=True)
class Member:
    """``"key": value`` of an object; the key's token is ``text[start:end]``, quotes included."""

    key: str
    start: int
    end: int
    node: Node


@dataclass(frozen=True, slots=True)
class Document:
    """A whole file: its text, the root value, the spans of its comments."""

    text: str
    root: Node
    comments: tuple[tuple[int, int], ...]
    _newlines: tuple[int, ...] = field(repr=False, default=())

    def line(self, offset: int) -> int:
        return bisect_right(self._newlines, offset - 1) + 1

    def node(self, path: Path) -> Node | None:
        """The value at ``path``, or None; of a key that appears twice, the last one."""
        node = self.root
        for step in path:
            below = _step(node, step)
            if below is None:
                return None
            node = below
        return node

    def member(self, path: Path) -> Member | None:
        """The member that ``path`` ends in, or None where it names no key of an object."""
        parent = self.node(path[:-1])
        if parent is None or parent.kind != "object":
            return None
        return next((m for m in reversed(parent.members) if m.key == path[-1]), None)

    def key_line(self, path: Path) -> int:
        """The line of the key that ``path`` ends in, or of the innermost key on the way that is there; else 1."""
        while path:
            member = self.member(path)
            if member is not None:
                return self.line(member.start)
            path = path[:-1]
        return 1

    def objects(self) -> Iterator[tuple[Path, Node]]:
        """Every object, outer before inner."""
        return _objects(self.root, ())

    def trailing_commas(self) -> list[int]:
        """Offsets of the commas before a closing bracket."""
        return sorted(offset for node in _nodes(self.root) if (offset := node.trailing_comma) is not None)


def _step(node: Node, step: str | int) -> Node | None:
    if isinstance(step, int):
        return node.items[step] if node.kind == "array" and step < len(node.items) else None
    return next((m.node for m in reversed(node.members) if m.key == step), None)


def _objects(node: Node, path: Path) -> Iterator[tuple[Path, Node]]:
    if node.kind == "object":
        yield path, node
    for member in node.members:
        yield from _objects(member.node, (*path, member.key))
    for index, item in enumerate(node.items):
        yield from _objects(item, (*path, index))


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for below in (*(member.node for member in node.members), *node.items):
        yield from _nodes(below)


def parse(text: str) -> Document:
    """``text`` as a document; raises NotJson. A byte order mark at the beginning is passed over."""
    return _Scanner(text).document()


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 1 if text.startswith("\ufeff") else 0
        self.comments: list[tuple[int, int]] = []
        self.newlines = tuple(match.start() for match in re.finditer("\n", text))

    def document(self) -> Document:
        self.skip()
        root = self.value(0)
        self.skip()
        if self.at < len(self.text):
            self.fail(f"{self.shown()} after the end of the JSON value")
        return Document(self.text, root, tuple(self.comments), self.newlines)

    def fail(self, why: str, offset: int | None = None) -> NoReturn:
        where = self.at if offset is None else offset
        raise NotJson(bisect_right(self.newlines, where - 1) + 1, why)

    def shown(self) -> str:
        if self.at >= len(self.text):
            return "the end of the file"
        word = _WORD.match(self.text, self.at)
        return repr(word[0][:30] if word else self.text[self.at])

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def skip(self) -> None:
        """Moves over white space and comments (``#``, ``//`` to the end of the line, ``/* */``)."""
        while self.at < len(self.text):
            if self.text[self.at] in _SPACE:
                self.at += 1
            elif self.text[self.at] == "#" or self.text.startswith("//", self.at):
                end = self.text.find("\n", self.at)
                self.comment(len(self.text) if end < 0 else end)
            elif self.text.startswith("/*", self.at):
                end = self.text.find("*/", self.at + 2)
                if end < 0:
                    self.fail("a comment that begins here is never closed")
                self.comment(end + 2)
            else:
                return

    def comment(self, end: int) -> None:
        self.comments.append((self.at, end))
        self.at = end

    def value(self, depth: int) -> Node:
        if depth > _DEEPEST:
            self.fail(f"values are nested deeper than {_DEEPEST}")
        first = self.peek()
        if first == "{":
            return self.object(depth)
        if first == "[":
            return self.array(depth)
        start = self.at
        if first == '"':
            content = self.string()
            return Node("scalar", start, self.at, content)
        return self.word(start)

    def string(self) -> str:
        match = _STRING.match(self.text, self.at)
        if match is None:
            self.fail("a string that begins here is not closed on its line or holds a wrong escape")
        self.at = match.end()
        content: str = json.loads(match[0])
        return content

    def word(self, start: int) -> Node:
        match = _WORD.match(self.text, start)
        word = match[0] if match else ""
        number = _NUMBER.fullmatch(word)
        if not word or (word not in _WORDS and number is None):
            self.fail(f"expected a value, found {self.shown()}")
        if len(word) > _LONGEST_NUMBER:
            self.fail("a number of too many digits")
        self.at = start + len(word)
        return Node("scalar", start, self.at, _WORDS[word] if number is None else json.loads(word))

    def object(self, depth: int) -> Node:
        start = self.at
        members: list[Member] = []
        commas: list[int] = []
        self.at += 1
        while True:
            self.skip()
            if self.peek() == "}":
                break
            if self.peek() != '"':
                self.fail(f"expected a key in double quotes or '}}', found {self.shown()}")
            key_start = self.at
            key = self.string()
            key_end = self.at
            self.skip()
            if self.peek() != ":":
                self.fail(f"expected ':' after the key {key!r}, found {self.shown()}")
            self.at += 1
            self.skip()
            members.append(Member(key, key_start, key_end, self.value(depth + 1)))
            if not self.comma("}", commas):
                break
        self.at += 1
        return Node("object", start, self.at, members=tuple(members), commas=tuple(commas))

    def array(self, depth: int) -> Node:
        start = self.at
        items: list[Node] = []
        commas: list[int] = []
        self.at += 1
        while True:
            self.skip()
            if self.peek() == "]":
                break
            items.append(self.value(depth + 1))
            if not self.comma("]", commas):
                break
        self.at += 1
        return Node("array", start, self.at, items=tuple(items), commas=tuple(commas))

    def comma(self, closing: str, commas: list[int]) -> bool:
        """Whether a comma was here; its offset is kept. Else the closing bracket must be."""
        end = self.at
        self.skip()
        if self.peek() == ",":
            commas.append(self.at)
            self.at += 1
            return True
        if self.peek() != closing:
            # The line of the value that lacks its comma helps more than the line of what comes next.
            self.fail(f"expected ',' or '{closing}' before {self.shown()}", end if self.at < len(self.text) else None)
        return False
