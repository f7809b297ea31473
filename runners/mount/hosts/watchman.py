"""Who puts a client host right when the program there is killed: a process of its own that waits for that and no longer.

The program's keeper ends all that the program started. Alluxio's mount has to be made again after that, by somebody whom
nobody ends; mounts and folders are cleared on the way.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

from runners.launch import carry
from runners.launch.marks import MARK
from runners.runner import EnvironmentProblem, UsageError

_MODULE = __name__
_WELL = b"well\n"


class Watchman:
    """``mark`` is in the environment of the process, by which others can wait for it."""

    def __init__(self, process: subprocess.Popen[bytes], mark: str) -> None:
        self._process, self.mark = process, mark

    @classmethod
    def start(cls, target: str, options: Mapping[str, Any]) -> Watchman:
        mark = f"watch{secrets.token_hex(8)}"
        line = carry.own_line()
        process = subprocess.Popen(
            [sys.executable, "-m", _MODULE] if line is None else carry.argv(sys.executable, _MODULE),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, MARK: mark},
            cwd="/" if line is not None else None,
            start_new_session=True,
        )
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.write((line or b"") + json.dumps({"target": target, "options": dict(options)}).encode() + b"\n")
            process.stdin.flush()
        process.wait()  # its child is nobody's child now
        return cls(process, mark)

    def dismiss(self) -> None:
        """All is well: it leaves."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(_WELL)
            self._process.stdin.close()


def main() -> None:
    request = json.loads(sys.stdin.buffer.readline())
    if os.fork():
        os._exit(0)
    if sys.stdin.buffer.read() != _WELL:
        from runners.mount.hosts.there import made

        # The mount of the user's that is made again is not ours to be found by.
        os.environ.pop(MARK, None)
        with suppress(UsageError, EnvironmentProblem, OSError):
            made(cast(str, request["target"]), request["options"]).recover()
    os._exit(0)


if __name__ == "__main__":
    main()
