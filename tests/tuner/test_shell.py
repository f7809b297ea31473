"""Shell files read as data: assignments are found wherever a shell takes them, changed in place, and all else stays."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.exporters import shell

SCRIPT = """#!/bin/sh
# A=comment
export A=1 B="two words" C='x;y' # A=2
D=a\\ b; E=plain
if true; then
    export F=1
fi
mpirun -n 2 -genv G value -env H "v;w" -x I=3 --opt=J=4 ./prog K=5 "L=6"
"""


def names(text: str) -> list[tuple[str, str]]:
    return [(each.name, each.value) for each in shell.assignments(text)]


def test_found_where_a_shell_takes_them() -> None:
    assert names(SCRIPT) == [
        ("A", "1"), ("B", "two words"), ("C", "x;y"), ("D", "a b"), ("E", "plain"), ("F", "1"), ("G", "value"), ("H", "v;w"),
        ("I", "3"), ("K", "5"), ("L", "6"),
    ]  # fmt: skip
    assert {each.name for each in shell.assignments(SCRIPT) if each.pair} == {"G", "H"}
    assert {each.name for each in shell.assignments(SCRIPT) if each.alone} == {"F"}


def test_env_files_need_no_quotes() -> None:
    text = "A=verbs;ofi_rxm\n# c\nB=\"a b\" \nC='q;r'\nD=\n"
    assert shell.is_env_file(text)
    assert names(text) == [("A", "verbs;ofi_rxm"), ("B", "a b"), ("C", "q;r"), ("D", "")]
    assert shell.assign(text, {"A": "tcp", "E": "x;y"}) == 'E="x;y"\nA=tcp\n# c\nB="a b" \nC=\'q;r\'\nD=\n'
    assert not shell.is_env_file("A=1\ncmd\n")
    assert not shell.is_env_file("A=1 cmd\n")
    assert not shell.is_env_file("#!/bin/sh\nA=1\n")


VALUE = st.text(st.characters(codec="utf-8", exclude_characters="\n\r\0\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), max_size=20)
SHELL_VALUE = st.text(st.sampled_from("aZ09_;:,.-+/=%@^ $`\"\\'#&|<>()*?!~[]{}"), max_size=12)


@settings(deadline=None)
@given(SHELL_VALUE)
def test_quoted_reads_back(value: str) -> None:
    word = shell.quoted(value)
    assert shell.unquoted(word) == value
    (each,) = shell.assignments(f"#!/bin/sh\nexport A={word}\n")
    assert each.value == value


@pytest.mark.system
@settings(deadline=None)
@given(st.lists(SHELL_VALUE, min_size=20, max_size=20))
def test_a_shell_agrees(values: list[str]) -> None:
    text = "".join(f"A={shell.quoted(value)}\nprintf '%s\\n' \"$A\"\n" for value in values)
    done = subprocess.run([shutil.which("sh") or "sh", "-c", text], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == values


LINES = st.sampled_from([*SCRIPT.splitlines(), "", "A=1", "  A=1", "A=1; B=2", "{ A=1; }", "export A=1 && x", "A=1 prog"])
TEXTS = st.lists(LINES, max_size=8).map(lambda lines: "\n".join(lines) + "\n")


@settings(deadline=None)
@given(TEXTS, st.sampled_from("ABCDEFGHIKL"), VALUE)
def test_assign_sets_and_keeps_the_rest(text: str, name: str, value: str) -> None:
    before = [each for each in names(text) if each[0] != name]
    changed = shell.assign(text, {name: value})
    assert [each for each in names(changed) if each[0] != name] == before
    set_now = [each.value for each in shell.assignments(changed) if each.name == name]
    assert set_now
    assert set(set_now) == {value.rstrip() if not shell.is_script(changed) and shell.quoted(value) == value else value}
    kept = [line for line in text.splitlines() if not any(each.name == name for each in shell.assignments("#!\n" + line))]
    assert [line for line in changed.splitlines() if line in kept] == kept


@settings(deadline=None)
@given(TEXTS, st.sampled_from("ABCDEFGHIKL"))
def test_without_takes_one_and_keeps_the_rest(text: str, name: str) -> None:
    mine = [each for each in shell.assignments(text) if each.name == name]
    if not mine:
        return
    changed = shell.without(text, mine[0])
    left = names(text)
    left.remove((name, mine[0].value))
    assert sorted(names(changed)) == sorted(left)


@pytest.mark.parametrize(
    ("text", "name", "left"),
    [
        ("export A=1\nx\n", "A", "x\n"),
        ("export A=1 B=2\n", "A", "export B=2\n"),
        ("A=1 prog\n", "A", "prog\n"),
        ("A=1; prog\n", "A", ":; prog\n"),
        ("export A=1 && prog\n", "A", ": && prog\n"),
        ("if x; then\n    export A=1\nfi\n", "A", "if x; then\n    :\nfi\n"),
        ("if x; then A=1; fi\n", "A", "if x; then :; fi\n"),
        ("env B=1 \\\n    A=2\n", "A", "env B=1 \\\n\n"),
        ("mpirun -genv A 1 -n 2 x\n", "A", "mpirun -n 2 x\n"),
        ("mpirun -x A=1 -n 2 x\n", "A", "mpirun -n 2 x\n"),
    ],
)
def test_without_leaves_a_script(text: str, name: str, left: str) -> None:
    text = f"#!/bin/sh\n{text}"
    each = next(each for each in shell.assignments(text) if each.name == name)
    changed = shell.without(text, each)
    assert changed == f"#!/bin/sh\n{left}"
    subprocess.run(["sh", "-n", "-c", changed], check=True, timeout=60)


def test_what_is_set_is_not_unset() -> None:
    text = "#!/bin/sh\nif x; then\n    unset A\nfi\nunset A B\nexport C=1\n"
    changed = shell.assign(text, {"A": "1", "C": "2"})
    assert changed == "#!/bin/sh\nexport A=1\nif x; then\n    :\nfi\nunset B\nexport C=2\n"


def test_line_ends_stay() -> None:
    assert shell.assign("#!/bin/sh\r\nA=1\r\nx\r\n", {"A": "2", "B": "3"}) == "#!/bin/sh\r\nexport B=3\r\nA=2\r\nx\r\n"
    assert shell.assign("\ufeff# c\nA=1", {"B": "3"}) == "\ufeff# c\nB=3\nA=1"
    assert shell.assign("", {"A": "1"}) == "A=1\n"


@settings(deadline=None)
@given(st.text(max_size=120))
def test_any_text_is_read(text: str) -> None:
    for each in shell.assignments(text):
        assert text[each.start :].startswith(each.name)
        assert 1 <= each.line <= len(text.splitlines())
