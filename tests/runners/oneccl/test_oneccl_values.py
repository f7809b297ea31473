"""Inputs and foretold results: exact in every type, different for ranks and rounds, and what the calls have to give."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.oneccl.rank_values import PERIOD, TYPES, buffers, element, expected, input_value, own_row, spread, sum_row

COLLECTIVES = ("allreduce", "reduce", "bcast", "reduce_scatter", "allgather", "alltoall")


def whole(dtype: str, data: bytes) -> list[int]:
    size = TYPES[dtype][1]
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    if dtype == "bfloat16":
        return [int(struct.unpack("<f", b"\0\0" + part)[0]) for part in parts]
    form = {"int8": "b", "int32": "i", "int64": "q", "float16": "e", "float32": "f", "float64": "d"}[dtype]
    return [int(struct.unpack("<" + form, part)[0]) for part in parts]


@given(st.integers(0, 10**6), st.integers(1, 5000), st.integers(0, 10**6), st.sampled_from(sorted(TYPES)), st.data())
def test_every_partial_sum_is_exact(index: int, ranks: int, salt: int, dtype: str, data: st.DataObject) -> None:
    most = TYPES[dtype][2]
    some = data.draw(st.lists(st.integers(0, ranks - 1), max_size=40, unique=True))
    assert 0 <= sum(input_value(index, rank, ranks, salt, most) for rank in some) <= most


@pytest.mark.parametrize("dtype", sorted(TYPES))
@pytest.mark.parametrize("ranks", [2, 3, 300])
def test_the_sum_is_the_sum(dtype: str, ranks: int) -> None:
    rows = [whole(dtype, own_row(dtype, rank, ranks, 5)) for rank in range(ranks)]
    assert whole(dtype, sum_row(dtype, ranks, 5)) == [sum(column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("dtype", sorted(TYPES))
def test_elements_survive(dtype: str) -> None:
    assert [whole(dtype, element(dtype, value))[0] for value in (0, 1, 22, 100)] == [0, 1, 22, 100]


def test_ranks_and_rounds_differ() -> None:
    assert len({own_row("float32", rank, 4, 1) for rank in range(4)}) == 4
    assert len({sum_row("float32", 4, salt) for salt in range(8)}) == 8


@given(st.binary(min_size=PERIOD * 4, max_size=PERIOD * 4), st.integers(0, 400), st.integers(0, 1000))
def test_spread_repeats(period: bytes, count: int, start: int) -> None:
    long = period * (-(-(start + count) // PERIOD) + 1)
    assert spread(period, 4, count, start) == long[start * 4 : (start + count) * 4]


def played(collective: str, ranks: int, count: int, salt: int) -> list[list[int] | None]:
    """What a collective gives on each rank, by its definition."""
    sent = [whole("int32", spread(own_row("int32", rank, ranks, salt), 4, buffers(collective, ranks, count)[0]))
            for rank in range(ranks)]  # fmt: skip
    total = [sum(column) for column in zip(*sent, strict=True)]
    if collective == "allreduce":
        return [total] * ranks
    if collective == "reduce":
        return [total, *[None] * (ranks - 1)]
    if collective == "bcast":
        return [sent[0]] * ranks
    if collective == "reduce_scatter":
        return [total[rank * count : (rank + 1) * count] for rank in range(ranks)]
    if collective == "allgather":
        return [[value for each in sent for value in each]] * ranks
    return [[value for each in sent for value in each[rank * count : (rank + 1) * count]] for rank in range(ranks)]


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize(("ranks", "count"), [(2, 1), (3, 61), (4, 200)])
def test_results_are_what_the_collective_means(collective: str, ranks: int, count: int) -> None:
    foretold = [expected(collective, "int32", rank, ranks, count, 9) for rank in range(ranks)]
    assert [None if each is None else whole("int32", each) for each in foretold] == played(collective, ranks, count, 9)
    received = buffers(collective, ranks, count)[1]
    assert all(len(each) == received * 4 for each in foretold if each is not None)
