from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.topology import format_list, parse_list


@given(st.sets(st.integers(0, 2000)))
def test_a_list_reads_back(numbers: set[int]) -> None:
    assert parse_list(format_list(numbers)) == tuple(sorted(numbers))


@given(st.text(max_size=30))
def test_any_text_is_a_list_or_says_why_not(text: str) -> None:
    with suppress(ValueError):
        found = parse_list(text)
        assert list(found) == sorted(set(found))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("", ()), ("\n", ()), ("3", (3,)), ("0-3,8", (0, 1, 2, 3, 8)), ("0-6:2", (0, 2, 4, 6)), (" 1 , 0 ", (0, 1))],
)
def test_forms(text: str, numbers: tuple[int, ...]) -> None:
    assert parse_list(text) == numbers


@pytest.mark.parametrize("text", ["a", "3-1", "0-", "-3", "0-99999999", "0--3", "1,,2", "0-4:0", "\u0661"])
def test_what_is_no_list(text: str) -> None:
    with pytest.raises(ValueError):
        parse_list(text)
