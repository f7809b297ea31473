"""Values of properties, as Alluxio's own code reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.alluxio.values import BadText, check, check_duration, read_bool, read_int, read_size, split_comment, trimmed
from spaces.alluxio import parse_version


@pytest.mark.parametrize(
    ("text", "size"),
    [("4MB", 4 << 20), ("4m", 4 << 20), ("1.5MB", 3 << 19), ("512", 512), ("512b", 512), ("1GB", 1 << 30), ("2tB", 2 << 40)],
)
def test_sizes(text: str, size: int) -> None:
    assert read_size(text) == size


@pytest.mark.parametrize(
    ("text", "meant"),
    [("4 MB", "4MB"), ("4MiB", "4MB"), ("4 MiB", "4MB"), ("4\tkb", "4kb"), ("", ""), ("4X", ""), ("MB", ""), ("-4MB", ""),
     ("four", ""), ("4MB # x", ""), ("99999999999GB", ""), ("9" * 5000, ""), ("9" * 400 + ".5MB", "")],
)  # fmt: skip
def test_what_is_no_size_and_what_was_meant(text: str, meant: str) -> None:
    with pytest.raises(BadText) as raised:
        read_size(text, parse_version("2.9.5"))
    assert raised.value.meant == meant


def test_binary_units_are_enterprises_own() -> None:
    assert read_size("4MiB", parse_version("3.6")) == 4 << 20
    with pytest.raises(BadText):
        read_size("4MiB", parse_version("oss-3"))


@pytest.mark.parametrize(("text", "number"), [("64", 64), ("-1", -1), ("+5", 5), ("2147483647", 2**31 - 1)])
def test_integers(text: str, number: int) -> None:
    assert read_int(text) == number


@pytest.mark.parametrize("text", ["", "64.0", "2147483648", "0x10", "64 threads", "\u0664", "1e3"])
def test_what_is_no_integer_fails_later_and_is_told_now(text: str) -> None:
    with pytest.raises(BadText):
        read_int(text)


def test_thousands_are_plainly_meant() -> None:
    with pytest.raises(BadText) as raised:
        read_int("2,147,483")
    assert raised.value.meant == "2147483"


def test_only_true_is_true() -> None:
    assert read_bool("TRUE") is True
    assert read_bool("false") is False
    assert read_bool("off") is False
    for word, meant in (("yes", "true"), ("1", "true"), ("On", "true"), ("ture", "")):
        with pytest.raises(BadText) as raised:
            read_bool(word)
        assert raised.value.meant == meant


def test_durations() -> None:
    for text in ("500ms", "30s", "10min", "2h", "1d", "3000", "-1", "3 m".replace(" ", "")):
        check_duration(text)
    for text in ("1.5h", "2 weeks", "h"):
        with pytest.raises(BadText):
            check_duration(text)
    with pytest.raises(BadText) as raised:
        check_duration("2 h")
    assert raised.value.meant == "2h"


def test_sizes_of_32_bits() -> None:
    check("alluxio.user.file.buffer.bytes", "size", "1GB")
    with pytest.raises(BadText, match="start-up fails"):
        check("alluxio.user.file.buffer.bytes", "size", "4GB")


def test_comments_behind_values() -> None:
    assert split_comment("8 # per file") == ("8", "# per file")
    assert split_comment("8 ! per file") == ("8", "! per file")
    assert split_comment("8#9") == ("8#9", "")
    assert trimmed(" \x01a b\t\n") == "a b"


@given(st.text(max_size=20))
def test_anything_is_a_value_or_a_sentence(text: str) -> None:
    for kind in ("bool", "int", "long", "size", "duration", "list", "text"):
        try:
            check("alluxio.x", kind, trimmed(text))  # type: ignore[arg-type]
        except BadText as error:
            if error.meant:
                check("alluxio.x", kind, error.meant)  # type: ignore[arg-type]
