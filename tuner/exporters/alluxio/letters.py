"""Letters that arrive at Alluxio as others: Java takes a properties file for ISO-8859-1, and editors write UTF-8."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from runners.alluxio.properties import Entry, entries, escaped
from runners.alluxio.secrets import is_secret
from runners.alluxio.values import trimmed
from tuner.exporters.issue import Issue

# A byte order mark, as text of ISO-8859-1 and as text that was read otherwise.
_MARKS = ("\xef\xbb\xbf", "\ufeff")


def letters(text: str) -> Iterator[Issue]:
    if text.startswith(_MARKS):
        message = (
            "Java takes the byte order mark for letters, so that the first line is neither a comment nor the key it shows"
        )
        yield Issue(1, "", message, "save the file without it", _unmarked)
    for entry in entries(text):
        written = text[entry.value_start : entry.value_end]
        meant = _meant(written)
        if meant is None or entry.broken:
            continue
        message = "Java takes the file for ISO-8859-1, so that letters written as UTF-8 arrive as others"
        # A credential that somebody made work as it arrives is not ours to change.
        edit = None if is_secret(trimmed(entry.key)) else partial(_rewritten, entry=entry, meant=meant)
        yield Issue(entry.line, trimmed(entry.key), message, "write them as \\uXXXX", edit)


def _unmarked(text: str) -> str:
    return next(text.removeprefix(mark) for mark in _MARKS if text.startswith(mark))


def _meant(written: str) -> str | None:
    """What the author wrote, where its bytes are UTF-8 and not plain ASCII; None where nothing is wrong."""
    if written.isascii():
        return None
    try:
        return written.encode("iso-8859-1").decode("utf-8")
    except UnicodeEncodeError:
        return written  # letters that no byte of ISO-8859-1 stands for
    except UnicodeDecodeError:
        return None


def _rewritten(text: str, entry: Entry, meant: str) -> str:
    ascii_only = "".join(letter if letter.isascii() else escaped(letter) for letter in meant)
    return text[: entry.value_start] + ascii_only + text[entry.value_end :]
