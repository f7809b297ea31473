"""Values of properties as Alluxio reads them, which is stricter, and in places laxer, than people think."""

from __future__ import annotations

import re

from spaces.alluxio import Kind, Version

_SIZE = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>b|kb?|mb?|gb?|tb?|pb?)?", re.IGNORECASE)
_BINARY = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>[kmgtp])ib", re.IGNORECASE)
_POWER = {"": 0, "b": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_DURATION = re.compile(r"-?[0-9]+(ms|millisecond|s|sec|second|m|min|minute|h|hour|d|day)?", re.IGNORECASE)
_INTEGER = re.compile(r"[+-]?[0-9]+")
_COMMENT = re.compile(r"(?P<value>\S+)\s+(?P<comment>[#!].*)", re.DOTALL)
_MEANS_TRUE = frozenset(("yes", "on", "1", "y", "t", "enable", "enabled"))
_MEANS_FALSE = frozenset(("no", "off", "0", "n", "f", "disable", "disabled", "false", ""))
_INT_LIMIT, _LONG_LIMIT = 2**31, 2**63
_LONGEST = 40  # no number that anybody means is longer
# Read as a size and then kept in 32 bits; start-up fails where that isn't enough.
_SIZES_OF_32_BITS = frozenset(("alluxio.user.file.buffer.bytes",))


class BadText(ValueError):
    """A value that Alluxio can't use as what its key is for; ``meant`` is the right spelling, "" where only a user knows."""

    def __init__(self, why: str, meant: str = "") -> None:
        self.why, self.meant = why, meant
        super().__init__(why)


def trimmed(text: str) -> str:
    """Keys and values as Alluxio takes them from Java: without control characters and blanks around them."""
    return text.strip("".join(map(chr, range(0x21))))


def read_size(text: str, version: Version | None = None) -> int:
    """Bytes. Raises BadText."""
    if len(text) > _LONGEST:
        raise BadText(f"{text[:_LONGEST]!r}… is no size: sizes are written like 512KB, 4MB or 1GB")
    match = _SIZE.fullmatch(text)
    if match is None:
        binary = _BINARY.fullmatch(text)
        if binary and version is not None and version.line == "enterprise" and not re.search(r"\s", text):
            return _bytes(binary["number"], binary["unit"])
        if binary:
            where = "" if re.search(r"\s", text) else " on open source versions"
            raise BadText(f"{text!r} is no size and throws{where}", f"{binary['number']}{binary['unit'].upper()}B")
        close = re.sub(r"\s+", "", text)
        meant = close if re.search(r"\s", text) and _SIZE.fullmatch(close) else ""
        why = "a blank before the unit throws" if meant else "sizes are written like 512KB, 4MB or 1GB"
        raise BadText(f"{text!r} is no size: {why}", meant)
    number = _bytes(match["number"], match["unit"] or "")
    if number >= _LONG_LIMIT:
        raise BadText(f"{text!r} is more than a 64-bit number holds")
    return number


def _bytes(number: str, unit: str) -> int:
    scale: int = 1024 ** _POWER[unit[:1].lower()]
    return int(number) * scale if "." not in number else int(float(number) * scale)


def read_int(text: str, limit: int = _INT_LIMIT) -> int:
    """A whole number of Java's int, or long. Raises BadText."""
    if _INTEGER.fullmatch(text) and len(text) < _LONGEST and -limit <= int(text) < limit:
        return int(text)
    close = text.strip()
    raise BadText(
        f"{text!r} is no whole number that Java holds; it fails when it is first used",
        re.sub(r"[_,']", "", close) if re.fullmatch(r"[0-9]{1,3}(?:[_,'][0-9]{3})+", close) else "",
    )


def read_bool(text: str) -> bool:
    """True only for the word true; raises BadText for a word that people write for true and that means false here."""
    lowered = text.lower()
    if lowered == "true":
        return True
    if lowered in _MEANS_FALSE:
        return False
    raise BadText(f"{text!r} means false: only true is true", "true" if lowered in _MEANS_TRUE else "")


def check_duration(text: str) -> None:
    """Raises BadText for what is no duration."""
    if _DURATION.fullmatch(text):
        return
    close = re.sub(r"\s+", "", text)
    meant = close if _DURATION.fullmatch(close) else ""
    raise BadText(f"{text!r} is no duration; they are written like 500ms, 30s, 10min, 2h or 1d, without decimals", meant)


def check(key: str, kind: Kind, text: str, version: Version | None = None) -> None:
    """Raises BadText where Alluxio can't use ``text`` as the value of ``key``."""
    if kind == "size":
        number = read_size(text, version)
        if key in _SIZES_OF_32_BITS and number >= _INT_LIMIT:
            raise BadText(f"{text!r} is more than the 2 GB that it may have; start-up fails")
    elif kind in ("int", "long"):
        read_int(text, _INT_LIMIT if kind == "int" else _LONG_LIMIT)
    elif kind == "bool":
        read_bool(text)
    elif kind == "duration" and text:
        check_duration(text)


def split_comment(text: str) -> tuple[str, str]:
    """A value and the comment that somebody wrote behind it, "" where there is none; to Java the comment is of the value."""
    match = _COMMENT.fullmatch(text)
    return (match["value"], match["comment"]) if match else (text, "")
