"""JuiceFS' own spelling of settings: options of juicefs mount, and sizes."""

from __future__ import annotations

import re

from spaces.juicefs import GRANTED, SPACE
from spaces.space import Config, Knob

_MIB = 1 << 20
_SIZE = re.compile(r"(?P<number>\d{1,12}(?:\.\d{1,6})?)(?P<unit>[KMGTPEkmgtpe]?)(?:i?[Bb])?")
_POWER = {"k": 1, "m": 2, "g": 3, "t": 4, "p": 5, "e": 6}

# What only the kernel has is no option of juicefs; it is written behind the mount.
KNOBS: dict[str, Knob] = {
    "max-readahead": SPACE["max_readahead"],
    "buffer-size": SPACE["buffer_size"],
    "prefetch": SPACE["prefetch"],
    "max-downloads": SPACE["max_downloads"],
}
SWITCHES = frozenset({"d", "background", "read-only", "writeback", "cache-partial-only", "no-usage-report", "no-bgjob",
                      "enable-xattr", "update-fstab", "no-syslog", "force"})  # fmt: skip


def values(config: Config) -> dict[str, str]:
    """Option and value of each knob: sizes are whole MiB to every version."""
    whole = {**SPACE.default, **config}
    return {name: str(int(whole[knob.name]) // (_MIB if knob.unit == "bytes" else 1)) for name, knob in KNOBS.items()}


def ahead(config: Config) -> int:
    """Bytes of the kernel's read-ahead; what it grants by itself needs no line."""
    return int({**SPACE.default, **config}["kernel_read_ahead"])


def read(knob: Knob, text: str) -> int:
    """What juicefs takes ``text`` for. Raises ValueError with a sentence."""
    if knob.unit == "bytes":
        return size(text)
    if not re.fullmatch(r"\d{1,9}", text):
        raise ValueError(f"{text!r} is no whole number")
    return int(text)


def size(text: str) -> int:
    """Bytes as juicefs counts them: a number alone is MiB. Raises ValueError."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no size to juicefs: it takes 300, which is MiB, or 300M")
    unit = match["unit"].lower()
    count = float(match["number"]) * (1024 ** _POWER[unit] if unit else _MIB)
    if count != int(count):
        raise ValueError(f"{text!r} is not a whole number of bytes")
    return int(count)


__all__ = ["GRANTED", "KNOBS", "SWITCHES", "ahead", "read", "size", "values"]
