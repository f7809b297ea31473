"""Versions of Alluxio as people write them, and the three product lines whose keys differ."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Line = Literal["enterprise", "open3", "open2"]
TITLES: dict[Line, str] = {"enterprise": "enterprise 3.x", "open3": "open source 3.x", "open2": "2.x"}

_NUMBER = re.compile(r"(?<![\d.])(\d{1,3})(?:\.(\d{1,3}))?(?:\.\d{1,5})*")
_OPEN = re.compile(r"oss|open|snapshot|dora", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Version:
    """``number`` is (major, minor); an open source 3.x is (3, 0) whatever its build is called, as their keys are the same."""

    text: str
    line: Line
    number: tuple[int, int]

    @property
    def title(self) -> str:
        return f"{self.text} ({TITLES[self.line]})"


def parse_version(text: str) -> Version:
    """``2.9.5``, ``3.1``, ``AI-3.6-12.0.1`` (enterprise), ``oss-3``, ``304`` or ``305-SNAPSHOT`` (open source 3.x).

    Raises ValueError with a sentence.
    """
    stripped = text.strip()
    match = _NUMBER.search(stripped) if len(stripped) <= 60 else None
    if match is None:
        raise ValueError(f"{text[:60]!r} is no version; write it like 3.6, 2.9.5 or oss-3")
    major, minor = int(match[1]), int(match[2] or 0)
    # The builds of open source 3.x are numbered 300, 301, and so on.
    if 300 <= major < 400 or (major == 3 and _OPEN.search(stripped)):
        return Version(stripped, "open3", (3, 0))
    if major == 3:
        return Version(stripped, "enterprise", (3, minor))
    if major == 2:
        return Version(stripped, "open2", (2, minor))
    raise ValueError(f"{text!r}: Alluxio 2.x and 3.x are known here; write it like 3.6, 2.9.5 or oss-3")
