"""Edits of a JSON text do what the same edit of a dict does, and touch no other byte."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.json_text.edit import drop_comma, move, remove, remove_member, rename, set_value
from tuner.json_text.scan import parse

KEYS = st.sampled_from(["a", "b", "c", "é", 'q"', ""])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=8
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=5)
GAP = st.sampled_from(["", " ", "\n", "\n  ", "\r\n\t", "/* x */", " // y\n", "\n# z\r\n  "])


@st.composite
def spelt(draw, value, extras=True):
    """``value`` as JSON text with any white space, comments and trailing commas between its tokens."""
    gap = GAP if extras else st.sampled_from(["", " ", "\n", "\n    ", "\r\n\t"])

    def write(value):
        if isinstance(value, dict):
            parts = [
                f"{draw(gap)}{json.dumps(key)}{draw(gap)}:{draw(gap)}{write(inner)}{draw(gap)}" for key, inner in value.items()
            ]
        elif isinstance(value, list):
            parts = [f"{draw(gap)}{write(inner)}{draw(gap)}" for inner in value]
        else:
            return json.dumps(value)
        tail = draw(gap) if not parts else "," + draw(gap) if extras and draw(st.booleans()) else ""
        brackets = "{}" if isinstance(value, dict) else "[]"
        return brackets[0] + ",".join(parts) + tail + brackets[1]

    return write(value)


TEXTS = OBJECTS.flatmap(spelt)
STRICT = OBJECTS.flatmap(lambda value: spelt(value, extras=False))
PATHS = st.lists(KEYS, min_size=1, max_size=3).map(tuple)


def put(tree, path, value):
    for key in path[:-1]:
        tree = tree.setdefault(key, {})
        if not isinstance(tree, dict):
            raise KeyError(key)
    tree[path[-1]] = value


@settings(deadline=None)
@given(TEXTS, PATHS, VALUES)
def test_setting_is_setting_in_a_dict(text, path, value):
    expected = parse(text).root.value
    try:
        put(expected, path, value)
    except KeyError:
        with pytest.raises(KeyError):
            set_value(text, path, value)
        return
    edited = set_value(text, path, value)
    assert parse(edited).root.value == expected
    assert set_value(edited, path, value) == edited


@settings(deadline=None)
@given(STRICT, PATHS, VALUES)
def test_strict_json_stays_strict(text, path, value):
    expected = json.loads(text)
    try:
        put(expected, path, value)
    except KeyError:
        return
    assert json.loads(set_value(text, path, value)) == expected


@settings(deadline=None)
@given(TEXTS, KEYS, VALUES)
def test_setting_keeps_what_is_around(text, key, value):
    member = parse(text).member((key,))
    edited = set_value(text, (key,), value)
    if member is not None:
        assert edited.startswith(text[: member.node.start])
        assert edited.endswith(text[member.node.end :])
    else:
        # Nothing is lost: the old text is the new one with pieces put in, white space of an empty object aside.
        rest = iter(edited)
        kept = text if parse(text).root.members else text.replace(" ", "")
        assert all(letter in rest for letter in kept)


@settings(deadline=None)
@given(TEXTS, st.data())
def test_removing_is_removing_from_a_dict(text, data):
    document = parse(text)
    places = [(path, i) for path, node in document.objects() for i in range(len(node.members))]
    if not places:
        with pytest.raises(KeyError):
            remove(text, ("a",))
        return
    path, index = data.draw(st.sampled_from(places))
    node = document.node(path)
    edited = remove_member(document, node, index)
    expected = document.root.value
    inner = expected
    for step in path:
        inner = inner[step]
    del inner[node.members[index].key]
    assert parse(edited).root.value == expected
    assert edited == remove(text, (*path, node.members[index].key))
    comments = [text[start:end] for start, end in document.comments]
    member = node.members[index]
    outside = [text[s:e] for s, e in document.comments if e <= member.start or s >= member.node.end]
    kept = [edited[start:end] for start, end in parse(edited).comments]
    assert kept == outside, comments


@settings(deadline=None)
@given(TEXTS, st.data())
def test_renaming_changes_the_key_alone(text, data):
    members = parse(text).root.members
    if not members:
        return
    member = data.draw(st.sampled_from(members))
    assert rename(text, (member.key,), "new") == text[: member.start] + '"new"' + text[member.end :]


@settings(deadline=None)
@given(TEXTS, st.data())
def test_moving_keeps_the_value(text, data):
    document = parse(text)
    places = [(*path, m.key) for path, node in document.objects() for m in node.members if path]
    if not places:
        return
    path = data.draw(st.sampled_from(places))
    value = document.node(path).value
    moved = parse(move(text, path, ("moved",)))
    assert moved.root.value == {**parse(remove(text, path)).root.value, "moved": value}
    member = document.member(path)
    lost = [start for start, _ in document.comments if member.end <= start < member.node.start]
    assert len(moved.comments) == len(document.comments) - len(lost)


@settings(deadline=None)
@given(TEXTS)
def test_dropping_trailing_commas_one_by_one_ends_without_any(text):
    value = parse(text).root.value
    while commas := parse(text).trailing_commas():
        text = drop_comma(text, commas[0])
    assert parse(text).root.value == value


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("{}\n", '{\n  "k": {\n    "x": 1\n  }\n}\n'),
        ('{"a": 1}', '{"a": 1, "k": {"x": 1}}'),
        ('{"a":1,"b":2}', '{"a":1,"b":2,"k":{"x":1}}'),
        ('{\n    "a": 1\n}\n', '{\n    "a": 1,\n    "k": {\n        "x": 1\n    }\n}\n'),
        ('{\r\n\t"a": 1\r\n}', '{\r\n\t"a": 1,\r\n\t"k": {\r\n\t\t"x": 1\r\n\t}\r\n}'),
        ('\ufeff{\n "a" : 1\n}', '\ufeff{\n "a" : 1,\n "k" : {\n  "x" : 1\n }\n}'),
        ('{\n  "a": 1, // of a\n}', '{\n  "a": 1, // of a\n  "k": {\n    "x": 1\n  },\n}'),
        ('{\n  "a": 1 # of a\n}', '{\n  "a": 1, # of a\n  "k": {\n    "x": 1\n  }\n}'),
        ("{\n  // nothing yet\n}", '{\n  "k": {\n    "x": 1\n  }\n  // nothing yet\n}'),
    ],
)
def test_an_inserted_block_looks_like_the_rest(text, after):
    assert set_value(text, ("k",), {"x": 1}) == after


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ('{\n  "k": 1,\n  "b": 2\n}\n', '{\n  "b": 2\n}\n'),
        ('{\n  "a": 1,\n  "k": 2\n}\n', '{\n  "a": 1\n}\n'),
        ('{"a": 1, "k": 2, "b": 3}', '{"a": 1, "b": 3}'),
        ('{ "k": 1 }', "{}"),
        ('{ "k": 1, }', "{}"),
        ('{"a": 1, // of a\n "k": 2}', '{"a": 1 // of a\n }'),
    ],
)
def test_removing_leaves_no_hole(text, after):
    assert remove(text, ("k",)) == after


def test_a_moved_block_takes_the_indent_of_its_new_place():
    text = '{\n  "z": {\n    "s": 3,\n    "k": {\n      "x": 1\n    }\n  }\n}\n'
    assert move(text, ("z", "k"), ("k",)) == '{\n  "z": {\n    "s": 3\n  },\n  "k": {\n    "x": 1\n  }\n}\n'


def test_nothing_is_moved_over_something():
    with pytest.raises(KeyError):
        move('{"a": {"k": 1}, "k": 2}', ("a", "k"), ("k",))
