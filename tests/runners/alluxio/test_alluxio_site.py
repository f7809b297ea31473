"""Our block in a user's site file: theirs stays, ours is replaced, and all of it can be undone."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.alluxio.properties import entries
from runners.alluxio.site import (
    BEGIN,
    END,
    Unreadable,
    beside,
    block_of,
    counting,
    dead,
    memory_of,
    merged,
    settings,
    without_block,
)
from spaces.alluxio import SPACE, parse_version

P = "alluxio.user.position.reader.streaming.async.prefetch."
TEXTS = st.text(st.sampled_from("ab=: \t\\\n\r#!."), max_size=60)


def pairs(text: str) -> list[tuple[str, str]]:
    return [(entry.key, entry.value) for entry in entries(text)]


def test_a_key_of_the_users_that_ours_replaces_becomes_a_comment() -> None:
    text = f"a=1\n{P}thread=64\n# note\n{P}thread = 32 \\\n\n b=2\n"
    whole = merged(text, {P + "thread": "128"}, ["study x"])
    assert pairs(whole) == [("a", "1"), ("b", "2"), (P + "thread", "128")]
    assert f"# replaced by clustertune: {P}thread=64\n# note\n" in whole
    assert whole.count(BEGIN) == whole.count(END) == 1


def test_an_alias_is_replaced_too() -> None:
    text = "alluxio.user.network.reader.chunk.size.bytes=2MB\n"
    whole = merged(text, {"alluxio.user.streaming.reader.chunk.size.bytes": "4MB"}, [])
    assert pairs(whole) == [("alluxio.user.streaming.reader.chunk.size.bytes", "4MB")]


@given(TEXTS, st.booleans())
def test_all_of_the_users_is_kept_and_comes_back(text: str, twice: bool) -> None:
    values = {"alluxio.fuse.mount.options": "direct_io"}
    whole = merged(text, values, ["one"])
    if twice:
        whole = merged(whole, values, ["another"])
        assert whole.count(BEGIN) == 1
    said = [(key, value) for key, value in pairs(text) if key or value]
    assert [(k, v) for k, v in pairs(whole) if k or v] == [*said, *values.items()]
    assert without_block(whole).rstrip("\r\n") == text.rstrip("\r\n")


@given(st.lists(st.sampled_from(["a=1", "# c", "", f"{P}thread=5", "s3a.secretKey=x\\\\"]), max_size=5), st.booleans(),
       st.sampled_from(["\n", "\r\n"]))  # fmt: skip
def test_what_is_taken_out_again_leaves_the_very_bytes(lines: list[str], ended: bool, ends: str) -> None:
    text = ends.join(lines) + (ends if ended and lines else "")
    once = merged(text, {P + "thread": "128"}, ["x"])
    assert without_block(once) == text
    assert merged(once, {P + "thread": "128"}, ["x"]) == once


def test_a_text_that_a_backslash_leaves_open_does_not_swallow_ours() -> None:
    for text in ("a=1\\", "a=1\\\n", "a=1\\\r\n", "a=1\\\r", "# one\na=1\\\r", "a=1\\\n   "):
        assert pairs(merged(text, {P + "thread": "2"}, ["h"])) == [("a", "1"), (P + "thread", "2")]


def test_settings_are_read_as_alluxio_takes_them() -> None:
    text = f"{P}thread=256\n {P}part.length : 2mb\n{P}max.part.number=4\n"
    text += "alluxio.fuse.mount.options=ro,direct_io,max_background=64\n"
    found = settings(text)
    assert (found["prefetch_threads"], found["part_length"], found["max_part_number"]) == (256, 2 << 20, 4)
    assert (found["page_cache"], found["max_background"]) == ("direct_io", 64)
    assert settings("")["prefetch_threads"] == 64
    assert settings("alluxio.fuse.mount.options=\n")["page_cache"] == "default"


def test_what_people_write_for_true_is_false_to_alluxio() -> None:
    assert settings(f"{P}enable=yes\n")["prefetch"] is False
    assert settings(f"{P}by.file.enabled=true\n")["shared_reads"] is False
    assert settings(f"{P}by.file.enabled=true\n{P}shared.cache.enabled=TRUE\n")["shared_reads"] is True


def test_keys_of_another_version_change_nothing() -> None:
    text = f"{P}thread=256\nalluxio.user.streaming.reader.chunk.size.bytes=4MB\n"
    assert settings(text, parse_version("2.9.5"))["prefetch_threads"] == 64
    assert settings(text, parse_version("2.9.5"))["chunk_size"] == 4 << 20
    assert settings(text, parse_version("3.6"))["chunk_size"] == 1 << 20
    assert [key.name for _, key in dead(text, parse_version("2.9.5"))] == [P + "thread"]


@pytest.mark.parametrize(
    ("text", "why"),
    [(f"{P}part.length=4 MB\n", "a blank before the unit throws"), (f"{P}thread=64 # n\n", "no whole number"),
     (f"{P}thread=0\n", "at least 1"), ("a=\\u12\n", "can't be read by Java")],
)  # fmt: skip
def test_a_file_that_alluxio_trips_over_is_told_with_its_line(text: str, why: str) -> None:
    with pytest.raises(Unreadable, match=f"line 2.*{why}"):
        settings(f"# first\n{text}")


def test_the_block_says_only_what_is_not_so_already() -> None:
    config = {**SPACE.default, "max_part_number": 16}
    assert block_of(config, "", None) == {P + "max.part.number": "16"}
    assert block_of(config, f"{P}thread=12\n", None) == {P + "thread": "64", P + "max.part.number": "16"}
    kept = block_of({**config, "page_cache": "direct_io"}, "alluxio.fuse.mount.options=allow_other,kernel_cache\n", None)
    assert kept["alluxio.fuse.mount.options"] == "allow_other,direct_io"


def test_every_setting_reads_back_out_of_a_users_file() -> None:
    rng = random.Random(11)
    user = f"# mine\n{P}thread=7\nalluxio.fuse.mount.options=allow_other,auto_cache\nx=\\\n y\n"
    for config in SPACE.pool(rng, 100):
        whole = merged(user, block_of(config, user, None), beside(config))
        assert settings(whole) == config
        assert without_block(whole) == user


def test_memory_options_as_java_takes_them() -> None:
    assert memory_of("-Xmx1g -XX:MaxDirectMemorySize=512m -XX:MaxDirectMemorySize=8G") == 8 << 30
    assert memory_of("-XX:MaxDirectMemorySize=1024") == 1024
    assert memory_of("-Xmx4g") is None


def test_counting_takes_the_last_and_trims() -> None:
    assert {key: entry.value for key, entry in counting("a=1\n\\ a\\ =2\n").items()} == {"a": "2"}
