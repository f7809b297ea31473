"""Properties files as java.util.Properties reads them, and edits that keep all else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runners.alluxio.properties import closed, commented, entries, escaped, last, uncommented, with_key, with_value, written

LETTERS = st.sampled_from("ab=: \t\f\\\n\r#!u0041é.,$")
TEXTS = st.text(LETTERS, max_size=60)
WORDS = st.text(st.characters(min_codepoint=0, max_codepoint=0x1FFFF, exclude_categories=["Cs"]), max_size=12)


def pairs(text: str) -> list[tuple[str, str]]:
    return [(entry.key, entry.value) for entry in entries(text)]


def test_separators_and_blanks() -> None:
    assert pairs("a=1\nb:2\nc 3\nd = 4\n  e\t:\t5 \nf\ng==x\n") == [
        ("a", "1"), ("b", "2"), ("c", "3"), ("d", "4"), ("e", "5 "), ("f", ""), ("g", "=x"),
    ]  # fmt: skip


def test_comments_only_where_a_line_begins() -> None:
    assert pairs("# a=1\n  ! b=2\nc=3 # not one\n") == [("c", "3 # not one")]


def test_continued_lines_lose_the_blanks_that_they_begin_with() -> None:
    text = "fruits  apple, \\\r\n    pear, \\\n\tplum\nend=\\\\\nnext=1\n"
    assert pairs(text) == [("fruits", "apple, pear, plum"), ("end", "\\"), ("next", "1")]
    first = entries(text)[0]
    assert (first.line, first.last_line) == (1, 3)
    assert entries(text)[2].line == 5


def test_a_comment_does_not_continue_and_a_continued_line_is_no_comment() -> None:
    assert pairs("# c \\\na=1\nb=x\\\n# y\nc=2\n") == [("a", "1"), ("b", "x# y"), ("c", "2")]


def test_a_blank_line_ends_what_was_continued() -> None:
    assert pairs("a=1\\\n\nb=2\n") == [("a", "1"), ("b", "2")]
    assert pairs("\\\n# a comment then\na=1\n") == [("a", "1")]


def test_escapes() -> None:
    assert pairs("a\\=b=\\u00e9\\t\\q\\:\nk\\ 2=\\ x\n") == [("a=b", "é\tq:"), ("k 2", " x")]
    assert pairs("a=\\ud83d\\ude00\n") == [("a", "\U0001f600")]


def test_what_java_cannot_read_is_told_and_not_hidden() -> None:
    broken, fine = entries("a=\\u00g1\nb=1\n")
    assert "\\u00g1" in broken.broken
    assert not fine.broken
    assert list(last("a=\\u12\nb=1\n")) == ["b"]


def test_the_last_of_duplicates_counts() -> None:
    assert last("a=1\na=2\n")["a"].value == "2"


def test_line_ends_of_every_kind() -> None:
    text = "a=1\r\nb=2\rc=3\n"
    assert pairs(text) == [("a", "1"), ("b", "2"), ("c", "3")]
    assert [entry.line for entry in entries(text)] == [1, 2, 3]


@given(TEXTS)
def test_entries_lie_in_the_text_one_behind_the_other(text: str) -> None:
    place = 0
    for entry in entries(text):
        assert place <= entry.start <= entry.key_start <= entry.key_end <= entry.value_start <= entry.value_end <= entry.end
        assert 1 <= entry.line <= entry.last_line
        place = entry.end
    assert place <= len(text)


@given(WORDS, WORDS)
def test_what_is_written_reads_back(key: str, value: str) -> None:
    line = written(key, value)
    assert line.isascii()
    assert "\n" not in line
    if key or value:
        assert pairs(line + "\n") == [(key, value)]


@given(TEXTS, WORDS, WORDS)
def test_what_follows_a_closed_text_stands_alone(text: str, key: str, value: str) -> None:
    whole = closed(text) + written(key or "k", value) + "\n"
    assert pairs(whole) == [*pairs(text), (key or "k", value)]


@given(TEXTS, st.data())
def test_commenting_out_takes_an_entry_away_and_can_be_undone(text: str, data: st.DataObject) -> None:
    mark = "# gone: "
    every = entries(text)
    if not every or mark in text:
        return
    dead = data.draw(st.lists(st.sampled_from(every), unique=True))
    without = commented(text, dead, mark)
    if not any(entry.value_end < entry.end and "\\" in text[entry.value_end : entry.end] for entry in dead):
        assert pairs(without) == [(e.key, e.value) for e in every if e not in dead]
    assert uncommented(without, mark) == text


def test_a_value_that_begins_like_a_separator_gets_one() -> None:
    for text in ("key old", "key", "key=old", "key:old", "key \\\n  old"):
        assert pairs(with_value(text, entries(text)[0], "=new")) == [("key", "=new")]


@given(TEXTS, WORDS, st.data())
def test_one_value_or_key_changes_and_nothing_else(text: str, word: str, data: st.DataObject) -> None:
    every = [entry for entry in entries(text) if not entry.broken]
    if not every:
        return
    place = data.draw(st.integers(0, len(every) - 1))
    entry = every[place]
    changed = [e for e in entries(with_value(text, entry, word)) if not e.broken]
    if entry.key or entry.value_start > entry.key_end:
        assert [(e.key, e.value) for e in changed] == [
            (e.key, word if e is entry else e.value) for e in every
        ]  # fmt: skip
    renamed = [e for e in entries(with_key(text, entry, "other.key")) if not e.broken]
    assert [e.key for e in renamed] == ["other.key" if e is entry else e.key for e in every]


def test_escaping_leaves_plain_text_plain() -> None:
    assert escaped("4MB") == "4MB"
    assert written("a.b", "/x y=z") == "a.b=/x y=z"
    assert escaped("é") == "\\u00e9"
