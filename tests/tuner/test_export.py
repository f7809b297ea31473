"""A recommendation reaches the disk as new files or inside the user's own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from spaces.aio import SPACE
from tuner.errors import WrongUsage
from tuner.export import _left, export
from tuner.lint import lint_file
from tuner.recommendation import Recommendation

DATA = Path(__file__).parents[1] / "data" / "aio"
BEST = {"block_size": 1 << 21, "queue_depth": 32, "intra_op_parallelism": 4, "single_submit": False, "overlap_events": True}
PRESENT = {"deepspeed_version": "0.19.0"}


@pytest.fixture
def recommendation():
    return Recommendation("aio-1", "aio", "native", "adopt", BEST, SPACE.default, None, "faster", {}, {})


def test_without_a_place_the_text_comes_back(recommendation, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = export(recommendation, options=PRESENT)
    assert json.loads(result.texts["aio.json"]) == {"aio": BEST}
    assert (result.written, list(tmp_path.iterdir())) == ((), [])


def test_to_a_file_or_into_a_folder(recommendation, tmp_path):
    named = export(recommendation, "aio", output=tmp_path / "a b.json", options=PRESENT)
    assert named.written == (tmp_path / "a b.json",)
    in_folder = export(recommendation, output=tmp_path, options=PRESENT)
    assert in_folder.written == (tmp_path / "aio.json",)
    assert (tmp_path / "aio.json").read_bytes() == (tmp_path / "a b.json").read_bytes()
    (tmp_path / "aio.json").write_text("mine\n")
    again = export(recommendation, output=tmp_path, options=PRESENT)
    assert [path.read_text() for path in again.backups] == ["mine\n"]
    assert "-mine" in again.diff


def test_into_the_user_s_file(recommendation, tmp_path):
    path = tmp_path / "ds.json"
    shutil.copy(DATA / "ds_nested.json", path)
    old = path.read_bytes()
    shown = export(recommendation, into=path, diff=True, options=PRESENT)
    assert path.read_bytes() == old
    assert shown.written == ()
    assert "+" in shown.diff
    result = export(recommendation, into=path, options=PRESENT)
    assert result.diff == shown.diff
    assert json.loads(path.read_text())["aio"] == BEST
    assert result.backups[0].read_bytes() == old
    assert len(result.notes) == 1
    again = export(recommendation, into=path, options=PRESENT)
    assert (again.written, again.backups, again.diff) == ((), (), "")


def test_what_can_t_be_done_is_a_sentence(recommendation, tmp_path):
    with pytest.raises(WrongUsage, match="-o and --into"):
        export(recommendation, output=tmp_path, into=tmp_path)
    with pytest.raises(WrongUsage, match="--diff needs --into FILE or -o FILE"):
        export(recommendation, diff=True)
    with pytest.raises(WrongUsage, match=r"--into .* does not exist"):
        export(recommendation, into=tmp_path / "missing.json")
    with pytest.raises(WrongUsage, match="--format yaml"):
        export(recommendation, "yaml")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(WrongUsage, match=r"--into .*bad\.json: this is not JSON \(line 1\)"):
        export(recommendation, into=tmp_path / "bad.json")
    with pytest.raises(WrongUsage, match="the folder does not exist"):
        export(recommendation, output=tmp_path / "missing" / "x.json")


def test_what_merging_leaves_in_the_file_is_counted(recommendation, tmp_path):
    path = tmp_path / "my ds.json"
    path.write_text('{"zero_optimization": {"stage": 2, "offload_param": {"device": "nvme"}}, "aio": {"colour": 1}}')
    shown = export(recommendation, into=path, diff=True, options={**PRESENT, "ranks": None})
    result = export(recommendation, into=path, options=PRESENT)
    assert result.notes == shown.notes
    assert result.notes[-1] == (
        f"the file then has 3 findings left in what was yours: tune lint --deepspeed-version 0.19.0 '{path}'"
    )
    assert len(lint_file(path, PRESENT).findings) == 3
    one = tmp_path / "one.json"
    one.write_text('{"aio": {"colour": 1}}')
    assert "has 1 finding left" in export(recommendation, into=one).notes[-1]
    one.write_text("{}")
    assert export(recommendation, into=one).notes == ()


def test_a_file_that_is_replaced_is_kept(recommendation, tmp_path):
    path = tmp_path / "aio.json"
    path.write_text("mine\n")
    shown = export(recommendation, output=path, diff=True, options=PRESENT)
    assert (path.read_text(), shown.written, "-mine" in shown.diff) == ("mine\n", (), True)
    result = export(recommendation, output=path, options=PRESENT)
    assert [kept.read_text() for kept in result.backups] == ["mine\n"]
    assert export(recommendation, output=path, options=PRESENT).backups == ()


def test_the_command_that_is_named_can_be_typed():
    """A switch has no value, and one that is off is not named."""
    given = {"slurm": False, "open_files": 4, "mount_point": None}
    (note,) = _left(1, Path("f.env"), given)
    assert note.endswith("1 finding left in what was yours: tune lint --open-files 4 f.env")
    (note,) = _left(1, Path("f.env"), {"slurm": True})
    assert note.endswith("tune lint --slurm f.env")
