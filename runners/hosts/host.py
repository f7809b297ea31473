"""One host of a cluster, and what may be its name."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

MOST_SLOTS = 65536
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?", re.ASCII)
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}\$?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Host:
    """A name or address that ssh understands, ranks that fit on it, and how to log in where that isn't ssh's default."""

    name: str
    slots: int = 1
    user: str | None = None
    port: int | None = None


class BadEntry(ValueError):
    """Why an entry can't be used, as the end of a sentence; never holds more of a line than what is a name."""


def checked_name(text: str) -> str:
    """``text`` as a host's name or address, brackets of an IPv6 address removed. Raises BadEntry."""
    if text.startswith("-"):
        raise BadEntry(f"{shown(text)} begins with '-': a host's name begins with a letter or a digit")
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if ":" in bare:
        if "%" in bare:
            raise BadEntry(f"{shown(text)} names an interface after '%'; write a global address or a name")
        try:
            return str(ipaddress.IPv6Address(bare))
        except ValueError:
            raise BadEntry(f"{shown(text)} is neither a host's name nor an IPv6 address") from None
    if not bare:
        raise BadEntry("a host's name is missing")
    if bare.isdigit():
        raise BadEntry(f"{shown(bare)} is a number; write the names of the hosts")
    if re.fullmatch(r"[0-9.]+", bare):
        try:
            return str(ipaddress.IPv4Address(bare))
        except ValueError:
            raise BadEntry(f"{shown(bare)} is not an IPv4 address; write four numbers from 0 to 255, like 192.0.2.1") from None
    if len(bare) > 253 or not _NAME.fullmatch(bare):
        raise BadEntry(f"{shown(text)} is not a host's name; letters, digits, '-', '_' and '.' make one")
    return bare


def checked_slots(text: str, what: str = "slots") -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII) or not 1 <= int(text) <= MOST_SLOTS:
        raise BadEntry(f"{what} must be a whole number from 1 to {MOST_SLOTS}, like 4")
    return int(text)


def checked_port(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII) or not 1 <= int(text) <= 65535:
        raise BadEntry("the port must be a whole number from 1 to 65535, like 22")
    return int(text)


def checked_user(text: str) -> str:
    if not _USER.fullmatch(text):
        raise BadEntry("the user's name must be of letters, digits, '_', '-' and '.', and not begin with '-'")
    return text


def shown(text: str) -> str:
    """A word of the user's for a message: short, printable, and without what may be a secret."""
    kept = re.split(r"[=:]", text, maxsplit=1)[0] if secret(text) or "=" in text else text
    tail = "…" if len(kept) > 60 or kept != text else ""
    return repr(kept[:60] + tail)


def secret(key: str) -> bool:
    """Whether a key, or a word, speaks of something that must not be kept or shown."""
    return bool(re.search(r"pass|pwd|secret|token|credential|private|api_?key|vault|become", key, re.IGNORECASE))
