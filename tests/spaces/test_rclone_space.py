"""rclone's space: memory, what the kernel grants, and settings that are the same in effect."""

import random

import pytest

from spaces.rclone import SPACE, Limits, cost, for_machine, held

MIB = 1 << 20
BIG = 1 << 50


def config(**changed: object) -> dict[str, object]:
    return {**SPACE.default, **changed}


def test_what_a_setting_can_hold() -> None:
    assert held(SPACE.default, 4) == 4 * 16 * MIB
    streams = config(vfs_read_chunk_streams=8, vfs_read_chunk_size=4 * MIB, buffer_size=0)
    assert held(streams, 10) == 320 * MIB
    assert held(streams, 10, largest=8 * MIB) == 80 * MIB, "no more is held of a file than there is of it"


def test_a_setting_that_does_not_fit_is_refused_with_its_product() -> None:
    space = for_machine(SPACE, Limits(open_files=80, memory=8 << 30))
    (reason,) = space.broken(config(vfs_read_chunk_streams=32, vfs_read_chunk_size=32 * MIB, buffer_size=0))
    assert reason == (
        "80 open files with 32 streams of 32M and 0 of buffer can hold 80.00 GiB, and 8.00 GiB are allowed (--memory)"
    )
    assert not space.broken(SPACE.default)


def test_the_kernel_grants_more_read_ahead_to_root_only() -> None:
    wide = config(max_read_ahead=MIB)
    assert "--system" in for_machine(SPACE, Limits(1, BIG)).broken(wide)[0]
    assert not for_machine(SPACE, Limits(1, BIG, system=True)).broken(wide)


def test_root_alone_sets_the_requests_in_the_background() -> None:
    many = config(max_background=64)
    assert "--system" in for_machine(SPACE, Limits(1, BIG)).broken(many)[0]
    assert not for_machine(SPACE, Limits(1, BIG, system=True)).broken(many)
    unseen = for_machine(SPACE, Limits(1, BIG, system=True, fusectl=False))
    assert unseen.broken(many)[0].endswith(": mount -t fusectl fusectl /sys/fs/fuse/connections")
    assert not unseen.broken(SPACE.default)
    assert cost(SPACE.default) < cost(many) < cost(config(max_background=512))


def test_who_is_not_root_draws_nothing_in_vain() -> None:
    assert {each["max_background"] for each in for_machine(SPACE, Limits(1, BIG)).configs()} == {0}
    asked = for_machine(SPACE.narrow({"max_background": "64"}), Limits(1, BIG))
    assert asked.configs() == [], "what was asked for is refused, not exchanged"


def test_reads_that_wait_leave_nothing_in_the_background() -> None:
    space = for_machine(SPACE, Limits(1, BIG, system=True))
    assert space.canonical(config(max_background=64))["max_background"] == 64
    assert space.canonical(config(max_background=64, async_read=False))["max_background"] == 0


@pytest.mark.parametrize(
    ("streams", "chunk", "folded"),
    [
        (8, 128 * MIB, (2, 16 * MIB)),  # one chunk holds all of it; two streams are the fewest that are searched
        (16, 4 * MIB, (4, 4 * MIB)),  # a file of 16M has four such chunks
        (4, 4 * MIB, (4, 4 * MIB)),
        (0, 16 * MIB, (0, 128 * MIB)),  # a single request either way
        (0, 4 * MIB, (0, 4 * MIB)),
    ],
)
def test_what_goes_beyond_the_file_is_folded(streams: int, chunk: int, folded: tuple[int, int]) -> None:
    space = for_machine(SPACE, Limits(1, BIG, largest=16 * MIB))
    found = space.canonical(config(vfs_read_chunk_streams=streams, vfs_read_chunk_size=chunk))
    assert (found["vfs_read_chunk_streams"], found["vfs_read_chunk_size"]) == folded


def test_folding_is_stable_and_keeps_the_default() -> None:
    for largest in (1000, MIB, 20 * MIB, BIG):
        space = for_machine(SPACE, Limits(4, BIG, largest=largest))
        assert space.canonical(space.default) == space.default
        for each in space.pool(random.Random(0), 300):
            assert space.canonical(space.canonical(each)) == space.canonical(each)


def test_folding_stays_inside_of_what_was_asked_for() -> None:
    narrow = SPACE.narrow({"vfs_read_chunk_size": "1M:8M"})
    space = for_machine(narrow, Limits(1, BIG, largest=3 * MIB))
    assert all(space.contains(each) for each in space.configs())
    assert space.canonical(config(vfs_read_chunk_size=8 * MIB))["vfs_read_chunk_size"] == 4 * MIB


def test_zero_is_off_and_typed_ranges_hold_it() -> None:
    space = SPACE.narrow({"vfs_read_chunk_streams": "0:8", "buffer_size": "0"})
    assert space["vfs_read_chunk_streams"].domain.values == (0, 2, 4, 8)
    assert space["buffer_size"].domain.values == (0,)


def test_the_cheaper_of_equals_holds_less() -> None:
    assert cost(config(buffer_size=0)) < cost(SPACE.default) < cost(config(vfs_read_chunk_streams=4))
