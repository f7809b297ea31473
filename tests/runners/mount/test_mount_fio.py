"""fio's jobs: who reads what, the command line, and real runs on a plain folder."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.mount.files import File
from runners.mount.loads import Place
from runners.mount.loads.fio import FioLoad, Part, command, create, parts
from runners.mount.work import Reading, Work
from runners.runner import Failure

BLOCK = 4096
needs_fio = pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")


def test_files_are_shared_out_the_largest_first() -> None:
    files = [File("small", 10), File("large", 99), File("middle", 50)]
    assert parts(files, 2, 1) == [Part(("large", "small")), Part(("middle",))]


def test_jobs_share_a_file_where_there_are_too_few() -> None:
    assert parts([File("one", 10 * BLOCK)], 2, BLOCK) == [
        Part(("one",), 0, 5 * BLOCK),
        Part(("one",), 5 * BLOCK, 5 * BLOCK),
    ]


def test_a_file_of_less_than_a_block_is_read_by_one() -> None:
    assert parts([File("tiny", 100)], 8, BLOCK) == [Part(("tiny",), 0, 100)]


@given(st.lists(st.integers(1, 10**7), min_size=1, max_size=9), st.integers(1, 12), st.sampled_from([512, 4096, 1 << 20]))
def test_no_byte_is_read_twice(sizes: list[int], jobs: int, block: int) -> None:
    files = [File(f"f{number}", size) for number, size in enumerate(sizes)]
    shares = parts(files, jobs, block)
    assert 1 <= len(shares) <= jobs
    taken: list[tuple[str, int, int]] = []
    by_name = {file.path: file.size for file in files}
    for part in shares:
        for name in part.files:
            size = part.size or by_name[name]
            assert 0 <= part.offset < by_name[name]
            assert part.offset + size <= by_name[name]
            taken.append((name, part.offset, part.offset + size))
    for name, start, end in taken:
        others = [(a, b) for other, a, b in taken if other == name and (a, b) != (start, end)]
        assert all(b <= start or a >= end for a, b in others)


def test_the_command_reads_only_and_knows_colons() -> None:
    work = Work(pattern="random", block_size=4096, seconds=2.5, direct=True)
    words = command(Path("/mnt/a:b"), [Part(("x",)), Part(("y\\z",), 4096, 8192)], work, timed=True)
    assert {"--readonly", "--rw=randread", "--bs=4096", "--direct=1", "--runtime=2500ms", "--allow_file_create=0"} <= set(
        words
    )
    assert "--filename=/mnt/a\\:b/x" in words
    assert "--filename=/mnt/a\\:b/y\\\\z" in words
    assert words[-2:] == ["--offset=4096", "--size=8192"]
    assert not any(word.startswith("--runtime") for word in command(Path("/m"), [Part(("x",))], work, timed=False))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "data").mkdir()
    (tmp_path / "own").mkdir()
    for name in ("a.bin", "b:c.bin", "-d.bin"):
        (tmp_path / "data" / name).write_bytes(os.urandom(1 << 20))
    return Place(tmp_path / "data", tmp_path / "own")


def load(work: Work, place: Place) -> FioLoad:
    made = create("fio", work)
    assert made.problems() == []
    assert made.choose(place)["files"] == 3
    return made


@needs_fio
@pytest.mark.parametrize("pattern", ["sequential", "random"])
def test_fio_reads_all_of_a_small_folder_once(place: Place, pattern: str) -> None:
    made = load(Work(pattern=pattern, block_size=65536, jobs=3, seconds=5.0), place)
    reading = made.run(place, 60.0)
    assert isinstance(reading, Reading), reading
    (epoch,) = reading.epochs
    assert epoch.bytes_read == 3 << 20
    assert "too short" in reading.warnings[0]
    metrics, samples = made.figures(reading.epochs)
    assert metrics[made.objective.metric] == pytest.approx(samples[0])
    assert metrics["reads_s"] == pytest.approx(metrics["read_mib_s"] * 16)
    assert not list(place.scratch.iterdir())


@needs_fio
def test_a_warm_load_reads_once_before(place: Place) -> None:
    reading = load(Work(jobs=3, warm=True, seconds=1.0), place).run(place, 60.0)
    assert isinstance(reading, Reading), reading
    assert [epoch.filling for epoch in reading.epochs] == [True, False]
    assert reading.epochs[0].bytes_read == 3 << 20


@needs_fio
def test_files_that_went_away_are_a_crash(place: Place) -> None:
    made = load(Work(jobs=1), place)
    for file in place.folder.iterdir():
        file.unlink()
    failed = made.run(place, 60.0)
    assert isinstance(failed, Failure)
    assert failed.kind == "crash"
    assert failed.reason.startswith("fio's I/O failed: ")


@needs_fio
def test_no_time_left_is_a_timeout(place: Place) -> None:
    failed = load(Work(jobs=1), place).run(place, -1.0)
    assert isinstance(failed, Failure)
    assert failed.kind == "timeout"
