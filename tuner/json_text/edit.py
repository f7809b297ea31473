"""Changes single keys in the text of a JSON file and keeps every other byte: order, indent, line ends, comments."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from runners.runner import Json
from tuner.json_text.scan import Document, Member, Node, Path, parse


@dataclass(frozen=True, slots=True)
class Style:
    """How the file is laid out: one level of indent, the line end, what stands between a key and its value."""

    indent: str
    newline: str
    colon: str


def style(document: Document) -> Style:
    """The file's own layout, taken from its first line break and first members; two spaces where it shows none."""
    text, root = document.text, document.root
    newline = "\r\n" if text[: text.find("\n") + 1].endswith("\r\n") else "\n"
    indent, colon = "  ", ": "
    first = next((m for _, node in document.objects() for m in node.members), None)
    if first is not None:
        between = text[first.end : first.node.start]
        if re.fullmatch(r" ?: ?", between):
            colon = between
        outer, inner = _line_indent(text, root.start), _line_indent(text, first.start)
        if inner.startswith(outer) and len(inner) > len(outer):
            indent = inner[len(outer) :]
    return Style(indent, newline, colon)


def set_value(text: str, path: Path, value: Json) -> str:
    """``text`` with ``value`` at ``path``: in place where the key is there, else as the last member of its object.

    Objects on the way that are missing are made. A value that is there already leaves the text as it is. Raises NotJson for
    the text and KeyError where something on the way is no object.
    """
    document = parse(text)
    node = document.node(path)
    if node is None:
        return _insert_at(document, path, value)
    if json.dumps(node.value) == json.dumps(value):
        return text
    layout = style(document)
    wide = "\n" in text[node.start : node.end] or (node.kind == "scalar" and "\n" in text)
    shown = _shown(value, layout, _line_indent(text, node.start), wide)
    return text[: node.start] + shown + text[node.end :]


def rename(text: str, path: Path, key: str) -> str:
    """``text`` with the key that ``path`` ends in called ``key``; raises KeyError where there is none."""
    member = _member(parse(text), path)
    return text[: member.start] + json.dumps(key) + text[member.end :]


def remove(text: str, path: Path) -> str:
    """``text`` without the key that ``path`` ends in (the last of that name); raises KeyError where there is none."""
    document = parse(text)
    member = _member(document, path)
    parent = document.node(path[:-1])
    assert parent is not None
    return remove_member(document, parent, parent.members.index(member))


def remove_member(document: Document, parent: Node, index: int) -> str:
    """The document's text without the member ``index`` of the object ``parent``."""
    text = document.text
    for start, end in reversed(_cuts(document, parent, index)):
        text = text[:start] + text[end:]
    return text


def move(text: str, path: Path, to: Path) -> str:
    """``text`` with the member at ``path`` taken away and put at ``to`` (which is free) as it is written, re-indented.

    Raises KeyError where there is nothing at ``path`` or something at ``to``.
    """
    document = parse(text)
    member = _member(document, path)
    if document.node(to) is not None:
        raise KeyError(to)
    raw, old_indent = text[member.node.start : member.node.end], _line_indent(text, member.node.start)
    left = parse(remove(text, path))
    parent = left.node(to[:-1])
    if parent is None or parent.kind != "object":
        raise KeyError(to[:-1])
    new_indent = _member_indent(left, parent, style(document))
    lines = raw.split("\n")
    raw = "\n".join([lines[0], *(_reindented(line, old_indent, new_indent) for line in lines[1:])])
    return _insert(left, parent, str(to[-1]), raw)


def drop_comma(text: str, offset: int) -> str:
    """``text`` without the trailing comma at ``offset``."""
    return text[:offset] + text[offset + 1 :]


def _member(document: Document, path: Path) -> Member:
    member = document.member(path)
    if member is None:
        raise KeyError(path)
    return member


def _insert_at(document: Document, path: Path, value: Json) -> str:
    depth = len(path) - 1
    while document.node(path[:depth]) is None:
        depth -= 1
    for key in reversed(path[depth + 1 :]):
        value = {str(key): value}
    parent = document.node(path[:depth])
    assert parent is not None
    key = path[depth]
    if parent.kind != "object" or not isinstance(key, str):
        raise KeyError(path[:depth])
    layout = style(document)
    if parent.members:
        wide = _own_line(document.text, parent.members[-1])
    else:
        wide = "\n" in document.text or parent is document.root
    return _insert(document, parent, key, _shown(value, layout, _member_indent(document, parent, layout), wide))


def _insert(document: Document, parent: Node, key: str, raw: str) -> str:
    text, layout = document.text, style(document)
    member = json.dumps(key) + layout.colon + raw
    if not parent.members:
        return _insert_first(document, parent, member, layout)
    last = parent.members[-1]
    own_line = _own_line(text, last)
    before = layout.newline + _line_indent(text, last.start) if own_line else " " if _spaced(text, parent) else ""
    comma = parent.trailing_comma
    if comma is None:
        at = _after_comments(document, last.node.end) if own_line else last.node.end
        return text[: last.node.end] + "," + text[last.node.end : at] + before + member + text[at:]
    at = _after_comments(document, comma + 1) if own_line else comma + 1
    return text[:at] + before + member + "," + text[at:]


def _insert_first(document: Document, parent: Node, member: str, layout: Style) -> str:
    text = document.text
    inner = text[parent.start + 1 : parent.end - 1]
    if "\n" not in text and parent is not document.root:
        return text[: parent.start + 1] + member + text[parent.start + 1 :]
    outer = _line_indent(text, parent.start)
    head = text[: parent.start + 1] + layout.newline + outer + layout.indent + member
    tail = inner if inner.strip() or "\n" in inner else layout.newline + outer
    return head + tail + text[parent.end - 1 :]


def _after_comments(document: Document, at: int) -> int:
    """The end of the comments that follow ``at`` on its line: they belong to the member before."""
    ends = dict(document.comments)
    while True:
        start = at + len(_blank(document.text, at))
        if start not in ends or "\n" in document.text[start : ends[start]]:
            return at
        at = ends[start] - (document.text[ends[start] - 1] == "\r")


def _cuts(document: Document, parent: Node, index: int) -> list[tuple[int, int]]:
    """What to cut so that member ``index`` goes and the rest stays JSON, as spans in order."""
    text, members, commas = document.text, parent.members, parent.commas
    member = members[index]
    if index < len(members) - 1:
        end = commas[index] + 1
        return [(member.start, member.node.end), (commas[index], _spaces_end(text, end))]
    if index:
        before = members[index - 1].node.end
        if text[before : member.start].strip() == ",":
            return [(before, member.node.end)]
        return [(commas[index - 1], commas[index - 1] + 1), (member.start, member.node.end)]
    after = member.node.end if parent.trailing_comma is None else parent.trailing_comma + 1
    rest = text[parent.start + 1 : member.start] + text[member.node.end : parent.end - 1]
    if rest.strip(" \t\r\n,") == "":
        return [(parent.start + 1, parent.end - 1)]
    return [(member.start, member.node.end), (after - 1, after)] if after > member.node.end else [(member.start, after)]


def _spaces_end(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _shown(value: Json, layout: Style, indent: str, wide: bool) -> str:
    if not wide:
        return json.dumps(value, separators=(", ", layout.colon))
    lines = json.dumps(value, indent=layout.indent, separators=(",", layout.colon)).split("\n")
    return (layout.newline + indent).join(lines)


def _member_indent(document: Document, parent: Node, layout: Style) -> str:
    if parent.members:
        return _line_indent(document.text, parent.members[-1].start)
    return _line_indent(document.text, parent.start) + layout.indent


def _reindented(line: str, old: str, new: str) -> str:
    return new + line[len(old) :] if line.startswith(old) else line


def _spaced(text: str, node: Node) -> bool:
    """Whether the members on one line are parted by ", " rather than by a bare comma."""
    return not node.commas or text[node.commas[0] + 1 : node.commas[0] + 2] in (" ", "}")


def _own_line(text: str, member: Member) -> bool:
    """Whether nothing stands before the member on its line."""
    return text[_line_start(text, member.start) : member.start].strip(" \t\ufeff") == ""


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _line_indent(text: str, at: int) -> str:
    start = _line_start(text, at)
    return _blank(text, start + text.startswith("\ufeff", start))


def _blank(text: str, at: int) -> str:
    """The spaces and tabs at ``at``."""
    end = at
    while text[end : end + 1] in (" ", "\t"):
        end += 1
    return text[at:end]
