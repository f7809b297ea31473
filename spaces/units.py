"""Sizes, durations, flags and lists of values as people write them: 128K, 4MB, 90s, 1,2,4, 128K:8M."""

from __future__ import annotations

import re

_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<prefix>[KMGTP]?)(?:i?B)?", re.IGNORECASE | re.ASCII)
_POWER = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
# No machine has more bytes or seconds than fit; longer numbers are slips, and floats overflow on them.
_LONGEST = 30
_TRUE = {"true", "yes", "on", "1"}
_FALSE = {"false", "no", "off", "0"}


def parse_size(text: str) -> int:
    """Bytes in ``text``: ``4096``, ``128K``, ``4M``, ``4MB``, ``4MiB``, ``1.5G``, in powers of 1024.

    Raises ValueError with a sentence when it is not a whole number of bytes.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None or len(text) > _LONGEST:
        raise ValueError(f"{text!r} is not a size; write it like 512K, 4M or 1G")
    scale: int = 1024 ** _POWER[match["prefix"].upper()]
    if "." not in match["number"]:
        return int(match["number"]) * scale
    size = float(match["number"]) * scale
    if size != int(size):
        raise ValueError(f"{text!r} is not a whole number of bytes")
    return int(size)


def format_size(size: int) -> str:
    """The shortest exact form of ``size`` bytes that parse_size reads back: 1048576 -> 1M."""
    for prefix in "PTGMK":
        scale = 1024 ** _POWER[prefix]
        if size and size % scale == 0:
            return f"{size // scale}{prefix}"
    return str(size)


def rough_size(size: float) -> str:
    """For a sentence: 2.25 GiB, and below one of these 62.5 MiB."""
    return f"{size / 2**30:.2f} GiB" if size >= 2**30 else f"{size / 2**20:.3g} MiB"


def parse_duration(text: str) -> float:
    """Seconds in ``text``: ``90``, ``90s``, ``2m``, ``1h30m``, ``500ms``; more than zero.

    Raises ValueError with a sentence.
    """
    stripped = text.strip().lower()
    if len(stripped) > _LONGEST:
        raise ValueError(f"{text[:_LONGEST]!r}… is not a duration; write it like 90s, 5m or 1h30m")
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", stripped):
        seconds = float(stripped)
    else:
        parts = _DURATION_PART.findall(stripped)
        if not parts or "".join(number + unit for number, unit in parts) != stripped:
            raise ValueError(f"{text!r} is not a duration; write it like 90s, 5m or 1h30m")
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if seconds <= 0:
        raise ValueError(f"{text!r} is no time at all; write it like 90s, 5m or 1h30m")
    return seconds


def format_duration(seconds: float) -> str:
    """A duration for people: 0.4 -> 0.4s, 96 -> 1m36s, 5400 -> 1h30m."""
    if seconds < 60:
        return f"{seconds:.1f}s" if seconds < 10 else f"{seconds:.0f}s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def parse_flag(text: str) -> bool:
    """True or False from true/false, yes/no, on/off, 1/0. Raises ValueError with a sentence."""
    lowered = text.strip().lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise ValueError(f"{text!r} is neither true nor false")


def parse_count(text: str) -> int:
    """A whole number >= 0, with K/M/G accepted as powers of 1024. Raises ValueError with a sentence."""
    stripped = text.strip()
    if not re.fullmatch(r"[0-9]+[KMGkmg]?", stripped):
        raise ValueError(f"{text!r} is not a whole number")
    return parse_size(stripped)
