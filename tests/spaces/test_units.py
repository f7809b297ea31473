"""Sizes, durations and flags as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spaces.units import format_duration, format_size, parse_count, parse_duration, parse_flag, parse_size, rough_size


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("4096", 4096), ("128K", 131072), ("4m", 4 << 20), ("4MB", 4 << 20), ("4MiB", 4 << 20), ("1.5G", 3 << 29)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "K", "-1", "1e6", "4 MB", "0x10", "1.0000001K", "1,5M", "\u0661", "9KiBB"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(ValueError, match=r"size|bytes"):
        parse_size(text)


@given(st.integers(0, 2**60))
def test_sizes_round_trip(size: int) -> None:
    assert parse_size(format_size(size)) == size


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("2m", 120), ("1h30m", 5400), ("500ms", 0.5)])
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "0s", "-5s", "5 m", "5x", "m5", "nan", "1h30"])
def test_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|no time"):
        parse_duration(text)


def test_durations_for_people() -> None:
    assert [format_duration(s) for s in (0.4, 12.3, 96, 5400)] == ["0.4s", "12s", "1m36s", "1h30m"]


@given(st.text())
def test_any_text_parses_or_is_refused_with_a_sentence(text: str) -> None:
    for parse in (parse_size, parse_duration, parse_flag, parse_count):
        sentence = "a value is as good as a sentence"
        try:
            parse(text)
        except ValueError as error:
            sentence = str(error)
        assert len(sentence) > 10


def test_rough_sizes_keep_small_ones_visible() -> None:
    assert [rough_size(size) for size in (1 << 20, 62.5 * 2**20, 1 << 30, 9 << 28)] == [
        "1 MiB",
        "62.5 MiB",
        "1.00 GiB",
        "2.25 GiB",
    ]
