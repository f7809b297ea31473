"""Which epochs count, and what each was served: arithmetic of counters."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.mount import honest
from runners.mount.meter import Counters, Moved, by_epoch, moved_at_all, moving
from runners.mount.work import Epoch

_GIB = 1 << 30


def epoch(began: float, ended: float, read: int, **more: Any) -> Epoch:
    return Epoch(began, ended, read, **more)


def test_epochs_that_came_from_memory_are_not_counted() -> None:
    """The figures of a public report: high utilisation in epochs 2 and 3, and hardly a byte from the store."""
    epochs = [epoch(n, n + 1, 2684354560) for n in range(3)]
    moved = [Moved(served, None) for served in (2684354560, 12582912, 10485760)]
    verdict = honest.judge(epochs, moved, warm=False)
    assert verdict.counted == (0,)
    assert len(verdict.sentences) == 2
    assert "epoch 2 is not counted: 2560M were read and 12M came from the store" in verdict.sentences[0].replace(
        "2.5G", "2560M"
    )
    assert "--direct" in verdict.sentences[1]


def test_a_measurement_out_of_the_page_cache_is_wrong_altogether() -> None:
    verdict = honest.judge([epoch(0, 1, _GIB)], [Moved(0, 0)], warm=False)
    assert verdict.counted == ()
    assert verdict.sentences[0].startswith("the measurement is not counted: 1G were read and 0")


def test_read_ahead_does_not_hide_what_the_page_cache_answered() -> None:
    fetched_much = Moved(served=50 * _GIB, answered=_GIB // 10)
    assert honest.judge([epoch(0, 1, _GIB)], [fetched_much], warm=False).counted == ()
    assert honest.judge([epoch(0, 1, _GIB)], [Moved(50 * _GIB, _GIB)], warm=False).counted == (0,)


def test_compressed_stores_send_less_than_is_read() -> None:
    assert honest.judge([epoch(0, 1, _GIB)], [Moved(_GIB // 4, _GIB)], warm=False, share=0.01).counted == (0,)


def test_warm_epochs_count_when_the_mount_answered_and_the_first_only_fills() -> None:
    epochs = [epoch(0, 5, _GIB, filling=True), epoch(5, 6, _GIB), epoch(6, 7, _GIB)]
    moved = [Moved(_GIB, _GIB), Moved(0, _GIB), Moved(0, 0)]
    verdict = honest.judge(epochs, moved, warm=True)
    assert verdict.counted == (1,)
    assert "page cache" in verdict.sentences[0]


def test_a_cache_that_does_not_hold_the_data_is_told() -> None:
    verdict = honest.judge([epoch(0, 1, _GIB)], [Moved(_GIB // 2, _GIB)], warm=True)
    assert verdict.counted == (0,)
    assert verdict.sentences == ("the mount's cache is not warm: 50% of what was read still came from the store",)


def test_an_epoch_that_read_nothing_is_none() -> None:
    verdict = honest.judge([epoch(0, 1, 0)], [Moved(5, 5)], warm=False)
    assert verdict == honest.Verdict((), ("the measurement read nothing",))


def test_counters_are_shared_out_between_epochs() -> None:
    readings = [Counters(float(second), 100 * second, 10 * second) for second in range(11)]
    epochs = [epoch(1.0, 4.0, 1), epoch(4.5, 9.0, 1)]
    # The first takes in what came before it, the last what came after.
    assert by_epoch(readings, epochs) == [Moved(400, 40), Moved(600, 60)]


def test_without_readings_nothing_was_served() -> None:
    assert by_epoch([], [epoch(0, 1, 5)]) == [Moved(0, None)]
    assert by_epoch([Counters(0.0, 5, None)], []) == []


def test_one_reading_is_no_difference() -> None:
    assert by_epoch([Counters(0.5, 700, 7)], [epoch(0, 1, 5)]) == [Moved(0, 0)]


@given(
    st.lists(st.tuples(st.floats(0.01, 10), st.integers(0, 10**9)), min_size=2, max_size=20),
    st.lists(st.floats(0.01, 5), min_size=1, max_size=6),
)
def test_all_that_was_served_is_in_some_epoch(steps: list[tuple[float, int]], lengths: list[float]) -> None:
    at, total, readings = 100.0, 0, []
    for seconds, served in steps:
        readings.append(Counters(at, total, None))
        at, total = at + seconds, total + served
    readings.append(Counters(at, total, None))
    begun, epochs = 100.0, []
    for length in lengths:
        epochs.append(epoch(begun, begun + length, 1))
        begun += length
    moved = by_epoch(readings, epochs)
    if epochs[-1].began <= readings[-1].at:
        assert sum(each.served for each in moved) == pytest.approx(total, abs=len(lengths) + 1)
    assert all(each.served >= 0 for each in moved)


def test_slow_is_told_from_dead() -> None:
    readings = [Counters(float(second), 100 * min(second, 7), None) for second in range(11)]
    assert moving(readings, 8.0)
    assert not moving(readings, 10.5)
    assert not moving([], 10.0)
    assert not moving(readings[:1], 0.5)


def test_nothing_read_is_told_from_something() -> None:
    readings = [Counters(float(second), 100 * max(0, second - 5), None) for second in range(11)]
    assert moved_at_all(readings)
    assert not moved_at_all(readings[:5])
    assert not moved_at_all([])
