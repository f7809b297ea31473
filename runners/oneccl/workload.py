"""What a job moves: a collective, a data type, message sizes and how often each occurs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from runners.oneccl import trace
from runners.oneccl.options import Options
from runners.oneccl.rank_values import TYPES
from runners.runner import UsageError
from spaces.units import format_size

# The name on the command line, and what oneCCL's C API makes of it: by that its algorithms are chosen.
SELECTED = {"allgather": "allgatherv", "bcast": "broadcast"}
_MOST_SIZES = 24
_LARGEST = 1 << 30


@dataclass(frozen=True, slots=True)
class Workload:
    """``sizes`` are bytes (elements of the call's count argument times their size) with their weights, smallest first.

    ``collective`` is as typed, ``selected`` as oneCCL chooses algorithms by: for calls of its C API, or of its benchmark.
    """

    collective: str
    dtype: str
    sizes: tuple[tuple[int, float], ...]
    folded: bool = False
    by_program: bool = False

    @property
    def selected(self) -> str:
        return self.collective if self.by_program else SELECTED.get(self.collective, self.collective)

    @property
    def element(self) -> int:
        return TYPES[self.dtype][1]

    @property
    def plain(self) -> tuple[int, ...]:
        return tuple(size for size, _ in self.sizes)

    def memory(self, ranks: int) -> int:
        """Bytes that a rank's buffers take."""
        many = ranks if self.collective in ("allgather", "reduce_scatter", "alltoall") else 1
        both = 2 * many if self.collective == "alltoall" else 1 + many
        return both * max(self.plain) + (64 << 10)


def workload(options: Options) -> Workload:
    """Raises UsageError for sizes or a trace that can't be used."""
    if options.trace and options.sizes != Options().sizes:
        raise UsageError("trace", options.trace, "the sizes come from the trace; leave --sizes out")
    if options.trace:
        found, option, given = trace.read_trace(Path(options.trace).expanduser()), "trace", options.trace
    else:
        found, option, given = trace.parse_sizes(options.sizes), "sizes", options.sizes
    element = TYPES[options.dtype][1]
    sizes: dict[int, float] = {}
    for message in found:
        size = message.size
        if size > _LARGEST:
            raise UsageError(
                option, given, f"{format_size(size)} is more than {format_size(_LARGEST)}, the largest that is timed"
            )
        if size % element and option == "sizes":
            why = f"{size} bytes are no whole number of {options.dtype} elements of {element} bytes"
            raise UsageError(option, given, why)
        whole = -(-size // element) * element
        sizes[whole] = sizes.get(whole, 0.0) + message.count
    folded = len(sizes) > _MOST_SIZES
    if folded:
        sizes = _doublings(sizes, element)
    return Workload(options.collective, options.dtype, tuple(sorted(sizes.items())), folded)


def _doublings(sizes: dict[int, float], element: int) -> dict[int, float]:
    """One size for each doubling: the mean of what lies in it, for as many messages."""
    groups: dict[int, list[tuple[int, float]]] = {}
    for size, weight in sizes.items():
        groups.setdefault(size.bit_length(), []).append((size, weight))
    merged: dict[int, float] = {}
    for members in groups.values():
        total = sum(weight for _, weight in members)
        mean = sum(size * weight for size, weight in members) / total
        whole = max(element, round(mean / element) * element)
        merged[whole] = merged.get(whole, 0.0) + total
    return merged
