"""A data set of ours in a store: how large its files are, and whose it is."""

from __future__ import annotations

import json
import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from runners.launch.marks import parents
from runners.mount import generated


@given(st.integers(generated.SMALLEST, generated.LARGEST), st.integers(1, 4096))
def test_every_reader_has_files_and_they_add_up(size: int, jobs: int) -> None:
    sizes = generated.sizes(size, jobs)
    assert sum(sizes) == size
    assert len(sizes) >= 4 * jobs
    assert min(sizes) >= 1


def test_only_what_a_dead_study_left_is_left(tmp_path: Path) -> None:
    assert not generated.left_by_the_dead(tmp_path)
    folder = tmp_path / generated.folder_name()
    folder.mkdir()
    assert not generated.left_by_the_dead(tmp_path)  # nobody said whose it is
    owner = folder / ".clustertune-owner"
    started = parents()[os.getpid()][1]
    for told, dead in (([os.getpid(), started], False), ([os.getpid(), started + 1], True), ([1 << 22, 1], True), ({}, False)):
        owner.write_text(json.dumps(told))
        assert generated.left_by_the_dead(tmp_path) == dead
    owner.write_text("no json")
    assert not generated.left_by_the_dead(tmp_path)


def test_the_whole_set_is_removed_and_nothing_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / generated.folder_name()
    folder.mkdir()
    for name in ("00000.bin", "00001.bin", ".clustertune-owner"):
        (folder / name).write_text("x")
    (tmp_path / "mine.bin").write_text("mine")
    generated.remove(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.bin"]
    generated.remove(tmp_path)
    folder.mkdir()
    (folder / "mine.bin").write_text("mine")
    generated.remove(tmp_path)
    assert (folder / "mine.bin").read_text() == "mine"
