"""Reads the figures that xFasterTransformer's programs print: each shape that a version or a branch of it has.

Whatever stands around them is passed over: colours, prefixes of mpirun and srun, other ranks' chatter.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

_NUMBER = r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|nan|inf"
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_BLOCK = re.compile(r"={20,}(?P<name>[^=\n]*) Final Performance={20,}")
_LINE = re.compile(
    r"(?<![\w/])(?P<label>Inference(?: Avg)? Latency|First token Avg Latency|Next token (?:(?:Max|Min|P90|Avg) )?Latency"
    r"|Average Input Length|TTFT|TPOT|Throughput(?: without 1st token)?)"
    rf"[ \t]*:[ \t]*(?P<value>-?(?:{_NUMBER}))[ \t]*(?P<unit>ms|us|s|tokens/s)?(?![\w/])"
)
_LOOP = re.compile(rf"\[INFO\] (?P<which>First|Second) token time: (?P<value>{_NUMBER}) ms")
_SCALE: Mapping[str, float] = {"us": 1e-3, "ms": 1.0, "s": 1e3}
_CSV_FIRST, _CSV_NEXT = "1st_avg(ms)", "2nd_avg(ms)"


@dataclass(frozen=True, slots=True)
class Figures:
    """What one run of a program came to, for the whole group of ranks; times in milliseconds, None where it doesn't tell.

    ``next_ms`` is the mean of the tokens after the first. ``decode_tokens_per_s`` counts these alone, over the batch, as xFT
    does. ``loops`` are (first, next) of single requests where the program prints them. ``source`` names the shape.
    """

    source: str
    next_ms: float | None = None
    first_ms: float | None = None
    total_ms: float | None = None
    p90_ms: float | None = None
    max_ms: float | None = None
    min_ms: float | None = None
    input_tokens: float | None = None
    decode_tokens_per_s: float | None = None
    loops: tuple[tuple[float, float], ...] = ()


def parse(text: str) -> Figures | str:
    """The figures in a program's output, those of the last run if there are several; or why there are none."""
    plain = _COLOUR.sub("", text).replace("\r", "\n")
    found = _printed(plain) or _looped(plain)
    if found is None:
        return "the program's output holds no figures that are known: no block of benchmark.py, no lines of the C++ example"
    return _doubt(found) or found


def parse_csv(text: str) -> Figures | str:
    """The figures of the last row of the file that benchmark.py appends to with --csv; or why there are none."""
    rows = list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline="")))
    header = next((row for row in reversed(rows) if _CSV_NEXT in row), None)
    if header is None:
        return f"this is no CSV file of benchmark.py: no line names the column {_CSV_NEXT}"
    last = rows[-1] if rows[-1] else next((row for row in reversed(rows) if row), header)
    if last is header or len(last) < len(header) - 1:
        return "the CSV file of benchmark.py has no whole line after its header"
    cells = dict(zip(header, last, strict=False))
    found = Figures(
        "CSV of benchmark.py",
        next_ms=_cell(cells, _CSV_NEXT),
        first_ms=_cell(cells, _CSV_FIRST),
        total_ms=_cell(cells, "infer_avg(ms)"),
        p90_ms=_cell(cells, "2nd_P90(ms)"),
        max_ms=_cell(cells, "2nd_max(ms)"),
        min_ms=_cell(cells, "2nd_min(ms)"),
        decode_tokens_per_s=next((_cell(cells, name) for name in cells if name.startswith("throughput_wo_1st")), None),
    )
    return _doubt(found) or found


def _cell(cells: Mapping[str, str], name: str) -> float | None:
    try:
        return float(cells[name])
    except (KeyError, ValueError):
        return None


def _printed(text: str) -> Figures | None:
    blocks = list(_BLOCK.finditer(text))
    values: dict[str, float] = {}
    for match in _LINE.finditer(text, blocks[-1].end() if blocks else 0):
        value = float(match["value"])
        values[match["label"]] = value if match["unit"] in (None, "tokens/s") else value * _SCALE[match["unit"]]
    if not values.keys() - {"Average Input Length"}:
        return None
    # The old branch calls the P90 "Next token Latency", and has a mean beside it.
    mean = _first(values, "TPOT", "Next token Avg Latency", "Next token Latency")
    old = "Next token Latency" in values or "Inference Latency" in values
    return Figures(
        "block of the old benchmark.py" if old else "block of benchmark.py",
        next_ms=mean,
        first_ms=_first(values, "First token Avg Latency", "TTFT"),
        total_ms=_first(values, "Inference Avg Latency", "Inference Latency"),
        p90_ms=_first(values, "Next token P90 Latency", "Next token Latency"),
        max_ms=values.get("Next token Max Latency"),
        min_ms=values.get("Next token Min Latency"),
        input_tokens=values.get("Average Input Length"),
        decode_tokens_per_s=_first(values, "Throughput", "Throughput without 1st token"),
    )


def _first(values: Mapping[str, float], *names: str) -> float | None:
    return next((values[name] for name in names if name in values), None)


def _looped(text: str) -> Figures | None:
    """The C++ example prints two lines a loop; the first loop warms up, and counts only where it is the only one."""
    times: dict[str, list[float]] = {"First": [], "Second": []}
    for match in _LOOP.finditer(text):
        times[match["which"]].append(float(match["value"]))
    if not times["Second"]:
        return None
    firsts, seconds = (values[1:] or values for values in times.values())
    whole = len(firsts) == len(seconds)
    return Figures(
        "C++ example",
        next_ms=fmean(seconds),
        first_ms=fmean(firsts) if firsts else None,
        max_ms=max(seconds),
        min_ms=min(seconds),
        loops=tuple(zip(firsts, seconds, strict=True)) if whole else (),
    )


def _doubt(found: Figures) -> str:
    """Why these figures can't be those of a run, "" where they can."""
    if found.next_ms is None and found.first_ms is None:
        return f"the {found.source} tells neither the first token's time nor the next ones'"
    for name, value in (("first", found.first_ms), ("next", found.next_ms)):
        if value is not None and not (math.isfinite(value) and value > 0):
            return f"the {found.source} says {value:g} ms for the {name} token, which no program takes"
    bounds = (found.min_ms, found.next_ms, found.max_ms)
    if None not in bounds and not _rising([value for value in bounds if value is not None]):
        return f"the {found.source} contradicts itself: the mean of the next tokens, {found.next_ms:g} ms, is outside of its \
smallest and largest, {found.min_ms:g} and {found.max_ms:g} ms"
    return ""


def _rising(values: Sequence[float]) -> bool:
    """Up to what two printed decimals hide."""
    return all(b >= a - 0.011 for a, b in itertools.pairwise(values))
