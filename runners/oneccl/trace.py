"""The messages of a job: sizes and how often each is sent, from ``--sizes`` or from a recorded file (``--trace``)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runners.runner import UsageError
from spaces.units import format_size, parse_size

# No host's memory holds a larger message, and no job sends one more often.
LARGEST = 1 << 40
MOST_OFTEN = 10**15
_MOST_BYTES = 64 << 20
_SIZE_NAMES = {"size", "bytes", "message_size", "msg_size", "size_bytes", "message_bytes", "nbytes"}
_COUNT_NAMES = {"count", "counts", "calls", "times", "n", "number", "frequency", "weight"}


@dataclass(frozen=True, slots=True)
class Message:
    """``size`` in bytes, above 0; ``count`` is how often it is sent, relative to the others."""

    size: int
    count: int = 1


def parse_sizes(text: str) -> tuple[Message, ...]:
    """The messages of ``--sizes``: ``1K,64K,4M``, or with counts ``1K:100,4M``; by size, equal ones added up.

    Raises UsageError.
    """
    found = []
    for part in text.split(","):
        size, colon, count = part.strip().partition(":")
        try:
            found.append(Message(_size(size), _count(count) if colon else 1))
        except ValueError as error:
            raise UsageError("sizes", text, str(error)) from None
    return _added(found)


def read_trace(path: Path | str) -> tuple[Message, ...]:
    """The messages of a trace file (parse_trace). Raises UsageError."""
    shown = str(path)
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        raise UsageError("trace", shown, "there is no such file; name a CSV file with lines like 65536,120") from None
    except IsADirectoryError:
        raise UsageError("trace", shown, "this is a folder; name a CSV file with lines like 65536,120") from None
    except (OSError, ValueError) as error:
        raise UsageError("trace", shown, f"the file can't be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > _MOST_BYTES:
        raise UsageError("trace", shown, f"the file is larger than {_MOST_BYTES >> 20} MiB; add up equal sizes first")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError("trace", shown, f"line {line} is not UTF-8 text") from None
    return parse_trace(text, shown)


def parse_trace(text: str, shown: str) -> tuple[Message, ...]:
    """Lines ``size,count``, or of a size alone that counts once; by size, equal ones added up.

    Sizes may have units; a first line of names may say which column is which; ``#`` begins a comment; columns are parted by
    commas, semicolons, tabs or blanks. ``shown`` is how a message names the file. Raises UsageError with the line's number.
    """
    columns: tuple[int, int | None] | None = None
    found = []
    for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        plain = line.partition("#")[0].strip()
        if not plain:
            continue
        fields = _fields(plain)
        try:
            if columns is None:
                columns = _header(fields)
                if columns is not None:
                    continue
                columns = (0, 1 if len(fields) > 1 else None)
                if len(fields) > 2:
                    raise ValueError(f"has {len(fields)} columns; a line is size,count, or a first line names the columns")
            found.append(_message(fields, columns))
        except ValueError as error:
            raise UsageError("trace", shown, f"line {number}: {error}") from None
    if not found:
        raise UsageError("trace", shown, "no message is in it; a line is size,count, like 65536,120")
    return _added(found)


def _fields(line: str) -> list[str]:
    for separator in (",", ";", "\t"):
        if separator in line:
            return [field.strip().strip("\"'").strip() for field in line.split(separator)]
    return line.split()


def _header(fields: Sequence[str]) -> tuple[int, int | None] | None:
    """Columns of size and count where ``fields`` are names; None where they are figures. Raises ValueError."""
    names = [re.sub(r"\W+", "_", field.lower()).strip("_") for field in fields]
    if all(re.match(r"[\d.+-]", field) or not field for field in fields):
        return None
    size = next((place for place, name in enumerate(names) if name in _SIZE_NAMES), None)
    if size is None:
        if any(re.match(r"\d", field) for field in fields):
            return None
        raise ValueError("no column is called 'size'; a line is size,count, or a first line names the columns")
    count = next((place for place, name in enumerate(names) if name in _COUNT_NAMES), None)
    return size, count


def _message(fields: Sequence[str], columns: tuple[int, int | None]) -> Message:
    size, count = columns
    last = max(size, count or 0)
    if len(fields) <= last:
        raise ValueError(f"has {len(fields)} {'column' if len(fields) == 1 else 'columns'}, and {last + 1} are needed")
    for column in (size, *(() if count is None else (count,))):
        if not re.match(r"[\d.+-]", fields[column]):  # not shown: a file that is no trace may hold what nobody should read
            raise ValueError(f"column {column + 1} is no number; write size,count, like 65536,120")
    return Message(_size(fields[size]), 1 if count is None else _count(fields[count]))


def _size(text: str) -> int:
    size = parse_size(text)
    if not 1 <= size <= LARGEST:
        raise ValueError(f"{text!r} is no message: sizes go from 1 byte to {format_size(LARGEST)}")
    return size


def _count(text: str) -> int:
    stripped = text.strip()
    if not re.fullmatch(r"[0-9]{1,16}", stripped) or not 1 <= int(stripped) <= MOST_OFTEN:
        raise ValueError(f"{text[:40]!r} is not how often a message is sent; write a whole number of at least 1")
    return int(stripped)


def _added(messages: Sequence[Message]) -> tuple[Message, ...]:
    counts: dict[int, int] = {}
    for message in messages:
        counts[message.size] = counts.get(message.size, 0) + message.count
    return tuple(Message(size, counts[size]) for size in sorted(counts))
