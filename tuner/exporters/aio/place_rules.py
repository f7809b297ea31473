"""Sections and settings that stand under a wrong name or in a wrong place, and an aio block that nobody reads."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from spaces.aio import SPACE
from tuner.exporters.aio.block import TOP, nested
from tuner.exporters.aio.names import (
    AIO,
    DEVICES,
    FIELDS,
    SECTIONS,
    ZERO,
    alike,
    misnamed_aio,
    misnamed_zero,
    offload_meant,
    plain,
)
from tuner.exporters.issue import Issue
from tuner.json_text.edit import rename
from tuner.json_text.scan import Document, Member, Path

_AIO_KEYS = ("thread_count", "use_gds", *(knob.name for knob in SPACE.knobs))
_OFFLOAD_KEYS = frozenset(name for fields in FIELDS.values() for name in fields)
# So many of aio's keys outside a block are no chance: block_size alone may be anything.
_SURELY = 2


def issues(document: Document) -> Iterator[Issue]:
    """What stands wrong at the top level and in zero_optimization, and an aio block that has no reader."""
    yield from _zero_misnamed(document)
    yield from _top_level(document)
    yield from _in_zero(document)
    yield from _unread(document)


def _zero_misnamed(document: Document) -> Iterator[Issue]:
    for path in misnamed_zero(document):
        name = str(path[0])
        message = f"{name} is no section of DeepSpeed's, which drops it without a word: no ZeRO, nothing is offloaded"
        there = document.node((ZERO,)) is not None
        mend = f"remove it, or merge it into the {ZERO} that is there" if there else f"rename it to {ZERO}"
        yield Issue(document.key_line(path), name, message, mend)


def _top_level(document: Document) -> Iterator[Issue]:
    keys = {member.key: member for member in document.root.members}
    loose = [name for name in keys if plain(name) in _AIO_KEYS]
    for name, member in keys.items():
        section = offload_meant(name)
        if section is not None:
            lost, home = "nothing is offloaded by it", f"{ZERO}, as {section}"
        elif plain(name) == "stage" and member.node.kind == "scalar":
            lost, home = "it selects no ZeRO stage", ZERO
        elif name in loose and len(loose) >= _SURELY:
            lost, home = "the aio block's value or default counts", AIO
        else:
            continue
        message = f"{name} does nothing at the top level: DeepSpeed drops it there without a word, and {lost}"
        yield Issue(document.line(member.start), name, message, f"move it into {home}")


def _in_zero(document: Document) -> Iterator[Issue]:
    zero = document.node((ZERO,))
    if zero is None:
        return
    present = {member.key: member for member in zero.members}
    for name, member in present.items():
        if name in ("stage", AIO) or (ZERO, name) in FIELDS:
            continue
        line, dotted = document.line(member.start), f"{ZERO}.{name}"
        refused = f"{name} is no setting of {ZERO}, and DeepSpeed refuses the file"
        meant = _meant_in_zero(member)
        if meant is not None:
            alone = meant not in present and [_meant_in_zero(other) for other in present.values()].count(meant) == 1
            mend = f"{meant} is meant" if alone else f"keep one {meant}"
            yield Issue(line, dotted, refused, mend, partial(rename, path=(ZERO, name), key=meant) if alone else None)
        elif plain(name) in _OFFLOAD_KEYS:
            homes = " or ".join(str(path[-1]) for path, fields in FIELDS.items() if plain(name) in fields)
            yield Issue(line, dotted, refused, f"move it into {homes}")
        elif plain(name) in _AIO_KEYS:
            yield Issue(line, dotted, refused, "move it into aio, at the top level")


def _meant_in_zero(member: Member) -> str | None:
    if member.key == "stage" or (ZERO, member.key) in FIELDS:
        return None
    if member.node.kind == "object":
        return offload_meant(member.key)
    return alike(member.key, ["stage"])


def _unread(document: Document) -> Iterator[Issue]:
    block = document.node(TOP)
    # A file with nothing else in it is a piece to paste, not a whole configuration.
    if block is None or not block.members or {m.key for m in document.root.members} == {AIO} or _reader(document):
        return
    yield Issue(
        document.key_line(TOP),
        AIO,
        "this aio block is read by nobody: nothing is offloaded to nvme, and there is no checkpoint writer",
        'set "device": "nvme" and "nvme_path" in offload_param or offload_optimizer, or remove the block',
    )


def _reader(document: Document) -> bool:
    """Whether something reads the block, or would if another finding were mended."""
    writer = document.node(("checkpoint", "writer"))
    if writer is not None and (writer.kind != "scalar" or writer.value is not None):
        return True
    meant = [name for member in document.root.members if (name := offload_meant(member.key))]
    zero = document.node((ZERO,))
    if meant or misnamed_zero(document) or misnamed_aio(document) or any(nested(document)):
        return True
    if zero is None:
        return False
    if any(_meant_in_zero(member) or plain(member.key) == "nvme_path" for member in zero.members):
        return True
    return any(_may_be_nvme(document, section) for section in SECTIONS)


def _may_be_nvme(document: Document, section: Path) -> bool:
    """Not where the device is plainly another one: Accelerate fills "auto" in, and a misspelt one has its own finding."""
    node = document.node(section)
    if node is None or (node.kind == "scalar" and node.value in (None, "auto")):
        return node is not None and node.value == "auto"
    if node.kind != "object":
        return True
    device = document.node((*section, "device"))
    if device is None:
        # Without a device nothing is offloaded; a path or a slip of a name shows that something was meant to be.
        return any(member.key == "nvme_path" or member.key not in FIELDS[section] for member in node.members)
    return device.value not in DEVICES or device.value == "nvme"
