"""Finds values that juicefs refuses, cuts or takes for something else, and misspelt options, in mount files."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from functools import partial

from spaces.juicefs import SPACE
from tuner.errors import WrongUsage
from tuner.exporters import format as contract
from tuner.exporters import mountkernel, mountline
from tuner.exporters.format import Finding, mended
from tuner.exporters.issue import Issue
from tuner.exporters.juicefs.settings import PROGRAM, present
from tuner.exporters.juicefs.words import KNOBS, SWITCHES, read

_MIB = 1 << 20
_LEAST_BUFFER = 32 * _MIB
_KNOWN = frozenset(
    {
        *KNOBS,
        *SWITCHES,
        *("cache-dir", "cache-size", "cache-mode", "cache-eviction", "cache-scan-interval", "cache-expire", "cache-items"),
        *("free-space-ratio", "verify-cache-checksum", "upload-delay", "max-uploads", "max-deletes", "upload-limit"),
        *("download-limit", "get-timeout", "put-timeout", "io-retries", "open-cache", "attr-cache", "entry-cache"),
        *("dir-entry-cache", "metrics", "subdir", "storage", "bucket", "backup-meta", "heartbeat", "max-fuse-io", "log"),
        *("atime-mode", "root-squash", "consul", "o", "max-stage-write", "cache-large-write", "all-squash", "umask"),
    }
)
# More than any machine's memory: bytes that were meant.
_BYTES_MEANT = 1 << 20


def matches(filename: str, text: str) -> bool:
    """A file that calls juicefs mount, or an fstab with a line of that type."""
    if filename.lower().endswith((".json", ".yaml", ".yml", ".properties", ".py", ".md")) or "\0" in text:
        return False
    return bool(mountline.commands(text, PROGRAM))


def lint(text: str, options: contract.Options) -> list[Finding]:  # noqa: ARG001
    """Every finding, in line order."""
    return [issue.finding for issue in _issues(text)]


def fix(text: str, options: contract.Options) -> str:  # noqa: ARG001
    """``text`` with the safe mends made, one after the other."""
    return mended(text, lambda now: next((issue.edit for issue in _issues(now) if issue.edit), None))


def _issues(text: str) -> list[Issue]:
    return sorted([*_each(text), *_together(text), *mountkernel.lint(text)], key=lambda issue: issue.line)


def _each(text: str) -> Iterator[Issue]:
    for place, each in enumerate(mountline.settings(text, PROGRAM, SWITCHES)):
        if "$" in each.value:
            continue
        key = f"--{each.name}"
        if each.name not in _KNOWN:
            right = next(iter(difflib.get_close_matches(each.name, sorted(_KNOWN), 1, 0.8)), "") if len(each.name) > 2 else ""
            if right:
                message = f"juicefs has no option {key} and stops there"
                yield Issue(each.line, key, message, f"--{right}", partial(_rename, place=place, name=right))
            continue
        if each.name not in KNOBS or each.bare:
            continue
        knob = KNOBS[each.name]
        if knob.unit == "bytes" and re.fullmatch(r"\d+", each.value) and int(each.value) >= _BYTES_MEANT:
            right = str(int(each.value) // _MIB)
            whole = int(each.value) % _MIB == 0
            message = f"a size without a unit is MiB: {each.value} is {int(each.value) / _MIB:.0f} TiB"
            yield Issue(
                each.line,
                key,
                message,
                f"{right}, if bytes were meant",
                partial(_set, place=place, value=right) if whole else None,
            )
            continue
        try:
            value = read(knob, each.value)
        except ValueError as error:
            yield Issue(each.line, key, str(error), f"like {300 if knob.unit == 'bytes' else knob.default}")
            continue
        if each.name == "buffer-size" and value < _LEAST_BUFFER:
            yield Issue(each.line, key, f"juicefs takes 32 MiB at least and uses them instead of {each.value}", "32 or more")


def _together(text: str) -> Iterator[Issue]:
    """What only all settings together show."""
    try:
        now = present(text, {})
    except WrongUsage:
        return
    places = {each.name: each.line for each in mountline.settings(text, PROGRAM, SWITCHES)}
    named = {each.name: each.value for each in mountline.settings(text, PROGRAM, SWITCHES)}
    if named.get("cache-size") == "0" and named.get("prefetch", "0") != "0":
        yield Issue(
            places["prefetch"], "--prefetch", "with --cache-size 0 juicefs turns prefetch off", "remove one of the two"
        )
    if max(int(now["max_readahead"]), int(now["buffer_size"])) >= _BYTES_MEANT * _MIB:
        return  # bytes were meant, which has been said
    line = places.get("max-readahead", places.get("buffer-size"))
    if line is not None and (broken := SPACE.broken(now)):
        yield Issue(line, "--max-readahead", broken[0], "a smaller max-readahead or a larger buffer-size")


def _rename(text: str, place: int, name: str) -> str:
    return mountline.renamed(text, mountline.settings(text, PROGRAM, SWITCHES)[place], name)


def _set(text: str, place: int, value: str) -> str:
    each = mountline.settings(text, PROGRAM, SWITCHES)[place]
    return f"{text[: each.start]}{value}{text[each.end :]}"
