"""Which values of a site file nobody but its reader may see, and texts with them hidden."""

from __future__ import annotations

import re
from collections.abc import Iterable

from runners.alluxio.properties import entries
from spaces.alluxio import BY_NAME

HIDDEN = "********"

_SECRET = re.compile(
    r"secret|passw|token|credential|private|license|access\.?key|account\.?key|api\.?key|sas\.|\.sas|jaas|keytab|principal",
    re.IGNORECASE,
)
_IN_ADDRESS = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def is_secret(key: str) -> bool:
    """Whether the value of ``key`` may be a credential."""
    return key not in BY_NAME and _SECRET.search(key) is not None


def masked(text: str) -> str:
    """A site file with the values of secret keys hidden, and names and passwords in addresses; as many lines as before.

    Comments are kept but for entries in them, which are hidden as if they counted: people comment credentials out.
    """
    for entry in reversed(entries(text)):
        if is_secret(entry.key):
            continued = "".join(re.findall(r"\r\n|\r|\n", text[entry.value_start : entry.value_end]))
            text = text[: entry.value_start] + HIDDEN + continued + text[entry.value_end :]
    return _IN_ADDRESS.sub(HIDDEN, "".join(_comment(line) for line in re.split(r"(\r\n|\r|\n)", text)))


def _comment(line: str) -> str:
    match = re.fullmatch(r"(?P<head>[ \t\f]*[#!][^=:]*?(?P<key>[\w.-]+)[ \t]*[=:][ \t]*)(?P<value>.+)", line)
    return match["head"] + HIDDEN if match and is_secret(match["key"]) else line


def values(text: str, options: Iterable[str]) -> list[str]:
    """What a site file and options like NAME=VALUE hold that nobody may see, the longest first."""
    pairs = [(entry.key, entry.value) for entry in entries(text)]
    pairs += [(name, value) for name, equals, value in (each.partition("=") for each in options) if equals]
    # One or two letters are in every text, and are no credential that was worth one.
    return sorted({value for key, value in pairs if is_secret(key) and len(value) > 2}, key=len, reverse=True)


def without(text: str, secrets: Iterable[str]) -> str:
    """``text`` with each of ``secrets`` hidden: for what programs print, which may be their whole command line."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text
