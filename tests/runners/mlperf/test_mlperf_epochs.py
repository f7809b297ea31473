"""Which epochs count, by the bytes that left the store, or by speed where nobody counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.mlperf.epochs import from_memory_by_speed, that_read

GIB = 1 << 30


def test_epochs_that_came_from_memory_are_not_used_and_it_says_how_to_prevent_it() -> None:
    read = that_read([2684354560, 12582912, 10485760])
    assert read.used == (1,)
    assert "epochs 2 and 3 came from memory" in read.why
    assert "0.5 %" in read.why
    assert "O_DIRECT" in read.why


def test_an_honest_run_has_nothing_to_say() -> None:
    assert that_read([GIB, GIB + 5, GIB - 5]) == that_read([GIB] * 3)
    assert that_read([GIB] * 3).why == ""


def test_what_must_be_read_counts_where_it_is_known() -> None:
    assert that_read([GIB // 2, GIB // 2], expected=GIB).used == ()
    assert "epochs 1 and 2" in that_read([GIB // 2, GIB // 2], expected=GIB).why


@pytest.mark.parametrize("none", [[], [0], [0, 0]])
def test_nothing_read_is_nothing_used(none: list[int]) -> None:
    assert that_read(none).used == ()


def test_speed_tells_where_the_data_would_fit_into_memory() -> None:
    assert "4.5 times as fast" in from_memory_by_speed([10, 45, 45], caching=True)
    assert from_memory_by_speed([10, 45, 45], caching=False) == ""
    assert from_memory_by_speed([10, 11, 10], caching=True) == ""
    assert from_memory_by_speed([10], caching=True) == ""


@given(st.lists(st.integers(0, 1 << 45), max_size=8), st.none() | st.integers(0, 1 << 45))
def test_every_epoch_is_used_or_spoken_of(counts: list[int], expected: int | None) -> None:
    read = that_read(counts, expected)
    others = set(range(1, len(counts) + 1)) - set(read.used)
    assert bool(others) == bool(read.why)
    assert all(str(number) in read.why for number in others)
