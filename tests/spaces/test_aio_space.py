"""The aio rules: what DeepSpeed's op would accept and get wrong is refused before it is measured."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spaces.aio import SPACE, Limits, cost, for_machine, padded, reserved_events
from spaces.space import Space


def machine(*sizes: int, sector: int = 512, ranks: int = 1, handles: int = 1, aio_free: int = 65536) -> Space:
    return for_machine(SPACE, Limits(sizes or (64 << 20,), sector, ranks, handles, aio_free))


def with_values(**values: int) -> dict[str, bool | int | str]:
    return {**SPACE.default, **values}


def test_case_slice_off_sector() -> None:
    reasons = machine(1_000_000).broken(with_values(intra_op_parallelism=8))
    assert reasons == [
        "the slice of 125000 bytes (1000000 / 8 threads) is not a whole number of 512-byte sectors; "
        "a tensor of 1003520 bytes would be"
    ]


def test_case_slice_off_4kn() -> None:
    tensor = 16_781_312
    on_4kn, on_512 = machine(tensor, sector=4096), machine(tensor, sector=512)
    assert "4096-byte sectors" in on_4kn.broken(with_values(intra_op_parallelism=4))[0]
    assert on_4kn.legal(with_values(intra_op_parallelism=1))
    assert on_512.legal(with_values(intra_op_parallelism=4))


def test_case_aio_nr() -> None:
    space = machine(aio_free=65536)
    [reason] = space.broken(with_values(queue_depth=66000))
    assert "(1 threads + 1) x 66000 deep x 1 handles x 1 ranks = 132000" in reason
    assert "65536 are free" in reason
    narrowed = for_machine(SPACE.narrow({"queue_depth": "8,66000"}), Limits((64 << 20,), 512, 1, 1, 65536))
    assert {c["queue_depth"] for c in narrowed.configs()} == {8}


def test_tensors_must_divide() -> None:
    assert "does not divide by 16 threads" in machine(1_000_008).broken(with_values(intra_op_parallelism=16))[0]


def test_equal_in_effect_is_folded() -> None:
    space = machine(8 << 20)
    deep = with_values(block_size=8 << 20, queue_depth=256, single_submit=True, overlap_events=False)
    assert space.canonical(deep) == with_values(block_size=8 << 20, queue_depth=1)
    large = with_values(block_size=16 << 20, queue_depth=4)
    assert space.canonical(large) == with_values(block_size=8 << 20, queue_depth=1)
    assert space.canonical(with_values(block_size=1 << 20, queue_depth=64))["queue_depth"] == 8
    assert space.canonical(SPACE.default) == SPACE.default
    assert len(space.configs()) < SPACE.size / 2


@given(
    st.sampled_from([1 << 20, 8 << 20, 64 << 20, (64 << 20) + 512, 28_824_064]),
    st.sampled_from([512, 4096]),
    st.integers(1, 8),
    st.data(),
)
def test_every_listed_setting_is_sound(size: int, sector: int, ranks: int, data: st.DataObject) -> None:
    space = machine(padded(size, sector), sector=sector, ranks=ranks, handles=4)
    config = data.draw(st.sampled_from(space.configs()))
    threads = int(config["intra_op_parallelism"])
    assert padded(size, sector) % (threads * sector) == 0
    assert reserved_events(config, ranks, 4) <= 65536
    assert space.canonical(space.canonical(config)) == space.canonical(config) == config


def test_the_cheapest_takes_least_in_flight() -> None:
    configs = [with_values(intra_op_parallelism=t, queue_depth=q) for t, q in ((8, 32), (1, 8), (2, 8), (1, 32))]
    assert [c["queue_depth"] for c in sorted(configs, key=cost)][:2] == [8, 8]
    assert min(configs, key=cost)["intra_op_parallelism"] == 1


@pytest.mark.parametrize(("size", "unit", "whole"), [(28_824_000, 512, 28_824_064), (512, 512, 512), (1, 4096, 4096)])
def test_padding(size: int, unit: int, whole: int) -> None:
    assert padded(size, unit) == whole
