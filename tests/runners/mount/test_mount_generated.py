"""A data set of ours in a store: how large its files are, and whose it is."""

from __future__ import annotations

import json
import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from runners.launch.marks import parents
from runners.mount import generated

NAME = "clustertune-data-0123456789abcdef"


@given(st.integers(generated.SMALLEST, generated.LARGEST), st.integers(1, 4096))
def test_every_reader_has_files_and_they_add_up(size: int, jobs: int) -> None:
    sizes = generated.sizes(size, jobs)
    assert sum(sizes) == size
    assert len(sizes) >= 4 * jobs
    assert min(sizes) >= 1


def test_only_what_a_dead_study_of_this_system_left_is_left(tmp_path: Path) -> None:
    folder = tmp_path / NAME
    folder.mkdir()
    assert generated.left_by_the_dead(tmp_path) == []  # somebody may just be making it
    os.utime(folder, (0, 0))
    assert generated.left_by_the_dead(tmp_path) == [NAME]
    owner = folder / ".clustertune-owner"
    here, me = generated._system(), [os.getpid(), parents()[os.getpid()][1]]
    for told, dead in (
        ({"system": here, "process": me}, False),
        ({"system": here, "process": [me[0], me[1] + 1]}, True),
        ({"system": here, "process": [1 << 22, 1]}, True),
        ({"system": "another", "process": [1 << 22, 1]}, False),  # whoever has it may live
        ({"system": here, "process": [[1], 2]}, False),
        ({"system": here, "process": 3}, False),
        ({"system": here}, False),
        ([1 << 22, 1], False),
    ):
        owner.write_text(json.dumps(told))
        assert bool(generated.left_by_the_dead(tmp_path)) == dead, told
    owner.write_text("no json")
    assert generated.left_by_the_dead(tmp_path) == []


def test_neither_other_folders_nor_links_are_ours(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    os.utime(mine, (0, 0))
    (tmp_path / NAME).symlink_to(mine)
    for name in (f"{NAME}0", f"{NAME[:-1]}x", "clustertune-data-"):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (0, 0))
    assert generated.left_by_the_dead(tmp_path) == []


def test_the_whole_set_is_removed_and_nothing_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / NAME
    folder.mkdir()
    for name in ("00000.bin", "00001.bin", ".clustertune-owner"):
        (folder / name).write_text("x")
    (tmp_path / "mine.bin").write_text("mine")
    generated.remove(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.bin"]
    generated.remove(folder)
    folder.mkdir()
    (folder / "mine.bin").write_text("mine")
    generated.remove(folder)
    assert (folder / "mine.bin").read_text() == "mine"
