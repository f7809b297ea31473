"""What DeepSpeed's own models refuse in zero_optimization and its offload sections, or take for something else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial

from runners.runner import Json
from spaces.units import parse_flag
from tuner.exporters.aio.names import AIO, DEVICES, FIELDS, SECTIONS, ZERO, Kind, alike
from tuner.exporters.issue import Issue
from tuner.json_text.edit import rename, set_value
from tuner.json_text.scan import Document, Node, Path

# The models (pydantic) also take these strings for numbers and flags; "auto" counts as not given.
_WHOLE = re.compile(r"\s*([+-]?[0-9]+(?:_[0-9]+)*)(?:\.0+)?\s*")
_FLAGS = frozenset({"0", "off", "f", "false", "n", "no", "1", "on", "t", "true", "y", "yes"})
_STAGES = 4
_REFUSES = "DeepSpeed refuses the file"

# What is wrong with a value, what to do, and the value that mends it (None where only the user knows).
_Wrong = tuple[str, str, Json] | None


def whole(value: Json) -> int | None:
    """The integer that the models take ``value`` for; None where they refuse it or "auto" leaves the default."""
    if isinstance(value, str):
        match = _WHOLE.fullmatch(value)
        return int(match[1]) if match and len(match[1]) < 20 else None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return int(value) if isinstance(value, int) else None


def issues(document: Document) -> Iterator[Issue]:
    """Every section and value that the models don't take as it is meant."""
    zero = document.node((ZERO,))
    if zero is None:
        return
    if zero.kind != "object" and not isinstance(zero.value, bool):
        message = f"{ZERO} is {_shown(zero)}, and DeepSpeed fails on anything but an object"
        yield Issue(document.key_line((ZERO,)), ZERO, message, 'write it like {"stage": 3}')
        return
    yield from _value(document, (ZERO, "stage"), _stage)
    for section in SECTIONS:
        node = document.node(section)
        if node is None or (node.kind == "scalar" and node.value in (None, "auto")):
            continue
        if node.kind != "object":
            message = f"{section[-1]} is {_shown(node)}, and {_REFUSES}: it takes an object"
            mend = 'write it like {"device": "nvme", "nvme_path": "/a/folder/on/the/drive"}'
            yield Issue(document.key_line(section), _dotted(section), message, mend)
            continue
        yield from _keys(document, section, node)
        for name, kind in FIELDS[section].items():
            yield from _value(document, (*section, name), _CHECKS[kind])


def _keys(document: Document, section: Path, node: Node) -> Iterator[Issue]:
    fields = FIELDS[section]
    present = [member.key for member in node.members]
    strangers = [name for name in dict.fromkeys(present) if name not in fields and name != AIO]
    elsewhere = {name: str(other[-1]) for other in SECTIONS if other != section for name in FIELDS[other]}
    for name in strangers:
        where, edit = (*section, name), None
        message = f"{name} is no setting of {section[-1]}, and {_REFUSES}"
        meant = alike(name, fields)
        if name in elsewhere:
            mend = f"it is one of {elsewhere[name]}: move it there or remove it"
        elif meant is None:
            mend = f"remove it; {section[-1]} knows {', '.join(fields)}"
        elif meant in present:
            mend = f"remove it, {meant} is there too"
        else:
            mend = f"{meant} is meant"
            if [alike(other, fields) for other in strangers].count(meant) == 1:
                edit = partial(rename, path=where, key=meant)
        yield Issue(document.key_line(where), _dotted(where), message, mend, edit)


def _value(document: Document, path: Path, check: Callable[[Node], _Wrong]) -> Iterator[Issue]:
    node = document.node(path)
    if node is None or (node.kind == "scalar" and node.value == "auto"):
        return
    wrong = check(node)
    if wrong is None:
        return
    why, mend, right = wrong
    edit = None if right is None else partial(set_value, path=path, value=right)
    shown = f"{path[-1]} is {_shown(node)}"
    yield Issue(document.line(node.start), _dotted(path), f"{shown}, {why}", mend, edit)


def _stage(node: Node) -> _Wrong:
    value = node.value if node.kind == "scalar" else None
    if isinstance(value, bool):
        return f"which counts as {int(value)}", "write 0, 1, 2 or 3", None
    number = whole(value)
    if number is None or not 0 <= number < _STAGES:
        return f"and {_REFUSES}", "write 0, 1, 2 or 3; only stage 3 swaps to NVMe", None
    return None


def _device(node: Node) -> _Wrong:
    value = node.value if node.kind == "scalar" else ""
    if value in DEVICES:
        return None
    meant = value.strip().lower() if isinstance(value, str) else "none" if value is None else ""
    right = meant if meant in DEVICES else None
    return f"and {_REFUSES}", f'write "{right}"' if right else "write none, cpu or nvme, in small letters", right


def _path(node: Node) -> _Wrong:
    if node.kind == "scalar" and (node.value is None or isinstance(node.value, str)):
        return None  # an empty one is judged where the device is known
    return f"and {_REFUSES}", "write the path of a folder, in quotes", None


def _count(node: Node) -> _Wrong:
    value = node.value if node.kind == "scalar" else None
    if isinstance(value, bool):
        return f"which counts as {int(value)}", "write a whole number", None
    number = whole(value)
    if number is not None:
        return None if number >= 0 else (f"and {_REFUSES}", "write a whole number of at least 0", None)
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return None
    meant = _number(value)
    right = int(meant) if meant is not None and meant.is_integer() and 0 <= meant < 1e18 else None
    return f"and {_REFUSES}", "write a whole number" if right is None else f"write {right}, without quotes", right


def _share(node: Node) -> _Wrong:
    value = node.value if node.kind == "scalar" else None
    number = float(value) if isinstance(value, int | float) else _number(value)
    if number is not None and 0 <= number <= 1:
        return None
    return f"and {_REFUSES}", "write a number from 0 to 1", None


def _flag(node: Node) -> _Wrong:
    value = node.value if node.kind == "scalar" else None
    if value in (0, 1) or (isinstance(value, str) and value.lower() in _FLAGS):
        return None
    right = None
    if isinstance(value, str):
        try:
            right = parse_flag(value.strip())
        except ValueError:
            right = None
    mend = "write true or false, without quotes" if right is None else f"write {json.dumps(right)}, without quotes"
    return f"and {_REFUSES}", mend, right


_CHECKS: dict[Kind, Callable[[Node], _Wrong]] = {
    "device": _device,
    "path": _path,
    "count": _count,
    "flag": _flag,
    "share": _share,
}


def _number(value: Json) -> float | None:
    try:
        return float(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _shown(node: Node) -> str:
    return json.dumps(node.value, ensure_ascii=False)[:40]


def _dotted(path: Path) -> str:
    return ".".join(map(str, path))
