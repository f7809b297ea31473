"""What root gives the kernel's side of a mount once it is mounted: shell lines, found in files of users and changed there."""

from __future__ import annotations

import re
from collections.abc import Iterator

from spaces.background import CONNECTIONS, congestion_threshold
from tuner.exporters.issue import Issue

# What the kernel gives every FUSE mount by itself.
GRANTED = 128 << 10
_BACKGROUND, _CONGESTED = (
    re.compile(
        # Up to the file's name, but not into the next such command of the line.
        rf"\becho[ \t]+(?P<count>\d{{1,5}})[ \t]*>[ \t]*[\"']?{CONNECTIONS}/(?:(?!\becho[ \t]+\d)[^\n])*?/{name}\b"
    )
    for name in ("max_background", "congestion_threshold")
)


def commands(point: str, read_ahead: int, max_background: int) -> list[str]:
    """Shell commands, one a line; ``point`` is the shell's word for where it is mounted. What needs none has none."""
    found = []
    if read_ahead > GRANTED:
        found.append(f'echo {read_ahead >> 10} >"/sys/class/bdi/$(mountpoint -d {point})/read_ahead_kb"')
    if max_background:
        folder = f"{CONNECTIONS}/$(mountpoint -d {point} | cut -d: -f2)"
        found.append(f'echo {max_background} >"{folder}/max_background"')
        found.append(f'echo {congestion_threshold(max_background)} >"{folder}/congestion_threshold"')
    return found


def max_background(text: str) -> int:
    """The limit that a file sets, 0 where it leaves it alone."""
    match = _BACKGROUND.search(text)
    return int(match["count"]) if match else 0


def with_max_background(text: str, wanted: int) -> tuple[str, tuple[str, ...]]:
    """``text`` with the limit changed where it sets one, and what is left to be done by hand, a sentence each."""
    if wanted == max_background(text):
        return text, ()
    if not wanted:
        # The kernel takes a 0 for none at all: it is no value to be written.
        return text, ("take out what sets max_background: it was best left alone",)
    if not _BACKGROUND.search(text):
        return text, (f"once mounted, as root: {'; '.join(commands('DIR', 0, wanted))}",)
    for pattern, count in ((_BACKGROUND, wanted), (_CONGESTED, congestion_threshold(wanted))):
        if match := pattern.search(text):
            text = f"{text[: match.start('count')]}{count}{text[match.end('count') :]}"
    return text, ()


def lint(text: str) -> Iterator[Issue]:
    """A limit that is raised in vain."""
    match = _BACKGROUND.search(text)
    if match and not _CONGESTED.search(text):
        wanted = congestion_threshold(int(match["count"]))
        yield Issue(
            text.count("\n", 0, match.start()) + 1,
            "max_background",
            f"max_background {match['count']} alone does little: congestion_threshold, where read-ahead ends, stays as it was",
            f"beside it: echo {wanted} >{CONNECTIONS}/$(mountpoint -d DIR | cut -d: -f2)/congestion_threshold",
        )
