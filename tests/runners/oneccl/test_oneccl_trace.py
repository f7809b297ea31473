"""Workloads: sizes with counts on the command line and in files, and the sentences for what is neither."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.oneccl.options import Options
from runners.oneccl.trace import LARGEST, Message, parse_sizes, parse_trace, read_trace
from runners.oneccl.workload import workload
from runners.runner import UsageError
from spaces.units import format_size

MESSAGES = st.lists(st.builds(Message, st.integers(1, LARGEST), st.integers(1, 10**9)), min_size=1, max_size=30)


def added(messages: list[Message]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for each in messages:
        counts[each.size] = counts.get(each.size, 0) + each.count
    return counts


def test_sizes() -> None:
    assert parse_sizes("64K, 1K,4MB") == (Message(1024), Message(65536), Message(4 << 20))
    assert parse_sizes("1K:100,4M,1024:20") == (Message(1024, 120), Message(4 << 20))


@settings(deadline=None)
@given(MESSAGES)
def test_sizes_read_back(messages: list[Message]) -> None:
    read = parse_sizes(",".join(f"{format_size(each.size)}:{each.count}" for each in messages))
    assert {each.size: each.count for each in read} == added(messages)
    assert [each.size for each in read] == sorted(each.size for each in read)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "--sizes : '' is not a size"),
        ("1K,", "is not a size"),
        ("1K,abc", "--sizes 1K,abc: 'abc' is not a size; write it like 512K, 4M or 1G"),
        ("0", "'0' is no message: sizes go from 1 byte to 1T"),
        ("2T", "is no message"),
        ("1K:", "'' is not how often a message is sent"),
        ("1K:0", "'0' is not how often"),
        ("1K:1.5", "'1.5' is not how often"),
        ("1K:-3", "'-3' is not how often"),
        ("-4", "is not a size"),
        ("1K:9999999999999999", "is not how often"),
    ],
)
def test_sizes_that_are_none(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_sizes(text)
    assert said in str(caught.value)


@settings(deadline=None)
@given(
    MESSAGES,
    st.sampled_from(["size,count", "Bytes;Calls", "# size,count", "", "  "]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([",", ";", "\t", " , "]),
    st.booleans(),
)
def test_traces_read_back(messages: list[Message], head: str, end: str, separator: str, tail: bool) -> None:
    lines = [head, *(f"{format_size(each.size)}{separator}{each.count}  # as recorded" for each in messages)]
    read = parse_trace(end.join(lines) + (end if tail else ""), "trace.csv")
    assert {each.size: each.count for each in read} == added(messages)


@settings(deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_messages_or_a_sentence(text: str) -> None:
    said = ""
    try:
        assert parse_trace(text, "t")
    except UsageError as error:
        said = str(error)
    assert not said or said.startswith("--trace t: ")
    assert "\n" not in said


@pytest.mark.parametrize("text", ["db, password=hunter2\n", "password=hunter2\n", "1024,1\npassword=hunter2,3\n"])
def test_a_file_that_is_no_trace_is_not_read_out(text: str) -> None:
    with pytest.raises(UsageError, match=r"line [12]: ") as caught:
        parse_trace(text, "t")
    assert "hunter2" not in str(caught.value)


def test_columns_by_name_in_any_order() -> None:
    text = "rank,calls,op,message size\n0,3,allreduce,64K\n1,4,allreduce,64K\n0,1,allreduce,1K\n"
    assert parse_trace(text, "t") == (Message(1024, 1), Message(65536, 7))


def test_a_size_alone_counts_once() -> None:
    assert parse_trace("4096\n4096\n1M\n", "t") == (Message(4096, 2), Message(1 << 20, 1))
    assert parse_trace("size\n4096\n4096\n", "t") == (Message(4096, 2),)
    assert parse_trace('"4096","3"\n', "t") == (Message(4096, 3),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no message is in it"),
        ("# nothing\n", "no message is in it"),
        ("size,count\n", "no message is in it"),
        ("size,count\n4096,1\n\n# half\n4096;x\n", "line 5: column 2 is no number"),
        ("4096,1\nsize,count\n", "line 2: column 1 is no number"),
        ("4096,1\n64K\n", "line 2: has 1 column, and 2 are needed"),
        ("4096,-1\n", "line 1: '-1' is not how often"),
        ("4096,1e3\n", "line 1: '1e3' is not how often"),
        ("1,2,3\n", "line 1: has 3 columns; a line is size,count"),
        ("op,time\nallreduce,3\n", "line 1: no column is called 'size'"),
        ("0,5\n", "line 1: '0' is no message"),
        ("12.5,5\n", "line 1: '12.5' is not a whole number of bytes"),
    ],
)
def test_lines_that_are_none(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_trace(text, "t.csv")
    assert f"--trace t.csv: {said}" in str(caught.value)


def test_files(tmp_path: Path) -> None:
    good = tmp_path / "trace.csv"
    good.write_bytes(b"\xef\xbb\xbfsize,count\r\n1K,2\r\n")
    assert read_trace(good) == (Message(1024, 2),)
    latin = tmp_path / "latin.csv"
    latin.write_bytes(b"1K,2\n\xe9,1\n")
    for path, said in (
        (tmp_path / "none", "there is no such file"),
        (tmp_path, "this is a folder"),
        (latin, "line 2 is not UTF-8"),
    ):
        with pytest.raises(UsageError, match=said):
            read_trace(path)


def test_sizes_beside_a_trace_are_not_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("1024,3\n")
    assert workload(Options(trace=str(path))).plain == (1024,)
    with pytest.raises(UsageError, match="the sizes come from the trace; leave --sizes out"):
        workload(Options(trace=str(path), sizes="64K"))
