"""Commands that start something which is to stay, like a FUSE process in the background: they alone are waited for."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from runners.process import signal_name
from runners.runner import Failure


def call(argv: Sequence[str], *, limit: float, env: Mapping[str, str], cwd: Path) -> Failure | None:
    """Runs ``argv`` to its end, within ``limit`` seconds; what it started and left running stays. None where all went well.

    Its output goes to a file without a name: a program in the background that keeps it open holds up nobody. The log of a
    failure is for whoever asks; a command may print credentials, and so a reason never holds any of it.
    """
    name = Path(argv[0]).name
    begun = time.monotonic()
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(env),
                cwd=cwd,
                start_new_session=True,
            )
        except OSError as error:
            return Failure("environment", f"{name} can't be started: {error.strerror or error}")
        try:
            status = process.wait(limit)
        except BaseException as error:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            return Failure("timeout", f"{name} did not end within {limit:.1f} s", "", time.monotonic() - begun)
    if status == 0:
        return None
    how = f"ended with status {status}" if status > 0 else f"was ended by {signal_name(-status)}"
    return Failure("crash", f"{name} {how}", "", time.monotonic() - begun)
