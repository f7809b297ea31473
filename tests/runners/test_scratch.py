"""The scratch folder: whose it is, what a killed owner leaves, and what is never touched."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from runners.runner import EnvironmentProblem
from runners.scratch import Scratch, clear, leftovers

ROOT = Path(__file__).parents[2]
MARKER = "clustertune.lock"
NAME = ".clustertune-scratch-0123456789ab"

OWNER = """
import sys, time
from pathlib import Path
from runners.scratch import Scratch
scratch = Scratch.create(Path(sys.argv[1]))
(scratch.path / "ranks" / "0").mkdir(parents=True)
(scratch.path / "ranks" / "0" / "work.dat").write_bytes(b"x" * 100000)
print(scratch.path, flush=True)
time.sleep(60)
"""


def owner(folder: Path) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen([sys.executable, "-c", OWNER, str(folder)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().rstrip("\n"))


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def fake(parent: Path, name: str = NAME) -> Path:
    """A folder as a killed run leaves it."""
    folder = parent / name
    folder.mkdir()
    (folder / MARKER).touch()
    (folder / "work.dat").write_bytes(b"x")
    return folder


def test_a_scratch_folder_lives_as_long_as_its_owner_wants(tmp_path: Path) -> None:
    with Scratch.create(tmp_path) as scratch:
        assert scratch.path.parent == tmp_path
        assert scratch.path.stat().st_mode & 0o777 == 0o700
        (scratch.path / "a b").mkdir()
        (scratch.path / "a b" / "file").touch()
        assert leftovers(tmp_path) == []
        assert clear(tmp_path) == []
        assert scratch.path.is_dir()
    assert list(tmp_path.iterdir()) == []
    scratch.close()


def test_two_scratch_folders_side_by_side(tmp_path: Path) -> None:
    with Scratch.create(tmp_path) as first:
        with Scratch.create(tmp_path) as second:
            assert first.path.is_dir()
            assert second.path.is_dir()
            assert first.path != second.path
        assert first.path.is_dir()


@pytest.mark.parametrize("name", ["two words", "nvmé:漢", "-rf", "new\nline"])
def test_any_parent_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with Scratch.create(tmp_path / name) as scratch:
        (scratch.path / "x").touch()
    assert list((tmp_path / name).iterdir()) == []


@pytest.mark.system
def test_the_folder_of_a_killed_owner_is_cleared_by_the_next_start_and_a_living_ones_is_not(tmp_path: Path) -> None:
    (alive, kept), (dead, left) = owner(tmp_path), owner(tmp_path)
    try:
        kill(dead)
        assert (left / "ranks/0/work.dat").exists()
        assert leftovers(tmp_path) == [left]
        with Scratch.create(tmp_path) as mine:
            assert sorted(tmp_path.iterdir()) == sorted([kept, mine.path])
            assert (kept / "ranks/0/work.dat").stat().st_size == 100000
    finally:
        kill(alive)
    assert clear(tmp_path) == [kept]
    assert list(tmp_path.iterdir()) == []


def test_nothing_else_is_touched(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").touch()
    (outside / MARKER).touch()
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / NAME).symlink_to(outside)
    (folder / ".clustertune-scratch-file00000000").touch()
    (folder / ".clustertune-scratch-0123456789cd").touch()
    fake(folder, ".clustertune-scratch-short")
    fake(folder, "clustertune-scratch-0123456789ab")
    fake(folder, ".clustertune-scratch-0123456789AB")
    unmarked = folder / ".clustertune-scratch-aaaaaaaaaaaa"
    unmarked.mkdir()
    (unmarked / "precious").touch()
    linked = folder / ".clustertune-scratch-bbbbbbbbbbbb"
    linked.mkdir()
    (linked / MARKER).symlink_to(outside / MARKER)
    piped = folder / ".clustertune-scratch-cccccccccccc"
    piped.mkdir()
    os.mkfifo(piped / MARKER)
    before = sorted(path for path in tmp_path.rglob("*"))
    assert leftovers(folder) == []
    with Scratch.create(folder):
        pass
    assert sorted(path for path in tmp_path.rglob("*")) == before


def test_links_inside_a_leftover_are_removed_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    left = fake(tmp_path)
    (left / "folder").symlink_to(outside)
    (left / "file").symlink_to(outside / "precious")
    os.link(outside / "precious", left / "hard")
    assert clear(tmp_path) == [left]
    assert (outside / "precious").read_text() == "precious"


def test_an_empty_folder_of_ours_is_the_trace_of_a_kill_and_goes(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    assert leftovers(tmp_path) == [tmp_path / NAME]
    with Scratch.create(tmp_path) as scratch:
        assert list(tmp_path.iterdir()) == [scratch.path]


@pytest.mark.root
def test_another_users_leftover_stays(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to give a folder away")
    theirs = fake(tmp_path)
    os.chown(theirs, 65534, 65534)
    assert clear(tmp_path) == []
    os.chown(theirs, 0, 0)
    os.chown(theirs / MARKER, 65534, 65534)
    assert clear(tmp_path) == []
    assert (theirs / "work.dat").exists()


@pytest.mark.root
def test_a_folder_that_cannot_be_written_is_an_environment_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_nobody: Callable
) -> None:
    monkeypatch.chdir(tmp_path)

    def create() -> str:
        try:
            Scratch.create(Path())
        except EnvironmentProblem as problem:
            return problem.message
        return "made"

    assert as_nobody(create) == "no scratch folder can be made in .: Permission denied"


def test_a_fork_does_not_take_the_folder_away(tmp_path: Path) -> None:
    scratch = Scratch.create(tmp_path)
    child = os.fork()
    if child == 0:
        scratch.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert scratch.path.is_dir()
    assert leftovers(tmp_path) == []
    scratch.close()
    assert not scratch.path.exists()


def test_a_folder_that_vanished_is_closed_without_a_word(tmp_path: Path) -> None:
    scratch = Scratch.create(tmp_path)
    (scratch.path / MARKER).unlink()
    scratch.path.rmdir()
    scratch.close()


RACER = """
import sys
from pathlib import Path
from runners.scratch import Scratch
for number in range(40):
    with Scratch.create(Path(sys.argv[1])) as scratch:
        (scratch.path / "work").write_text("mine")
        for _ in range(3):
            if (scratch.path / "work").read_text() != "mine":
                sys.exit("taken")
"""


@pytest.mark.system
def test_starters_that_race_never_lose_their_folder(tmp_path: Path) -> None:
    racers = [
        subprocess.Popen([sys.executable, "-c", RACER, str(tmp_path)], cwd=ROOT, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    errors = [racer.communicate(timeout=120)[1] for racer in racers]
    assert [(racer.returncode, error) for racer, error in zip(racers, errors, strict=True)] == [(0, "")] * 4
    assert list(tmp_path.iterdir()) == []


def write_all(file: io.FileIO) -> None:
    for _ in range(1 << 14):
        file.write(bytes(4096))


@pytest.mark.system
@pytest.mark.root
def test_a_full_disk_is_cleared(make_mount: Callable) -> None:
    disk = make_mount("full", size_mb=24).path
    scratch = Scratch.create(disk)
    with pytest.raises(OSError, match="No space left"), (scratch.path / "rest").open("wb", buffering=0) as file:
        write_all(file)
    scratch.close()
    assert [path.name for path in disk.iterdir()] == ["lost+found"]
    assert os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize > 10 << 20


@pytest.mark.system
@pytest.mark.root
def test_what_is_mounted_in_a_leftover_is_not_emptied(tmp_path: Path, make_bind: Callable) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").touch()
    left = fake(tmp_path)
    make_bind(outside, left / "bound")
    clear(tmp_path)
    assert (outside / "precious").exists()
