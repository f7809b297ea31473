"""Finds values that rclone refuses or misreads, misspelt names, and settings that do nothing, in mount files."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from functools import partial

from runners.limits import available_memory
from spaces.rclone import GRANTED, held
from spaces.space import Value
from spaces.units import format_size
from tuner.errors import WrongUsage
from tuner.exporters import format as contract
from tuner.exporters import mountkernel, mountline
from tuner.exporters.format import Finding, mended, whole_number
from tuner.exporters.issue import Issue
from tuner.exporters.rclone.settings import PROGRAM, present
from tuner.exporters.rclone.words import KNOBS, SWITCHES, read, size, variable
from tuner.exporters.shell import Assignment, assignments, code_lines, renamed, replaced

# Options of mount and its VFS (rclone 1.75) that a name may be a misspelling of.
_KNOWN = frozenset(
    {
        *KNOBS,
        *SWITCHES,
        *("vfs-cache-mode", "vfs-cache-max-age", "vfs-cache-max-size", "vfs-cache-min-free-space", "vfs-cache-poll-interval"),
        *("vfs-read-ahead", "vfs-read-chunk-size-limit", "vfs-read-wait", "vfs-write-back", "vfs-write-wait", "vfs-refresh"),
        *("vfs-fast-fingerprint", "vfs-used-is-size", "vfs-case-insensitive", "vfs-handle-caching", "vfs-links"),
        *("vfs-disk-space-total-size", "vfs-block-norm-dupes", "vfs-metadata-extension", "dir-cache-time", "poll-interval"),
        *(
            "attr-timeout",
            "allow-root",
            "allow-other",
            "cache-dir",
            "config",
            "transfers",
            "checkers",
            "timeout",
            "contimeout",
        ),
        *("bwlimit", "tpslimit", "use-mmap", "log-file", "log-level", "direct-io", "volname", "umask", "uid", "gid"),
    }
)
_OURS = ("vfs-", "buffer", "max-read", "async-r", "dir-cache", "read-chunk")
# Of an open file's buffer or chunk: as KiB it would be 16 GiB, which nobody wants.
_BYTES_MEANT = 16 << 20
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_YES, _NO = frozenset({"yes", "on", "y"}), frozenset({"no", "off", "n"})
_SIZES = frozenset(
    {*(name for name, knob in KNOBS.items() if knob.unit == "bytes"), "vfs-read-ahead", "vfs-read-chunk-size-limit"}
)


def matches(filename: str, text: str) -> bool:
    """A file that sets variables of rclone or calls rclone mount."""
    if filename.lower().endswith((".json", ".yaml", ".yml", ".properties", ".py", ".md", ".conf")) or "\0" in text:
        return False
    return bool(mountline.commands(text, PROGRAM)) or any(
        re.search(r"\bRCLONE_(?:VFS|BUFFER|MAX_READ|ASYNC|DIR_CACHE|ATTR)_?\w*=", line) for _, _, line in code_lines(text)
    )


def lint(text: str, options: contract.Options) -> list[Finding]:
    """Every finding, in line order."""
    return [issue.finding for issue in _issues(text, options)]


def fix(text: str, options: contract.Options) -> str:
    """``text`` with the safe mends made, one after the other."""
    return mended(text, lambda now: next((issue.edit for issue in _issues(now, options) if issue.edit), None))


def _issues(text: str, options: contract.Options) -> list[Issue]:
    found = [*_variables(text), *_options(text), *_together(text, options), *mountkernel.lint(text)]
    return sorted(found, key=lambda issue: issue.line)


def _variables(text: str) -> Iterator[Issue]:
    there = {each.name for each in assignments(text)}
    for place, each in enumerate(assignments(text)):
        if not each.name.startswith("RCLONE_") or "$" in each.value:
            continue
        name = each.name.removeprefix("RCLONE_").lower().replace("_", "-")
        if name not in _KNOWN:
            right = _meant(name)
            if right:
                free = variable(right) not in there
                yield Issue(
                    each.line,
                    each.name,
                    f"rclone reads {variable(right)} and nothing called {each.name}",
                    f"call it {variable(right)}" if free else f"remove it, {variable(right)} is set too",
                    partial(_rename_variable, place=place, name=variable(right)) if free else None,
                )
            continue
        for message, mend, value in _wrong(name, each.value):
            edit = partial(_set_variable, place=place, value=value) if value is not None else None
            yield Issue(each.line, each.name, message, mend, edit)


def _options(text: str) -> Iterator[Issue]:
    for place, each in enumerate(mountline.settings(text, PROGRAM, SWITCHES)):
        if "$" in each.value:
            continue
        if each.name not in _KNOWN:
            right = _meant(each.name)
            if right:
                message = f"rclone has no option --{each.name} and stops there"
                yield Issue(
                    each.line, f"--{each.name}", message, f"--{right}", partial(_rename_option, place=place, name=right)
                )
            continue
        if each.bare:
            continue
        for message, mend, value in _wrong(each.name, each.value):
            edit = partial(_set_option, place=place, value=value) if value is not None else None
            yield Issue(each.line, f"--{each.name}", message, mend, edit)


def _meant(name: str) -> str:
    """The option that a name is a misspelling of, "" where it may be one that we don't know."""
    if not any(part in name for part in _OURS):
        return ""
    return next(iter(difflib.get_close_matches(name, sorted(_KNOWN), 1, 0.85)), "")


def _wrong(name: str, value: str) -> Iterator[tuple[str, str, str | None]]:
    """For a value of a known option: message, mend, and the value to write instead where that is safe."""
    if name in SWITCHES:
        low = value.lower()
        if low in _YES | _NO:
            right = "true" if low in _YES else "false"
            yield f"{value!r} is no switch to rclone, which stops there: it takes true or false", right, right
        return
    if name in _SIZES:
        if _NUMBER.fullmatch(value) and float(value) != 0:
            bytes_meant = int(float(value))
            kib = bytes_meant * 1024
            if bytes_meant >= _BYTES_MEANT and bytes_meant % 1024 == 0 and name in KNOBS:
                right = format_size(bytes_meant)
                yield f"a size without a unit is KiB: {value} is {format_size(kib)}, not {right}", right, right
            else:
                yield f"a size without a unit is KiB: {value} is {format_size(kib)}", f"write {format_size(kib)}", None
            return
        if value.lower() != "off":
            try:
                size(value)
            except ValueError as error:
                spaced = re.sub(r"\s+", "", value)
                safe = spaced if spaced != value and _reads(spaced) else None
                yield str(error), safe or "like 16M", safe
        return
    if (knob := KNOBS.get(name)) is not None:
        try:
            read(knob, value)
        except ValueError as error:
            yield str(error), f"like {knob.show(knob.default)}", None


def _reads(text: str) -> bool:
    try:
        size(text)
    except ValueError:
        return False
    return True


def _together(text: str, options: contract.Options) -> Iterator[Issue]:
    """What only all settings together show."""
    try:
        now = present(text, {})
    except WrongUsage:
        return
    names = _named(text)
    mode = names.get("vfs-cache-mode", (0, "off"))[1]
    if "vfs-read-ahead" in names and mode != "full":
        line = names["vfs-read-ahead"][0]
        yield Issue(
            line, "vfs-read-ahead", "without --vfs-cache-mode full rclone does not look at it", "remove it, or set the mode"
        )
    ahead = int(now["max_read_ahead"])
    if "max-read-ahead" in names and ahead > GRANTED and "read_ahead_kb" not in text and not _declared(text):
        message = f"the kernel reads no more than 128K ahead on a mount, so {format_size(ahead)} does nothing by itself"
        mend = f"as root, once mounted: echo {ahead >> 10} >/sys/class/bdi/$(mountpoint -d DIR)/read_ahead_kb"
        yield Issue(names["max-read-ahead"][0], "max-read-ahead", message, mend)
    yield from _memory(now, names, options)


def _declared(text: str) -> bool:
    """Whether the file is one of ours that only carries variables: what raises the read-ahead stands elsewhere then."""
    return "by clustertune (study " in text and not mountline.commands(text, PROGRAM)


def _memory(now: Mapping[str, Value], names: Mapping[str, tuple[int, str]], options: contract.Options) -> Iterator[Issue]:
    told = whole_number(options, "open_files", None)
    room = available_memory()
    lines = [names[name][0] for name in ("vfs-read-chunk-streams", "vfs-read-chunk-size", "buffer-size") if name in names]
    if room is None or not lines or told is None:
        return
    need = held(now, told)
    if need > room:
        message = (
            f"{told} open files can hold {need / 2**30:.1f} GiB of chunks and buffers; {room / 2**30:.1f} GiB are free here"
        )
        yield Issue(lines[0], "vfs-read-chunk-streams", message, "fewer streams, smaller chunks or a smaller buffer")


def _named(text: str) -> dict[str, tuple[int, str]]:
    """Line and value of each option that the file sets, by name."""
    found = {}
    for each in assignments(text):
        if each.name.startswith("RCLONE_"):
            found[each.name.removeprefix("RCLONE_").lower().replace("_", "-")] = (each.line, each.value)
    for setting in mountline.settings(text, PROGRAM, SWITCHES):
        found[setting.name] = (setting.line, setting.value)
    return found


def _rename_variable(text: str, place: int, name: str) -> str:
    return renamed(text, assignments(text)[place], name)


def _set_variable(text: str, place: int, value: str) -> str:
    each: Assignment = assignments(text)[place]
    return replaced(text, each, each.name, value)


def _rename_option(text: str, place: int, name: str) -> str:
    return mountline.renamed(text, mountline.settings(text, PROGRAM, SWITCHES)[place], name)


def _set_option(text: str, place: int, value: str) -> str:
    each = mountline.settings(text, PROGRAM, SWITCHES)[place]
    return f"{text[: each.start]}{value}{text[each.end :]}"
