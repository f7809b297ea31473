"""Which values of a site file nobody but its reader may see, and texts with them hidden."""

from __future__ import annotations

import re

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
