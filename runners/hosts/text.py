"""Reads a file of hosts as lines of text, or says in a sentence why it can't be one."""

from __future__ import annotations

import stat
from pathlib import Path

from runners.runner import UsageError

MOST_BYTES = 4 << 20


def read_lines(path: Path, shown: str) -> list[str]:
    """The lines of a text file in UTF-8; ``shown`` is how a message names it. Raises UsageError."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise UsageError("hosts", shown, "this is a folder; name a file with one host a line")
        if not stat.S_ISREG(mode) and not stat.S_ISFIFO(mode):
            raise UsageError("hosts", shown, "this is not a file; name a file with one host a line")
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except UsageError:
        raise
    except FileNotFoundError:
        raise UsageError(
            "hosts", shown, "there is no such file; name a file with one host a line, or hosts like a,b:4"
        ) from None
    except OSError as error:
        raise UsageError("hosts", shown, f"the file can't be read: {error.strerror or error}") from None
    except ValueError:
        raise UsageError("hosts", repr(shown), "a path can't hold a zero byte") from None
    if len(data) > MOST_BYTES:
        raise UsageError("hosts", shown, f"the file is larger than {MOST_BYTES >> 20} MiB; a list of hosts is not")
    if b"\0" in data:
        raise UsageError("hosts", shown, "this is not a text file; name a file with one host a line")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError("hosts", shown, f"line {line} is not UTF-8 text") from None
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
