"""The DataLoader load on a plain folder: real workers, real files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from runners.mount.loads import Place
from runners.mount.loads.torch import TorchLoad, create
from runners.mount.work import Reading, Work
from runners.runner import Failure

pytestmark = pytest.mark.system


@pytest.fixture
def place(tmp_path: Path) -> Place:
    pytest.importorskip("torch")
    (tmp_path / "data").mkdir()
    (tmp_path / "own").mkdir()
    for number in range(6):
        (tmp_path / "data" / f"{number}.bin").write_bytes(os.urandom((1 << 20) + 100 * number))
    return Place(tmp_path / "data", tmp_path / "own")


@pytest.fixture
def made(request: pytest.FixtureRequest) -> Iterator[TorchLoad]:
    load = create("torch", Work(jobs=2, seconds=1.0, **getattr(request, "param", {})))
    yield load
    load.close()
    load.close()


def read(load: TorchLoad, place: Place) -> Reading:
    assert load.problems() == []
    assert load.choose(place) == {"files": 6, "bytes": 6 * (1 << 20) + 1500, "largest_file": (1 << 20) + 500}
    reading = load.run(place, 120.0)
    assert isinstance(reading, Reading), reading
    return reading


@pytest.mark.parametrize("made", [{}, {"pattern": "random"}, {"direct": True}], indirect=True)
def test_an_epoch_reads_every_file_once(made: TorchLoad, place: Place) -> None:
    reading = read(made, place)
    whole = reading.epochs[:-1] or reading.epochs
    assert {epoch.bytes_read for epoch in whole} == {6 * (1 << 20) + 1500}
    assert {epoch.metrics["files"] for epoch in whole} == {6.0}
    assert not any(epoch.filling for epoch in reading.epochs)
    assert all(a.ended <= b.began for a, b in zip(reading.epochs, reading.epochs[1:], strict=False))
    metrics, samples = made.figures(reading.epochs)
    assert metrics["read_mib_s"] > 0
    assert len(samples) == len(reading.epochs)
    again = made.run(place, 120.0)  # the process is warm
    assert isinstance(again, Reading)


@pytest.mark.parametrize("made", [{"warm": True}], indirect=True)
def test_a_warm_load_fills_first(made: TorchLoad, place: Place) -> None:
    reading = read(made, place)
    assert [epoch.filling for epoch in reading.epochs[:2]] == [True, False]


def test_a_file_that_went_away_is_a_crash_and_the_next_run_works(made: TorchLoad, place: Place) -> None:
    read(made, place)
    kept = (place.folder / "3.bin").read_bytes()
    (place.folder / "3.bin").unlink()
    failed = made.run(place, 120.0)
    assert isinstance(failed, Failure)
    assert failed.kind == "crash"
    assert "No such file" in failed.reason
    assert "\n" not in failed.reason
    (place.folder / "3.bin").write_bytes(kept)
    assert isinstance(made.run(place, 120.0), Reading)


def test_more_workers_than_files_are_told(place: Place) -> None:
    load = create("torch", Work(jobs=8, seconds=0.5))
    try:
        assert "the others idle" in read(load, place).warnings[0]
    finally:
        load.close()
