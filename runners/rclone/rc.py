"""rclone's remote control over a socket in a folder of ours: its counters, and the options that a mount really runs with."""

from __future__ import annotations

import http.client
import json
import socket
from pathlib import Path
from typing import Any, cast


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def call(path: Path, command: str, timeout: float = 5.0) -> dict[str, Any]:
    """The answer to a command without parameters, like core/stats. Raises OSError where there is none."""
    connection = _Connection(path, timeout)
    try:
        connection.request("POST", f"/{command}", body=b"{}", headers={"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read(1 << 20)
        if answer.status != 200:
            raise OSError(f"rclone answers {answer.status} to {command}")
        found = json.loads(text)
    except (http.client.HTTPException, ValueError) as error:
        raise OSError(f"rclone's answer to {command} can't be read: {error}") from None
    finally:
        connection.close()
    if not isinstance(found, dict):
        raise OSError(f"rclone's answer to {command} is no object")
    return cast("dict[str, Any]", found)
