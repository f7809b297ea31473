"""Values that name other keys, as ${alluxio.work.dir}/logs, and lead back to themselves: start-up throws."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from runners.alluxio.properties import Entry, entries
from runners.alluxio.values import trimmed
from tuner.exporters.issue import Issue

_REFERENCE = re.compile(r"\$\{([^{}]*)\}")


def circles(text: str) -> Iterator[Issue]:
    counting = {trimmed(entry.key): entry for entry in entries(text) if not entry.broken}
    for key, entry in counting.items():
        if (way := _back(key, counting)) is not None:
            message = f"leads back to itself ({' -> '.join(way)}): start-up ends with an error"
            yield Issue(entry.line, key, message, "write the value out")


def _back(key: str, counting: Mapping[str, Entry]) -> list[str] | None:
    """The way from a key over references back to it; None where there is none."""
    ways = [[key]]
    seen = set()
    while ways:
        way = ways.pop()
        entry = counting.get(way[-1])
        for name in _REFERENCE.findall(entry.value) if entry else ():
            if name == key:
                return [*way, key]
            if name not in seen:
                seen.add(name)
                ways.append([*way, name])
    return None
