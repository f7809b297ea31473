"""Reads what oneCCL's own benchmark printed or wrote: tables and CSV files of all versions, by the names in their heads.

Source: examples/benchmark of oneCCL 2021.1 to 2022. Times are means over iterations, and over ranks unless said otherwise;
the benchmark's deviation is that between ranks and says nothing of how runs differ.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from runners.runner import Failure

_USEC = 1e-6
_DONE = "# All done"
_SHM = "/dev/shm is too small for the ranks' buffers: sudo mount -o remount,size=2G /dev/shm (a container: --shm-size=2g)"  # noqa: S108
_BUS_ERROR = re.compile(r"Bus error|KILLED BY SIGNAL: 7\b|signal 7\b|SIGBUS", re.IGNORECASE)
_WRONG = re.compile(r"^.*recv_bufs: .*expected .*got .*$", re.MULTILINE)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|-?(?:nan|inf)", re.IGNORECASE)
_SAID = re.compile(
    r"ASSERT|FAILED|CCL_ERROR|what\(\)|Fatal error|terminate called|BAD TERMINATION|error while loading", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Row:
    """One size. ``size`` in bytes (of all buffers), times in seconds, None where a version doesn't print them.

    ``repetitions`` are those that were really timed. ``deviation`` is between ranks, as a share of the mean.
    """

    size: int
    average: float
    fastest: float | None = None
    slowest: float | None = None
    repetitions: int | None = None
    elements: int | None = None
    deviation: float | None = None
    dtype: str = ""
    reduction: str = ""
    ranks: int | None = None

    @property
    def decisive(self) -> float:
        """The slowest rank's time, which is when a collective is over; the mean where that is not printed."""
        return self.average if self.slowest is None else self.slowest


@dataclass(frozen=True, slots=True)
class Table:
    """A finished run of one collective. ``options`` are those that the program said it took, by its own names."""

    collective: str
    ranks: int | None
    rows: tuple[Row, ...]
    options: Mapping[str, str] = field(default_factory=dict)


class _Damaged(Exception):
    """A row that can't be read, as the end of a sentence."""


def read_table(stdout: str, returncode: int, stderr: str = "") -> Table | Failure:
    """What a run printed. Failure "crash" where it did not end well (no row counts then), "wrong" for wrong results or sums
    of several collectives.
    """
    log = f"{stdout}\n{stderr}".strip()[-8000:]
    if wrong := _WRONG.search(stdout):
        return Failure("wrong", f"the benchmark found wrong results: {wrong[0].strip()[:300]}", log)
    if returncode != 0 or _DONE not in stdout:
        return _crash(stdout, returncode, stderr, log)
    options = _options(stdout)
    names = _collectives(stdout, options)
    if len(names) != 1:
        return _sum(names, log)
    ranks = _ranks(stdout, options)
    try:
        rows = tuple(_rows(stdout, ranks))
    except _Damaged as error:
        return Failure("crash", f"the benchmark's table can't be read: {error}; nothing of it is used", log)
    expected = _expected(options)
    if not rows or (expected is not None and len(rows) != expected):
        asked = "" if expected is None else f" of {expected}"
        return Failure("crash", f"the benchmark printed {len(rows)}{asked} rows of its table; nothing of it is used", log)
    return Table(names[0], ranks, rows, options)


def _crash(stdout: str, returncode: int, stderr: str, log: str) -> Failure:
    if _BUS_ERROR.search(stdout) or _BUS_ERROR.search(stderr):
        return Failure("crash", f"the benchmark died of a bus error: {_SHM}; none of its rows are used", log)
    lines = [*stderr.splitlines(), *stdout.splitlines()]
    said = next((line.strip() for line in lines if _SAID.search(line)), "")
    end = f"ended with status {returncode}" if returncode else f"ended without its last line, {_DONE!r}"
    return Failure("crash", f"the benchmark {end}; none of its rows are used{f': {said[:200]}' if said else ''}", log)


def _sum(names: Sequence[str], log: str) -> Failure:
    if not names:
        return Failure("crash", "the benchmark does not say which collective it ran; nothing of it is used", log)
    listed = " and ".join((", ".join(names[:-1]), names[-1]))
    reason = f"the benchmark's figures are sums over {listed}, and none of either alone: run one collective a call"
    return Failure("wrong", reason, log)


def _options(stdout: str) -> dict[str, str]:
    found: dict[str, str] = {}
    inside = False
    for line in stdout.splitlines():
        if line.strip() == "options:":
            inside = True
        elif inside and (match := re.fullmatch(r"\s+([A-Za-z_][\w ]*?):\s*(.*?)\s*", line)):
            found[match[1]] = match[2]
        elif inside and found and not line.strip():
            break
    return found


def _collectives(stdout: str, options: Mapping[str, str]) -> list[str]:
    banners = re.findall(r"^# Benchmarking:\s*(.*?)\s*$", stdout, re.MULTILINE)
    words = options.get("collectives") or " ".join(banners)
    return list(dict.fromkeys(word for word in re.split(r"[\s,]+", words) if word))


def _ranks(stdout: str, options: Mapping[str, str]) -> int | None:
    match = re.search(r"^# #processes:\s*(\d+)", stdout, re.MULTILINE)
    text = match[1] if match else options.get("processes", "")
    return int(text) if text.isdecimal() else None


def _expected(options: Mapping[str, str]) -> int | None:
    """Rows that the options promise: a size each, for each datatype and reduction; None where they don't say."""
    counts = re.fullmatch(r"\[(.*)\]", options.get("elem_counts", ""))
    if counts is None:
        return None
    number = len(counts[1].split())
    for name in ("datatypes", "reductions"):
        number *= max(1, len(options.get(name, "").replace(",", " ").split()))
    return number


def _rows(stdout: str, ranks: int | None) -> Iterator[Row]:
    head: list[str] | None = None
    dtype = reduction = ""
    for number, line in enumerate(stdout.splitlines(), 1):
        words = line.split()
        if match := re.fullmatch(r"\s*(datatype|dtype|reduction):\s*(\S*)\s*", line):
            head = None
            dtype, reduction = (dtype, match[2]) if match[1] == "reduction" else (match[2], reduction)
        elif words and words[0] == "#bytes":
            head = words
        elif head is not None and words and _NUMBER.fullmatch(words[0]):
            if len(words) != len(head) or not all(map(_NUMBER.fullmatch, words)):
                raise _Damaged(f"line {number} is {line.strip()[:80]!r}, and its head has {len(head)} columns")
            yield _row(dict(zip(head, words, strict=True)), number, dtype, reduction, ranks)


def _row(fields: Mapping[str, str], number: int, dtype: str, reduction: str, ranks: int | None) -> Row:
    average = next(
        (fields[name] for name in ("t_avg[usec]", "avg[usec]", "time", "avg_per_buf[usec]") if name in fields), None
    )
    if average is None:
        raise _Damaged("its head names no mean time")
    return Row(
        _whole(fields["#bytes"], number),
        _seconds(average, number),
        _optional(fields, "t_min[usec]", number),
        _optional(fields, "t_max[usec]", number),
        _whole(fields["#repetitions"], number) if "#repetitions" in fields else None,
        _whole(fields["#elem_count"], number) if "#elem_count" in fields else None,
        _share(fields.get("stddev[%]", "")),
        dtype,
        reduction,
        ranks,
    )


def _whole(text: str, number: int) -> int:
    if not text.isdecimal():
        raise _Damaged(f"line {number} has {text[:20]!r} where a whole number belongs")
    return int(text)


def _share(text: str) -> float | None:
    """A percentage as a share; None where there is none, or it is no number (the mean was 0)."""
    return float(text) / 100 if _NUMBER.fullmatch(text) and math.isfinite(float(text)) else None


def _optional(fields: Mapping[str, str], name: str, number: int) -> float | None:
    return _seconds(fields[name], number) if fields.get(name) else None


def _seconds(text: str, number: int) -> float:
    if not _NUMBER.fullmatch(text) or not 0 <= float(text) < 1e15:
        raise _Damaged(f"line {number} has {text[:20]!r} where microseconds belong")
    return float(text) * _USEC


def read_csv(text: str) -> Table | Failure:
    """The file of the benchmark's -o option. Failure as of read_table; but a file doesn't say whether the run ended well."""
    reader = csv.reader(io.StringIO(text, newline=None))
    try:
        head = [name.strip() for name in next(reader, [])]
    except csv.Error:
        head = []
    if not {"#ranks", "collective", "#elements/buffer", "#buffers"} <= set(head):
        return Failure(
            "crash", "this is no CSV file of oneCCL's benchmark: its first line doesn't name the columns", text[-2000:]
        )
    try:
        rows = list(_csv_rows(reader, head))
    except (_Damaged, csv.Error) as error:
        return Failure("crash", f"the benchmark's CSV file can't be read: {error}; nothing of it is used", text[-2000:])
    names = list(dict.fromkeys(name for name, _ in rows))
    if len(names) > 1:
        return _sum(names, text[-2000:])
    if not rows:
        return Failure("crash", "the benchmark's CSV file holds no rows", text[-2000:])
    return Table(names[0], rows[0][1].ranks, tuple(row for _, row in rows))


def _csv_rows(reader: Iterator[list[str]], head: Sequence[str]) -> Iterator[tuple[str, Row]]:
    for number, values in enumerate(reader, 2):
        if not any(value.strip() for value in values):
            continue
        if len(values) != len(head):
            raise _Damaged(f"line {number} has {len(values)} columns and its head {len(head)}")
        fields = {name: value.strip() for name, value in zip(head, values, strict=True)}
        unit = _whole(fields.get("dtype_size") or fields.get("typesize", ""), number)
        elements, buffers = _whole(fields["#elements/buffer"], number), _whole(fields["#buffers"], number)
        fields["#bytes"] = str(unit * elements * buffers)
        fields["#elem_count"] = str(elements * buffers)
        dtype = fields.get("dtype") or fields.get("type", "")
        yield fields["collective"], _row(fields, number, dtype, fields.get("reduction", ""), _whole(fields["#ranks"], number))
