"""What can be wrong inside an aio block, and with the place where it stands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

from runners.runner import Json
from spaces.aio import SPACE
from spaces.space import Knob
from spaces.units import parse_count, parse_flag, parse_size
from tuner.exporters.aio.block import THREAD_NAMES, TOP, name_in, nested
from tuner.exporters.aio.names import AIO, alike, misnamed_aio
from tuner.exporters.aio.options import RENAMED, Options
from tuner.exporters.issue import Issue
from tuner.json_text.edit import move, remove, rename, set_value
from tuner.json_text.scan import Document, Node, Path

_RENAMED = ".".join(map(str, RENAMED))
# DeepSpeed aligns to its own 512-byte units whatever the device's sector is.
_SECTOR = 512
_THREADS_MEANT = (*THREAD_NAMES, "threads", "num_thread", "parallelism")


def issues(document: Document, options: Options) -> Iterator[Issue]:
    """Misplaced and misnamed blocks, and what is wrong in each block."""
    yield from _misplaced(document)
    yield from _misnamed(document, options)
    top = document.node(TOP)
    for path in (TOP, *(misnamed_aio(document) if top is None else ()), *nested(document)):
        node = document.node(path)
        if node is None:
            continue
        if node.kind == "object":
            yield from _keys(document, path, node, options)
            yield from _values(document, path, node, options)
        elif node.value is not None:
            message = f"aio is {json.dumps(node.value)[:40]}, and DeepSpeed fails on anything but an object"
            yield Issue(document.key_line(path), _dotted(path), message, 'write it like "aio": {"block_size": 1048576, …}')


def _misplaced(document: Document) -> Iterator[Issue]:
    places = list(nested(document))
    top = document.node(TOP)
    for path in places:
        node = document.node(path)
        assert node is not None
        message = (
            "aio belongs at the top level: inside zero_optimization, today's DeepSpeed refuses the whole file, "
            "and older versions ignored the block"
        )
        if top is None and len(places) == 1:
            mend, edit = "move it to the top level", partial(move, path=path, to=TOP)
        elif top is not None and top.value == node.value:
            mend, edit = "remove it, the top level has the same", partial(remove, path=path)
        else:
            mend, edit = "keep one block, at the top level", None
        yield Issue(document.key_line(path), _dotted(path), message, mend, edit)


def _misnamed(document: Document, options: Options) -> Iterator[Issue]:
    places = misnamed_aio(document)
    there = document.node(TOP) is not None
    for path in places:
        node, name = document.node(path), str(path[0])
        assert node is not None
        message = f"{name} is no section of DeepSpeed's, which drops it without a word; the name is aio"
        edit = None
        if there or len(places) > 1:
            mend = "keep one block, named aio"
        else:
            mend = "rename it to aio"
            # Under the right name the values count: those that no handle takes would stop a program that runs today.
            if all(issue.edit for issue in _values(document, path, node, options)):
                edit = partial(rename, path=path, key=AIO)
        yield Issue(document.key_line(path), name, message, mend, edit)


def _keys(document: Document, path: Path, node: Node, options: Options) -> Iterator[Issue]:
    right = options.thread_key
    nodes = {member.key: member.node for member in node.members}
    present = {name: inner.value for name, inner in nodes.items()}
    known = [*(name_in(knob, options) for knob in SPACE.knobs), "use_gds"]
    dead = [name for name in THREAD_NAMES if name in present and name != right]
    for name in present:
        if name in known:
            continue
        where = (*path, name)
        line, dotted = document.key_line(where), _dotted(where)
        if name in dead:
            takes = _mendable(document, right, nodes[name], options)
            message, mend = _dead(name, present, dead, takes, options)
            yield Issue(line, dotted, message, mend, _dead_edit(where, present, dead, takes, right))
            continue
        meant = _meant(name, known, right)
        if meant is None:
            message = f"{name} is no setting of aio; DeepSpeed drops it without a word"
            yield Issue(line, dotted, message, f"remove it; aio knows {', '.join(known)}")
        elif meant in present:
            message = f"{name} is no setting of aio and {meant} is there too; DeepSpeed drops {name} without a word"
            yield Issue(line, dotted, message, "remove it")
        else:
            message = f"{name} is no setting of aio; DeepSpeed drops it without a word and takes the default of {meant}"
            only = [other for other in present if other not in known and _meant(other, known, right) == meant] == [name]
            safe = only and not (meant == right and dead) and _mendable(document, meant, nodes[name], options)
            yield Issue(line, dotted, message, f"{meant} is meant", partial(rename, path=where, key=meant) if safe else None)


def _dead(name: str, present: dict[str, Json], dead: list[str], takes: bool, options: Options) -> tuple[str, str]:
    right, value = options.thread_key, json.dumps(present[name])
    if name == "num_threads":
        reason = f"num_threads {value} is not read by DeepSpeed, whatever ds_nvme_tune prints"
    elif name == "thread_count":
        reason = f"thread_count {value} is not read by {options.reader} (renamed in {_RENAMED})"
    else:
        reason = f"{name} {value} is not read by DeepSpeed before {_RENAMED}"
    if right in present:
        return f"{reason}; {right} is there too and counts", "remove it"
    if len({json.dumps(present[other]) for other in dead}) > 1:
        return f"{reason}; one thread is used", f"write one {right} in place of {' and '.join(dead)}"
    if not takes:
        return (
            f"{reason}: one thread is used, and as {right} the value would not work either",
            f"write {right} and a number of threads in its place, like 1, which counts now",
        )
    return f"{reason}: one thread is used, {right} {value} is meant", f"rename it to {right}"


def _dead_edit(where: Path, present: dict[str, Json], dead: list[str], takes: bool, right: str) -> partial[str] | None:
    """Renaming or removing, where nothing is lost by it: a value that differs may be the one that was meant."""
    value = present[str(where[-1])]
    if right in present:
        return partial(remove, path=where) if present[right] == value else None
    if not takes or any(present[other] != value for other in dead):
        return None
    return partial(rename, path=where, key=right)


def _mendable(document: Document, name: str, node: Node, options: Options) -> bool:
    """Whether a value works under the name ``name``, if need be after a mend: else a rename breaks what runs today."""
    found = _found(document, name, node, options)
    return found is None or found[2] is not None


def _meant(name: str, known: list[str], right: str) -> str | None:
    close = alike(name, [*known, *_THREADS_MEANT])
    return right if close in _THREADS_MEANT else close


def _values(document: Document, path: Path, node: Node, options: Options) -> Iterator[Issue]:
    for name, value in {member.key: member.node for member in node.members}.items():
        found = _found(document, name, value, options)
        if found is None:
            continue
        message, mend, right = found
        where = (*path, name)
        edit = None if right is None else partial(set_value, path=where, value=right)
        yield Issue(document.line(value.start), _dotted(where), message, mend, edit)


# A reason, a mend, and the value that mends it (None where only the user knows).
_Found = tuple[str, str, bool | int | None] | None


def _found(document: Document, name: str, value: Node, options: Options) -> _Found:
    """What is wrong with a value under a name of aio's; None where nothing is, or the name isn't one."""
    knobs = {name_in(knob, options): knob for knob in SPACE.knobs}
    if name == "use_gds":
        return _gds(value, options)
    if name not in knobs:
        return None
    if knobs[name].domain.kind == "flag":
        return _flag(name, value)
    return _number(name, knobs[name], value, document.text[value.start : value.end])


def _number(name: str, knob: Knob, node: Node, written: str) -> _Found:
    value = node.value if node.kind == "scalar" else None
    fails = f"{name} is {written[:40]}, and the handle fails with a TypeError on anything but an integer"
    if isinstance(value, str):
        if value == "auto":
            return f"{fails}; no program fills it in", "write an integer", None
        number = _read_number(knob, value)
        return (fails, f"write {number}, without quotes", number) if number else (fails, "write an integer", None)
    if isinstance(value, float):
        if not value.is_integer() or not 1 <= value <= knob.limit:
            return fails, "write an integer", None
        why = "DeepSpeed's own loader makes it an integer, but passed as a dict (Transformers) it fails with a TypeError"
        return f"{name} is {written}: {why}", f"write {int(value)}", int(value)
    if isinstance(value, bool):
        return f"{name} is {written}, which the handle takes for {int(value)}", "write an integer", None
    if not isinstance(value, int):
        default = f"write the default, {knob.default}" if node.kind == "scalar" and value is None else "write an integer"
        return fails, default, int(knob.default) if default != "write an integer" else None
    if not 1 <= value <= knob.limit:
        why = "fails or reports success without any I/O" if value < 1 else "does not fit the handle's C int"
        return f"{name} is {written[:40]}, which {why}", f"write a number from 1 to {knob.limit}", None
    if knob.unit == "bytes" and value % _SECTOR:
        below, above = value // _SECTOR * _SECTOR, -(-value // _SECTOR) * _SECTOR
        mend = f"write {above}" if below == 0 else f"write {below} or {above}"
        return f"{name} {value} is not a multiple of {_SECTOR}: I/O reports success and the data are wrong", mend, None
    return None


def _read_number(knob: Knob, text: str) -> int | None:
    try:
        number = parse_size(text) if knob.unit == "bytes" else parse_count(text)
    except ValueError:
        return None
    return number if 1 <= number <= knob.limit else None


def _flag(name: str, node: Node) -> _Found:
    value = node.value if node.kind == "scalar" else ""
    if isinstance(value, str):
        message = f"{name} is a {'string' if node.kind == 'scalar' else node.kind}, and the handle fails with a TypeError"
        right = _read_flag(value)
        mend = "write true or false, without quotes" if right is None else f"write {json.dumps(right)}, without quotes"
        return message, mend, right
    if value is None:
        return f"{name} is null, which counts as false, not as the default", "write false", False
    if not isinstance(value, bool) and value not in (0, 1):
        return f"{name} is {value}; any number but 0 counts as true", "write true or false", None
    return None


def _read_flag(text: str) -> bool | None:
    try:
        return parse_flag(text)
    except ValueError:
        return None


def _gds(node: Node, options: Options) -> _Found:
    if isinstance(node.scalar, str):
        right = _read_flag(node.scalar)
        message = f'use_gds is the string "{node.scalar}", and any string but "" counts as true'
        return message, "write true or false, without quotes", right if right is False else None
    if node.value and options.cuda is False:
        return (
            "use_gds needs a CUDA device and this machine has none: DeepSpeed stops with an assertion",
            "write false, or use the file where there is one",
            None,
        )
    return None


def _dotted(path: Path) -> str:
    return ".".join(map(str, path))
