"""Which files of a folder are read."""

from pathlib import Path

import pytest

from runners.mount.files import File, find
from runners.runner import EnvironmentProblem, UsageError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, size in {"b.bin": 3, "a.bin": 2, "train/c.npz": 4, "train/deep/d.npz": 5, "empty": 0, ".hidden": 9}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
    (tmp_path / "link").symlink_to("b.bin")
    return tmp_path


def test_all_that_hold_something_in_order(folder: Path) -> None:
    assert find(folder, "") == [File("a.bin", 2), File("b.bin", 3), File("train/c.npz", 4), File("train/deep/d.npz", 5)]


def test_a_folder_a_file_and_a_pattern(folder: Path) -> None:
    assert [file.path for file in find(folder, "train")] == ["train/c.npz", "train/deep/d.npz"]
    assert find(folder, "a.bin") == [File("a.bin", 2)]
    assert [file.path for file in find(folder, "*.bin")] == ["a.bin", "b.bin"]
    assert [file.path for file in find(folder, "train/*d.npz")] == ["train/deep/d.npz"]


@pytest.mark.parametrize("data", ["nothing", "*.tfrecord", "empty"])
def test_what_names_nothing_is_told(folder: Path, data: str) -> None:
    with pytest.raises(UsageError, match=r"inside the mount"):
        find(folder, data)


def test_an_empty_mount_has_a_mend(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem) as caught:
        find(tmp_path, "")
    assert caught.value.mend
