"""How ranks of a job talk beside oneCCL: lines of JSON between rank 0 and the others. Part of the text sent to ranks.

Waiting for a line sleeps in the kernel: a job that is not asked for anything takes no CPU time.
"""

from __future__ import annotations

import json
import socket
import time
from typing import Any


class Wire:
    """One connection."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._file = line.makefile("rb")

    def say(self, what: dict[str, Any]) -> None:
        self._line.sendall(json.dumps(what).encode() + b"\n")

    def hear(self) -> dict[str, Any]:
        """The next thing said; raises EOFError when the other side is gone."""
        try:
            line = self._file.readline()
        except OSError as error:
            raise EOFError from error
        if not line:
            raise EOFError
        return dict(json.loads(line.decode()))


def meet(spec: dict[str, Any]) -> list[Wire]:
    """On rank 0 the other ranks in order, on them rank 0 only. Raises OSError where they can't come together.

    ``spec`` holds rank, ranks, token, patience in seconds, and where rank 0 is: host and port, or host "" for a name that only
    this machine has.
    """
    return _host(spec) if spec["rank"] == 0 else [_guest(spec)]


def _host(spec: dict[str, Any]) -> list[Wire]:
    found: dict[int, Wire] = {}
    with _listener(spec) as server:
        server.settimeout(spec["patience"])
        while len(found) < spec["ranks"] - 1:
            line, _ = server.accept()
            line.settimeout(5)
            wire = Wire(line)
            try:
                told = wire.hear()
            except (EOFError, ValueError):
                line.close()
                continue
            if told.get("token") != spec["token"] or told.get("rank") not in range(1, spec["ranks"]):
                line.close()
                continue
            line.settimeout(None)
            found[told["rank"]] = wire
    return [found[rank] for rank in sorted(found)]


def _listener(spec: dict[str, Any]) -> socket.socket:
    if not spec["host"]:
        server = socket.socket(socket.AF_UNIX)
        server.bind("\0clustertune-" + spec["token"])
    else:
        family = socket.AF_INET6 if ":" in spec["host"] else socket.AF_INET
        server = socket.socket(family)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((spec["host"], spec["port"]))
    server.listen(1024)
    return server


def _guest(spec: dict[str, Any]) -> Wire:
    until = time.monotonic() + spec["patience"]
    while True:
        try:
            if spec["host"]:
                line = socket.create_connection((spec["host"], spec["port"]), 5)
                line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            else:
                line = socket.socket(socket.AF_UNIX)
                line.connect("\0clustertune-" + spec["token"])
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)
            continue
        line.settimeout(None)
        wire = Wire(line)
        wire.say({"token": spec["token"], "rank": spec["rank"]})
        return wire
