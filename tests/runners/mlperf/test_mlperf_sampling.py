"""Counters over a part of a run's time."""

import itertools
import os
import time
from pathlib import Path

import pytest

from runners.mlperf.sampling import Samples, busy_between, from_device, processor_time


def test_what_lies_between_two_moments_is_never_cut() -> None:
    count = itertools.count()
    began = time.time()
    with Samples(lambda: next(count)) as samples:
        time.sleep(0.6)
    ended = time.time()
    found = samples.around(began, ended)
    assert found is not None
    assert found[0] == 0
    assert found[1] == next(count) - 1
    middle = samples.around(began + 0.3, began + 0.31)
    assert middle is not None
    assert found[0] <= middle[0] < middle[1] <= found[1]


def test_nothing_read_is_nothing_known() -> None:
    assert Samples(processor_time).around(0, 1) is None
    assert busy_between(Samples(processor_time), 0, 1) is None


def test_processors_are_busy_by_a_share() -> None:
    began = time.time()
    with Samples(processor_time) as samples:
        time.sleep(0.3)
    share = busy_between(samples, began, time.time())
    assert share is not None
    assert 0 <= share <= 1


def test_a_device_is_asked_by_the_number_of_the_folder(tmp_path: Path) -> None:
    device = tmp_path.stat().st_dev
    stat = tmp_path / "sys" / "dev" / "block" / f"{os.major(device)}:{os.minor(device)}" / "stat"
    stat.parent.mkdir(parents=True)
    stat.write_text("    1453        0    4096      612  0 0 0 0 0 0 0\n")
    read = from_device(tmp_path, tmp_path / "sys")
    assert read is not None
    assert read() == 4096 * 512
    stat.unlink()
    assert read() == 0


@pytest.mark.parametrize("text", ["", "1 2", "1 2 none"])
def test_a_folder_without_a_device_can_not_be_asked(tmp_path: Path, text: str) -> None:
    assert from_device(tmp_path, tmp_path / "sys") is None
