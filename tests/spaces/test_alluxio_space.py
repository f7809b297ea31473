"""Alluxio's keys by version, the rule of direct memory, and settings that are the same in effect."""

from __future__ import annotations

import random

import pytest

from spaces.alluxio import (
    BY_NAME,
    KEYS,
    PROPERTIES,
    SPACE,
    USUAL_OPTIONS,
    Limits,
    for_job,
    for_version,
    in_version,
    jvm_option,
    mount_options,
    need,
    of_mount_options,
    parse_version,
    properties,
    too_much,
)

M, G = 1 << 20, 1 << 30
BASE = SPACE.default


@pytest.mark.parametrize(
    ("text", "line", "number"),
    [("2.9.5", "open2", (2, 9)), ("2.10", "open2", (2, 10)), ("DA-2.10-3.1", "open2", (2, 10)),
     ("3.1", "enterprise", (3, 1)), ("AI-3.6-12.0.1", "enterprise", (3, 6)), (" 3.6 ", "enterprise", (3, 6)),
     ("304", "open3", (3, 0)), ("305-SNAPSHOT", "open3", (3, 0)), ("oss-3", "open3", (3, 0))],
)  # fmt: skip
def test_versions_of_the_three_lines(text: str, line: str, number: tuple[int, int]) -> None:
    version = parse_version(text)
    assert (version.line, version.number) == (line, number)


@pytest.mark.parametrize("text", ["", "latest", "1.8", "4.0", "v", "3" * 200])
def test_what_is_no_version_is_said_so(text: str) -> None:
    with pytest.raises(ValueError, match=r"3\.6, 2\.9\.5 or oss-3"):
        parse_version(text)


def test_every_knob_has_keys_that_are_known_or_is_none() -> None:
    assert set(PROPERTIES) < {knob.name for knob in SPACE.knobs}
    assert all(name in BY_NAME for names in PROPERTIES.values() for name in names)
    names = [name for key in KEYS for name in (key.name, *key.aliases)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("version", "has", "lacks"),
    [("3.1", {"prefetch", "prefetch_threads", "max_part_number"}, {"file_length_threshold", "slow_threads", "chunk_size"}),
     ("3.6", {"file_length_threshold", "slow_threads", "preload"}, {"prefetch", "chunk_size", "multiplier"}),
     ("2.9.5", {"chunk_size", "buffer_messages"}, {"prefetch_threads", "part_length", "preload", "multiplier"}),
     ("oss-3", {"multiplier", "preload"}, {"part_length", "chunk_size"})],
)  # fmt: skip
def test_a_version_has_its_own_knobs_only(version: str, has: set[str], lacks: set[str]) -> None:
    of = parse_version(version)
    space = for_version(SPACE, of)
    for name in has:
        assert in_version(name, of)
        assert space[name].domain == SPACE[name].domain
    for name in lacks:
        assert not in_version(name, of)
        assert space[name].domain.values == (BASE[name],)


@pytest.mark.parametrize("text", ["2.9.5", "oss-3", "3.1", "3.6", "3.9"])
def test_no_key_is_written_that_the_version_does_not_have(text: str) -> None:
    version = parse_version(text)
    rng = random.Random(1)
    for config in SPACE.pool(rng, 300):
        for key in properties(config, version):
            assert BY_NAME[key].known_to(version)


def test_the_documented_windows_take_what_the_documentation_says() -> None:
    assert need(BASE, 1).windows == 32 * M
    assert need({**BASE, "max_part_number": 4, "prefetch_threads": 256}, 20).total == 4 * M * 4 * 20 * 2
    assert need({**BASE, "prefetch": False}, 80).total == 0
    assert need({**BASE, "chunk_size": 64 * M}, 10, parse_version("2.9.5")).total == 64 * M * 16 * 10
    assert need(BASE, 80, parse_version("oss-3")).total == 0


def test_a_window_that_does_not_fit_is_refused_with_the_sum_and_the_option() -> None:
    space = for_job(SPACE, Limits(parse_version("3.6"), open_files=80))
    config = {**BASE, "part_length": 16 * M, "max_part_number": 64, "direct_memory": 8 * G}
    (reason,) = space.broken(config)
    assert "part_length 16M x max_part_number 64 x 80 open files is 80 GiB" in reason
    assert "has 8 GiB" in reason
    assert "-XX:MaxDirectMemorySize=81g" in reason


def test_memory_that_the_process_has_already_counts() -> None:
    config = {**BASE, "part_length": 32 * M, "max_part_number": 64}
    assert for_job(SPACE, Limits(open_files=4)).broken(config)
    assert not for_job(SPACE, Limits(open_files=4, present=16 * G)).broken(config)


def test_what_the_host_can_hold_bounds_the_windows() -> None:
    space = for_job(SPACE, Limits(open_files=8, memory=2 * G))
    config = {**BASE, "part_length": 32 * M, "max_part_number": 32, "direct_memory": 16 * G}
    assert any("--memory" in reason for reason in space.broken(config))
    assert all(need(each, 8).total <= 2 * G for each in space.pool(random.Random(3), 500))


def test_direct_memory_is_what_a_setting_needs_and_not_searched() -> None:
    space = for_job(SPACE, Limits(open_files=16))
    folded = space.canonical({**BASE, "part_length": 32 * M, "max_part_number": 64, "prefetch_threads": 64})
    assert folded["direct_memory"] == 64 * G
    assert too_much(folded, 16, 64 * G) is None
    assert space.canonical({**BASE, "direct_memory": 128 * G})["direct_memory"] == 4 * G


def test_more_parts_than_a_file_has_and_more_threads_than_parts_are_folded() -> None:
    space = for_job(SPACE, Limits(open_files=2, file_size=10 * M))
    folded = space.canonical({**BASE, "part_length": 4 * M, "max_part_number": 64, "prefetch_threads": 512})
    assert folded["max_part_number"] == 4  # three parts, and the next step of the knob
    assert folded["prefetch_threads"] == 8
    assert space.canonical(folded) == folded


def test_thresholds_on_one_side_of_the_files_are_the_same() -> None:
    space = for_job(SPACE, Limits(file_size=140 * M))
    thresholds = {space.canonical({**BASE, "file_length_threshold": size})["file_length_threshold"]
                  for size in SPACE["file_length_threshold"].domain.values}  # fmt: skip
    assert len(thresholds) == 2


def test_folding_twice_is_folding_once_and_keeps_inside() -> None:
    rng = random.Random(5)
    for limits in (
        Limits(),
        Limits(parse_version("3.6"), 8, 100 * M, 8 * G, mount_options=False),
        Limits(parse_version("2.9")),
    ):
        space = for_job(SPACE, limits)
        for config in space.pool(rng, 300):
            assert space.canonical(config) == config
            assert space.contains(config)


def test_without_prefetch_its_knobs_are_idle() -> None:
    space = for_job(SPACE, Limits(parse_version("3.1")))
    off = space.canonical({**BASE, "prefetch": False, "part_length": M, "prefetch_threads": 8})
    assert (off["part_length"], off["prefetch_threads"]) == (4 * M, 64)
    assert space.cost(off) < space.cost(space.canonical({**BASE, "max_part_number": 1}))


def test_a_smaller_window_costs_less() -> None:
    costs = [SPACE.cost(SPACE.canonical({**BASE, "max_part_number": parts})) for parts in (1, 8, 64)]
    assert costs == sorted(costs)
    assert len(set(costs)) == 3


def test_mount_options_are_searched_only_when_asked_for_or_named() -> None:
    assert len(for_job(SPACE, Limits(mount_options=False))["page_cache"].domain.values) == 1
    named = SPACE.narrow({"page_cache": "default,direct_io"})
    assert len(for_job(named, Limits(mount_options=False))["page_cache"].domain.values) == 2


def test_what_only_root_can_set_is_searched_only_with_system() -> None:
    assert len(for_job(SPACE, Limits(system=False))["read_ahead"].domain.values) == 1
    assert len(for_job(SPACE, Limits(system=True))["read_ahead"].domain.values) > 2


def test_mount_options_keep_what_is_not_ours() -> None:
    config = {**BASE, "page_cache": "direct_io", "max_background": 256}
    assert mount_options(config, ["allow_other", "kernel_cache", "max_background=12"]) == [
        "allow_other", "direct_io", "max_background=256",
    ]  # fmt: skip
    assert of_mount_options(["x", "auto_cache", "max_read=131072"]) == {
        "page_cache": "auto_cache", "max_background": 0, "max_read": 131072,
    }  # fmt: skip
    assert of_mount_options(["max_read=" + "9" * 5000, "max_background=x"]) == of_mount_options([])
    assert mount_options(BASE) == list(USUAL_OPTIONS)
    assert properties(BASE) == {}


def test_jvm_options() -> None:
    assert jvm_option(8 * G) == "-XX:MaxDirectMemorySize=8g"
    assert jvm_option(8 * G + 1) == "-XX:MaxDirectMemorySize=8193m"
