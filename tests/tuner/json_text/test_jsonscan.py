"""The scanner agrees with Python's json on JSON, and says the line of what is none."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.json_text.scan import NotJson, parse

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4))


@settings(deadline=None)
@given(VALUES, st.sampled_from([None, 0, 1, 2, "\t"]), st.booleans())
def test_values_are_read_as_json_reads_them(value, indent, ascii_only):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert parse(text).root.value == json.loads(text)


@settings(deadline=None)
@given(st.text(alphabet='{}[]:,"\\/#*atruefn0123456789.eE+- \n\r\t', max_size=40))
def test_what_json_takes_is_taken_and_what_it_refuses_is_refused_or_holds_extras(text):
    try:
        expected = json.loads(text)
    except ValueError:
        document = parsed(text)
        assert document is None or document.comments or document.trailing_commas()
    else:
        assert parse(text).root.value == expected


def parsed(text):
    """The document, or None where there is none: its line is then one of the text."""
    try:
        return parse(text)
    except NotJson as error:
        return None if 1 <= error.line <= text.count("\n") + 1 else pytest.fail(f"line {error.line}")


@settings(deadline=None)
@given(st.dictionaries(st.text(), VALUES, min_size=1, max_size=4))
def test_every_key_has_its_place(value):
    text = json.dumps(value, indent=2)
    document = parse(text)
    for member in document.root.members:
        assert json.loads(text[member.start : member.end]) == member.key
        assert json.loads(text[member.node.start : member.node.end]) == value[member.key]
        assert text.split("\n")[document.line(member.start) - 1].startswith(f"  {json.dumps(member.key)}:")


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("", 1, "the end of the file"),
        ('{\n "a": 1\n "b": 2\n}', 2, "',' or '}'"),
        ('{"a":\n\n1M}', 3, "'1M'"),
        ('{"a": 01}', 1, "'01'"),
        ("{'a': 1}", 1, "double quotes"),
        ('{"a" 1}', 1, "':'"),
        ('{"a": 1', 1, "the end of the file"),
        ('{"a": NaN}', 1, "'NaN'"),
        ('{"a": 1}\n}', 2, "after the end"),
        ('{"a": "x\ny"}', 1, "not closed"),
        ('{\n/* x "a": 1}', 2, "never closed"),
        ("[" * 5000, 1, "deeper"),
        ("9" * 5000, 1, "too many digits"),
        ('{"a": 1,,}', 1, "','"),
    ],
)
def test_the_line_of_what_is_wrong(text, line, why):
    with pytest.raises(NotJson) as caught:
        parse(text)
    assert caught.value.line == line
    assert why in caught.value.why


def test_comments_trailing_commas_and_a_mark_are_seen():
    text = '\ufeff{ // one\n  "a": [1, 2,], # two\n  /* three */ "b": 3,\n}'
    document = parse(text)
    assert document.root.value == {"a": [1, 2], "b": 3}
    assert [text[start:end] for start, end in document.comments] == ["// one", "# two", "/* three */"]
    assert [document.line(offset) for offset in document.trailing_commas()] == [2, 3]


def test_of_a_key_that_is_there_twice_the_last_counts():
    document = parse('{"a": 1, "b": 0,\n "a": 2}')
    assert document.root.value == {"a": 2, "b": 0}
    assert document.key_line(("a",)) == 2
    assert document.key_line(("a", "missing")) == 2
    assert document.key_line(("missing",)) == 1
