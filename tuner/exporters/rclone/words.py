"""rclone's own spelling of settings: options, variables, sizes and switches."""

from __future__ import annotations

import re

from runners.rclone.words import LIVE, spelled
from spaces.rclone import SPACE
from spaces.space import Config, Knob, Value

_SIZE = re.compile(r"(?P<number>\d{1,15}(?:\.\d{1,6})?)(?P<unit>[BbKkMmGgTtPp]?)(?P<i>i?)(?P<b>[Bb]?)")
_POWER = {"": 1, "b": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_TRUE = frozenset({"1", "t", "T", "true", "True", "TRUE"})
_FALSE = frozenset({"0", "f", "F", "false", "False", "FALSE"})

# What only the kernel has is no option of rclone; it is written behind the mount.
KNOBS = {knob.name.replace("_", "-"): knob for knob in SPACE.knobs if knob.name in LIVE}
SWITCHES = frozenset(
    {"async-read", "read-only", "allow-other", "allow-non-empty", "daemon", "rc", "no-checksum", "no-modtime"}
)


def variable(name: str) -> str:
    """The environment variable of an option."""
    return f"RCLONE_{name.upper().replace('-', '_')}"


def values(config: Config) -> dict[str, str]:
    """Option and value of each knob, as rclone reads them. Knobs that an older study doesn't know keep their defaults."""
    whole = {**SPACE.default, **config}
    return {name: spelled(whole[knob.name], knob.unit) for name, knob in KNOBS.items()}


def read(knob: Knob, text: str) -> Value:
    """What rclone takes ``text`` for. Raises ValueError with a sentence where it takes it for nothing that is tuned."""
    if knob.domain.kind == "flag":
        if text in _TRUE:
            return True
        if text in _FALSE:
            return False
        raise ValueError(f"{text!r} is no switch to rclone: it takes true or false")
    if knob.unit == "bytes":
        return size(text)
    if not re.fullmatch(r"\d{1,9}", text):
        raise ValueError(f"{text!r} is no whole number")
    return int(text)


def size(text: str) -> int:
    """Bytes as rclone counts them: in powers of 1024, and a number alone is KiB. Raises ValueError."""
    match = _SIZE.fullmatch(text.strip())
    if (
        match is None
        or (match["i"] and match["unit"].lower() in ("", "b"))
        or (match["b"] and match["unit"].lower() in ("", "b"))
    ):
        if text.strip().lower() == "off":
            raise ValueError("off means without a limit, which is not measured")
        raise ValueError(f"{text!r} is no size to rclone: it takes 4M, 512K or 1G")
    count = float(match["number"]) * 1024 ** _POWER[match["unit"].lower()]
    if count != int(count):
        raise ValueError(f"{text!r} is not a whole number of bytes")
    return int(count)
