"""The reader's knobs: those that a division allows and this DLIO has, beside the mount's own."""

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.mlperf.installed import Dlio
from runners.mlperf.reader import able, extended, knobs, parameters
from runners.mlperf.workloads import find
from runners.mount.loads import create
from runners.mount.work import Able, Work
from runners.runner import UsageError
from spaces.rclone import SPACE
from spaces.space import BadValue

OLD = ("read_threads", "prefetch_size", "transfer_size", "computation_threads")


def dlio(*more: str) -> Dlio:
    return Dlio("python3", Path("/opt/dlio"), "2.0.0", frozenset({*OLD, *more}), True, True, True)


def names(model: str, version: str, installed: Able, *, beyond: bool = False) -> set[str]:
    return {knob.name for knob in knobs(find(model, version), installed, beyond_closed=beyond)}


@pytest.mark.parametrize(
    ("model", "version", "more", "beyond", "expected"),
    [
        ("unet3d", "v2.0", (), False, {"reader_read_threads", "reader_prefetch_size"}),
        ("unet3d", "v2.0", ("odirect",), False, {"reader_read_threads", "reader_prefetch_size", "reader_odirect"}),
        ("resnet50", "v2.0", ("odirect",), False, {"reader_read_threads", "reader_prefetch_size", "reader_transfer_size"}),
        ("unet3d", "v0.5", (), False, {"reader_read_threads"}),
        ("bert", "v0.5", (), False, {"reader_read_threads"}),
        ("bert", "v0.5", (), True, {"reader_read_threads", "reader_transfer_size"}),
    ],
)
def test_knobs_are_those_of_the_division_that_do_something(
    model: str, version: str, more: tuple[str, ...], beyond: bool, expected: set[str]
) -> None:
    assert names(model, version, able(dlio(*more)), beyond=beyond) == expected


def test_of_several_hosts_counts_what_all_can_do() -> None:
    old, new = able(dlio()), replace(able(dlio("odirect")), threads=4)
    assert names("unet3d", "v2.0", Able.of_all([new, old])) == names("unet3d", "v2.0", old)
    for several in ([old, new], [new, old]):
        (threads, *_) = knobs(find("unet3d"), Able.of_all(several), beyond_closed=False)
        assert threads.domain.values == (1, 2, 4)


def test_they_stand_beside_the_mounts_and_keep_its_rules() -> None:
    more = knobs(find("unet3d"), able(dlio()), beyond_closed=False)
    space = extended(SPACE, more, {})
    assert [knob.name for knob in space.knobs] == [*(k.name for k in SPACE.knobs), *(k.name for k in more)]
    assert space.contains(space.default)
    assert space.default["reader_read_threads"] == 4
    for config in space.pool(random.Random(0), 200):
        assert SPACE.legal(config)
        assert parameters(config) == {
            "reader.read_threads": str(config["reader_read_threads"]),
            "reader.prefetch_size": str(config["reader_prefetch_size"]),
        }


def test_fewer_processes_are_cheaper() -> None:
    space = extended(SPACE, knobs(find("unet3d"), able(dlio()), beyond_closed=False), {})
    few, many = ({**space.default, "reader_read_threads": number} for number in (1, 8))
    assert space.cost(few) < space.cost(many)


def test_a_parameter_that_the_user_gave_is_fixed() -> None:
    space = extended(SPACE, knobs(find("unet3d"), able(dlio()), beyond_closed=False), {"reader.read_threads": "6"})
    assert space["reader_read_threads"].domain.values == (6,)
    assert space.default["reader_read_threads"] == 6
    with pytest.raises(BadValue):
        extended(SPACE, knobs(find("unet3d"), able(dlio()), beyond_closed=False), {"reader.read_threads": "some"})


@given(st.sampled_from((1, 2, 4, 8)), st.sampled_from((0, 1, 2, 4, 8, 16, 32)))
def test_prefetches_that_come_to_the_same_are_one_setting(threads: int, prefetch: int) -> None:
    space = extended(SPACE, knobs(find("unet3d"), able(dlio()), beyond_closed=False), {})
    config = {**space.default, "reader_read_threads": threads, "reader_prefetch_size": prefetch}
    folded = space.canonical(config)

    def share(number: int) -> int:
        return math.ceil(number / threads) or 2

    assert share(int(folded["reader_prefetch_size"])) == share(prefetch)
    assert int(folded["reader_prefetch_size"]) <= prefetch
    assert space.canonical(folded) == folded
    assert folded["reader_prefetch_size"] in space["reader_prefetch_size"].domain.values


def test_a_load_without_such_knobs_refuses_to_tune_them() -> None:
    with pytest.raises(UsageError, match="--load fio: has no reader that --tune-reader could tune"):
        create("fio", Work(reader="closed"))
