"""JuiceFS' space: its buffer in memory, the window in the buffer, what the kernel grants."""

import random

from spaces.juicefs import SPACE, Limits, cost, for_machine, held

MIB = 1 << 20
BIG = 1 << 50


def config(**changed: object) -> dict[str, object]:
    return {**SPACE.default, **changed}


def test_the_buffer_may_overflow_to_twice_its_size() -> None:
    assert held(SPACE.default, cache=256 * MIB) == 856 * MIB
    space = for_machine(SPACE, Limits(memory=1 << 30, cache=256 * MIB))
    assert not space.broken(SPACE.default)
    (reason,) = space.broken(config(buffer_size=1 << 30))
    assert reason == (
        "a buffer of 1G, which reads may overflow to twice that, and a cache of 256M can hold 2.25 GiB, and 1.00 GiB are "
        "allowed (--memory)"
    )


def test_a_window_that_the_buffer_cuts_is_not_measured() -> None:
    (reason,) = SPACE.broken(config(max_readahead=64 * MIB, buffer_size=64 * MIB))
    assert "80 % of buffer_size 64M" in reason
    assert not SPACE.broken(config(max_readahead=64 * MIB, buffer_size=128 * MIB))


def test_the_kernel_grants_more_read_ahead_to_root_only() -> None:
    wide = config(kernel_read_ahead=MIB)
    assert "--system" in for_machine(SPACE, Limits(BIG)).broken(wide)[0]
    assert not for_machine(SPACE, Limits(BIG, system=True)).broken(wide)


def test_root_alone_sets_the_requests_in_the_background() -> None:
    many = config(max_background=64)
    assert "--system" in for_machine(SPACE, Limits(BIG)).broken(many)[0]
    assert not for_machine(SPACE, Limits(BIG, system=True)).broken(many)
    unseen = for_machine(SPACE, Limits(BIG, system=True, fusectl=False))
    assert unseen.broken(many)[0].endswith(": mount -t fusectl fusectl /sys/fs/fuse/connections")
    assert not unseen.broken(SPACE.default)
    assert cost(SPACE.default) < cost(many) < cost(config(max_background=512))


def test_who_is_not_root_draws_nothing_in_vain() -> None:
    assert {each["max_background"] for each in for_machine(SPACE, Limits(BIG)).configs()} == {0}
    asked = for_machine(SPACE.narrow({"max_background": "64"}), Limits(BIG))
    assert asked.configs() == [], "what was asked for is refused, not exchanged"


def test_a_window_beyond_the_file_is_folded() -> None:
    space = for_machine(SPACE, Limits(BIG, largest=10 * MIB))
    assert space.canonical(config(max_readahead=128 * MIB))["max_readahead"] == 16 * MIB
    assert space.canonical(config(max_readahead=4 * MIB))["max_readahead"] == 4 * MIB
    for each in space.pool(random.Random(0), 300):
        assert space.canonical(space.canonical(each)) == space.canonical(each)


def test_the_cheaper_of_equals_holds_less() -> None:
    assert cost(config(buffer_size=64 * MIB)) < cost(SPACE.default) < cost(config(buffer_size=512 * MIB))
