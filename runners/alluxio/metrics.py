"""The metrics of a FUSE process, where its web server is on: bytes that it got from workers or the store."""

from __future__ import annotations

import http.client
import re
from collections.abc import Mapping

from runners.alluxio.properties import Entry
from runners.alluxio.values import BadText, read_int, trimmed
from spaces.alluxio import BY_NAME

_PATH = "/metrics/prometheus"
_LARGEST = 4 << 20
# Counters of what came from outside of the client, in the order of how much of it they see.
_COUNTERS = ("Client_CacheBytesReadExternal", "Client_BytesReadRemote", "Client_BytesReadFromWorker", "Client_BytesReadUfs")
_LINE = re.compile(r"^(?P<name>[A-Za-z_:][\w:]*)(?:\{[^}]*\})?\s+(?P<value>[0-9.eE+]+)\s*$", re.MULTILINE)


def port(present: Mapping[str, Entry]) -> int | None:
    """The port that a site file gives the FUSE process's web server; None where it is off."""
    enabled = present.get("alluxio.fuse.web.enabled")
    if enabled is None or trimmed(enabled.value).lower() != "true":
        return None
    named = present.get("alluxio.fuse.web.port")
    try:
        return read_int(trimmed(named.value) if named else BY_NAME["alluxio.fuse.web.port"].default)
    except BadText:
        return None


def received(text: str) -> int | None:
    """Bytes from outside in a page of metrics; None where no counter of it is there."""
    values = {match["name"].removesuffix("_total"): match["value"] for match in _LINE.finditer(text)}
    for name in _COUNTERS:
        if name in values:
            try:
                return int(float(values[name]))
            except (ValueError, OverflowError):
                continue
    return None


def read(port: int, timeout: float = 2.0) -> int | None:
    """The counter of the FUSE process on this host; None where it doesn't answer or tells none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("GET", _PATH)
        answer = connection.getresponse()
        if answer.status != 200:
            return None
        return received(answer.read(_LARGEST).decode(errors="replace"))
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
