"""Inputs whose results can be foretold, whole and exact in every data type: part of the text that is sent to ranks.

A rank's buffer repeats a short row of small numbers, and so does every right result; comparing is comparing bytes.
"""

from __future__ import annotations

import struct

PERIOD = 61
# Data type: oneCCL's number, bytes of an element, and the largest whole number up to which every one is exact.
TYPES: dict[str, tuple[int, int, int]] = {
    "int8": (0, 1, 127),
    "int32": (2, 4, 2**31 - 1),
    "int64": (4, 8, 2**62),
    "float16": (6, 2, 2048),
    "float32": (7, 4, 2**24),
    "float64": (8, 8, 2**53),
    "bfloat16": (9, 2, 256),
}
_FORMATS = {"int8": "b", "int32": "i", "int64": "q", "float16": "e", "float32": "f", "float64": "d"}


def element(dtype: str, value: int) -> bytes:
    """``value`` as the machine holds it."""
    if dtype == "bfloat16":
        return struct.pack("<f", float(value))[2:]
    form = _FORMATS[dtype]
    return struct.pack("<" + form, float(value) if form in "efd" else value)


def input_value(index: int, rank: int, ranks: int, salt: int, most: int) -> int:
    """What ``rank`` puts at ``index``, by all of them added up no more than ``most``."""
    if (rank + salt) % ranks >= most:
        return 0
    span = max(2, min(23, most // ranks + 1))
    return ((index + salt) % PERIOD * (rank + 3) + 7 * salt + rank) % span


def row(dtype: str, values: list[int]) -> bytes:
    return b"".join(element(dtype, value) for value in values)


def own_row(dtype: str, rank: int, ranks: int, salt: int) -> bytes:
    """One period of a rank's input."""
    most = TYPES[dtype][2]
    return row(dtype, [input_value(index, rank, ranks, salt, most) for index in range(PERIOD)])


def sum_row(dtype: str, ranks: int, salt: int) -> bytes:
    """One period of all ranks' inputs added up."""
    most = TYPES[dtype][2]
    totals = [sum(input_value(index, rank, ranks, salt, most) for rank in range(ranks)) for index in range(PERIOD)]
    return row(dtype, totals)


def spread(period: bytes, size: int, count: int, start: int = 0) -> bytes:
    """``count`` elements of ``size`` bytes from index ``start`` on of the endlessly repeated ``period``."""
    shift = start % PERIOD * size
    turned = period[shift:] + period[:shift]
    return (turned * (count // PERIOD + 1))[: count * size]


def expected(collective: str, dtype: str, rank: int, ranks: int, count: int, salt: int) -> bytes | None:
    """The right result of a call with ``count`` elements as ``counts`` gives them; None where this rank gets none."""
    size = TYPES[dtype][1]
    if collective == "allreduce":
        return spread(sum_row(dtype, ranks, salt), size, count)
    if collective == "reduce":
        return spread(sum_row(dtype, ranks, salt), size, count) if rank == 0 else None
    if collective == "bcast":
        return spread(own_row(dtype, 0, ranks, salt), size, count)
    if collective == "reduce_scatter":
        return spread(sum_row(dtype, ranks, salt), size, count, rank * count)
    if collective == "allgather":
        return b"".join(spread(own_row(dtype, each, ranks, salt), size, count) for each in range(ranks))
    # alltoall
    return b"".join(spread(own_row(dtype, each, ranks, salt), size, count, rank * count) for each in range(ranks))


def buffers(collective: str, ranks: int, count: int) -> tuple[int, int]:
    """Elements that a call with ``count`` sends and receives, on every rank."""
    sent = count * ranks if collective in ("reduce_scatter", "alltoall") else count
    received = count * ranks if collective in ("allgather", "alltoall") else count
    return sent, received
