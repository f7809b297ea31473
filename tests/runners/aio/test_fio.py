"""fio as second opinion: its output read with care, its real runs kept inside the scratch folder."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.aio.fio import Figures, command, file_name, find_fio, parse, run_fio
from runners.process import descendants
from runners.runner import Failure, Measurement

RECORDED = Path(__file__).parents[2] / "data" / "aio" / "fio"
MIB = 1 << 20
CONFIG = {"block_size": MIB, "queue_depth": 8, "intra_op_parallelism": 2, "single_submit": False, "overlap_events": True}

needs_fio = pytest.mark.skipif(find_fio() is None, reason="fio is not installed")


def test_recorded_read_of_two_ranks_with_two_threads() -> None:
    figures = parse((RECORDED / "read.json").read_text())
    assert isinstance(figures, Figures)
    assert (figures.version, figures.bytes_read, figures.bytes_written) == ("fio-3.33", 268435456, 0)
    assert figures.read_gbs == pytest.approx(268435456 / 0.145 / 1e9)
    assert figures.write_gbs == 0


def test_recorded_write_behind_a_note_and_a_warning() -> None:
    text = "fio: this platform does not support process shared mutexes\n{ not json\n" + (RECORDED / "write.json").read_text()
    figures = parse(text)
    assert isinstance(figures, Figures)
    assert figures.bytes_written == 134217728
    assert figures.write_gbs == pytest.approx(134217728 / 0.052 / 1e9)


def test_recorded_failure_on_a_full_disk() -> None:
    failure = parse((RECORDED / "full.json").read_text())
    assert isinstance(failure, Failure)
    assert failure.reason == "fio's I/O failed: No space left on device"


def test_jobs_that_are_not_grouped_count_by_the_longest() -> None:
    jobs = [{"error": 0, "read": {"io_bytes": 1000 * MIB, "runtime": time}} for time in (500, 1000)]
    figures = parse(json.dumps({"fio version": "fio-3", "jobs": jobs}))
    assert isinstance(figures, Figures)
    assert figures.read_gbs == pytest.approx(2000 * MIB / 1e9)


@given(st.text(max_size=300))
def test_text_that_is_no_result_is_a_failure(text: str) -> None:
    outcome = parse(text)
    assert isinstance(outcome, Failure | Figures)
    assert isinstance(parse("[" + text), Failure) or "\n{" in text or "\r{" in text


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
sides = st.dictionaries(st.sampled_from(["io_bytes", "runtime", "bw_bytes"]), json_values)
jobs = st.dictionaries(st.sampled_from(["read", "write", "error"]), json_values | sides | st.just(0))


@given(st.fixed_dictionaries({"jobs": st.lists(jobs, max_size=3) | json_values, "fio version": json_values}))
def test_a_result_of_any_shape_gives_sane_figures_or_a_failure(document: dict[str, object]) -> None:
    outcome = parse(json.dumps(document))
    if isinstance(outcome, Figures):
        assert 0 <= outcome.read_gbs < 1e15
        assert 0 <= outcome.write_gbs < 1e15


@given(st.integers(0, 6000))
def test_a_result_cut_short_is_a_failure(length: int) -> None:
    text = (RECORDED / "read.json").read_text().rstrip()
    assert isinstance(parse(text[: min(length, len(text) - 1)]), Failure)


def test_deep_nesting_is_a_failure() -> None:
    assert isinstance(parse('{"jobs": ' + "[" * 100000), Failure)


def test_what_fio_is_told() -> None:
    arguments = command(CONFIG, read=False, size=8 * MIB, ranks=2, passes=3, seconds=2.5)
    for wanted in ("--bs=1048576", "--iodepth=8", "--numjobs=2", "--direct=1", "--ioengine=libaio", "--rw=write"):
        assert wanted in arguments
    assert {"--size=4194304", "--offset_increment=4194304", "--io_size=12582912", "--runtime=2500ms"} <= set(arguments)
    assert arguments[-4:] == ["--name=rank0", "--filename=fio-rank0.dat", "--name=rank1", "--filename=fio-rank1.dat"]
    assert "--time_based=1" not in arguments


def test_a_block_larger_than_a_threads_part_is_cut_to_it() -> None:
    assert "--bs=524288" in command(CONFIG, read=True, size=MIB, ranks=1, passes=1, seconds=None)


def test_without_fio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    failure = run_fio(CONFIG, tmp_path, read=True, size=MIB)
    assert isinstance(failure, Failure)
    assert failure.kind == "infeasible"
    assert "package is named fio" in failure.reason


@needs_fio
def test_a_file_that_does_not_divide(tmp_path: Path) -> None:
    failure = run_fio({**CONFIG, "intra_op_parallelism": 3}, tmp_path, read=True, size=MIB)
    assert isinstance(failure, Failure)
    assert failure.reason == "a file of 1048576 bytes does not divide by 3 threads"


@needs_fio
@pytest.mark.system
@pytest.mark.parametrize("name", ["plain", "two words", "a:b", "nvmé 漢", "-rf", "per%cent$x"])
def test_real_runs_in_folders_of_any_name(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    read = run_fio(CONFIG, folder, read=True, size=8 * MIB, ranks=2, passes=2)
    assert isinstance(read, Measurement)
    assert 0.001 < read.metrics["read_gbs"] < 200
    assert read.bytes_written == 16 * MIB  # laid out once
    write = run_fio(CONFIG, folder, read=False, size=8 * MIB, ranks=2, passes=2)
    assert isinstance(write, Measurement)
    assert write.metrics["write_gbs"] > 0.001
    assert write.bytes_written == 32 * MIB
    assert sorted(path.name for path in folder.iterdir()) == [file_name(0), file_name(1)]
    assert {path.stat().st_size for path in folder.iterdir()} == {8 * MIB}
    assert {path.stat().st_blocks * 512 >= 8 * MIB for path in folder.iterdir()} == {True}
    assert [path.name for path in tmp_path.iterdir()] == [name]


@needs_fio
@pytest.mark.system
def test_a_run_over_its_limit_is_stopped_and_leaves_no_torn_files(tmp_path: Path) -> None:
    failure = run_fio(CONFIG, tmp_path, read=True, size=8 * MIB, seconds=30, limit=1.5)
    assert isinstance(failure, Failure)
    assert failure.kind == "timeout"
    assert 1.4 < failure.seconds < 10
    assert failure.bytes_written == 8 * MIB
    assert list(tmp_path.iterdir()) == []
    names = [Path(f"/proc/{pid}/comm").read_text() for pid in descendants(os.getpid()) if Path(f"/proc/{pid}/comm").exists()]
    assert "fio\n" not in names


@needs_fio
@pytest.mark.system
@pytest.mark.root
def test_a_full_disk_is_the_environments_failure(make_mount: Callable) -> None:
    disk = make_mount("full:disk", size_mb=24).path
    failure = run_fio(CONFIG, disk, read=False, size=64 * MIB)
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.reason) == ("environment", "the disk is full")
    assert [path.name for path in disk.iterdir()] == ["lost+found"]
