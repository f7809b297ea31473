"""What torch says when a start fails, in two servers' and many versions' spellings, as one sentence a user can act on."""

from __future__ import annotations

import re

from runners.runner import Failure, FailureKind
from runners.tcpstore.fit import SPARE

_JOINED = re.compile(r"(\d+)/(\d+) clients joined")


def explain(
    kind: FailureKind, reason: str, said: str, *, clients: int, port: int, backend: str, nofile: int, free: int, host: str = ""
) -> Failure:
    """The failure of a start of ``clients`` ranks; ``port`` 0 where none was asked for.

    ``nofile`` is rank 0's limit of open files, ``free`` a port that nobody has where it failed, on ``host`` ("": this one).
    """
    words = f"{said} {reason}".lower()
    why = ""
    if "address already in use" in words or "eaddrinuse" in words:
        why = busy(port or _port_in(words), free, host)
    elif clients + SPARE > nofile and kind in ("crash", "timeout"):
        how = "the legacy server aborts there" if backend == "legacy" else "libuv's server throws clients off there"
        why = f"rank 0 ran out of open files ({clients + SPARE} needed, limit {nofile}; {how})"
    elif match := _JOINED.search(said):
        why = f"rank 0 waited in vain: {match[1]} of {match[2]} ranks joined"
    elif "while trying to connect" in words or "failed to connect" in words:
        why = "a rank found no server at rank 0's address and port"
    elif "libuv" in words and "without" in words:
        why = "this torch is built without libuv"
        kind = "infeasible"
    reason = f"on {host}: {reason}" if host else reason
    return Failure(kind, f"{why}: {reason}" if why and why not in reason else reason, said)


def busy(port: int, free: int, host: str = "") -> str:
    """The one sentence for a port that somebody has, with one that nobody has."""
    where = f"port {port}" if port else "the port"
    return f"{where} is in use on {host or 'this host'}; {free} is free"


def _port_in(words: str) -> int:
    match = re.search(r"port: ?(\d+)", words)
    return int(match[1]) if match else 0
