"""`tune export --rollback FILE`: what an export replaced comes back, and nothing that stood there is lost."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tuner.cli.app import run
from tuner.errors import WrongUsage
from tuner.export import rolled_back
from tuner.files import backups, read_text, roll_back, write_atomically


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "site.properties"
    path.write_bytes(b"mine=\xe9\r\n")
    path.chmod(0o640)
    return path


def test_the_very_file_comes_back_and_doing_it_again_undoes_it(file: Path) -> None:
    inode = file.stat().st_ino
    write_atomically(file, read_text(file) + "ours=1\n")
    result = rolled_back(file)
    assert file.read_bytes() == b"mine=\xe9\r\n"
    assert file.stat().st_ino == inode
    assert file.stat().st_mode & 0o777 == 0o640
    (kept,) = result.backups
    assert kept.read_bytes() == b"mine=\xe9\r\nours=1\n"
    assert "-ours=1" in result.diff
    rolled_back(file)
    assert file.read_bytes() == b"mine=\xe9\r\nours=1\n"
    assert [path.read_bytes() for path in backups(file)] == [b"mine=\xe9\r\n"]


def test_the_newest_backup_counts_also_where_an_older_one_is_gone(file: Path) -> None:
    for number in range(3):
        write_atomically(file, f"a={number}\n")
    (file.parent / "site.properties.bak").unlink()
    write_atomically(file, "a=3\n")  # its backup has the first name again
    roll_back(file)
    assert file.read_text() == "a=2\n"


def test_other_files_are_no_backups(file: Path) -> None:
    for name in ("site.properties.bak.x", "site.properties.bak~", "other.properties.bak", "site.properties.bak.1.2"):
        (file.parent / name).touch()
    (file.parent / "site.properties.bak").symlink_to("/etc/hostname")
    (file.parent / "site.properties.bak.1").mkdir()
    assert backups(file) == []
    with pytest.raises(WrongUsage, match="there is no backup of it"):
        rolled_back(file)
    with pytest.raises(WrongUsage, match="has no backup"):
        roll_back(file)


def test_a_link_stays_one(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.properties"
    link.symlink_to(file)
    write_atomically(link, "a=1\n")
    roll_back(link)
    assert link.is_symlink()
    assert link.read_bytes() == b"mine=\xe9\r\n"


def test_nothing_is_lost_where_it_fails(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_atomically(file, "a=1\n")

    def refuse(self: Path, target: Path) -> Path:
        raise OSError(5, "refused")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(Exception, match="can't be written"):
        roll_back(file)
    monkeypatch.undo()
    assert file.read_text() == "a=1\n"
    assert sorted(path.name for path in file.parent.iterdir()) == ["site.properties", "site.properties.bak"]


def test_the_command_shows_it_first(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_atomically(file, "mine=2\n")
    assert run(["export", "--rollback", str(file), "--diff"]) == 0
    assert file.read_text() == "mine=2\n"
    assert "-mine=2" in capsys.readouterr().out
    assert run(["export", "--rollback", str(file), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["written"] == [str(file)]
    assert len(told["backups"]) == 1
    assert file.read_bytes() == b"mine=\xe9\r\n"
    assert run(["export", "--rollback", str(file)]) == 0
    assert "what stood there is kept as" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["export"], "name of a study is missing"), (["export", "one", "--rollback", "x"], "goes alone"),
     (["export", "--rollback", "x", "--into", "y"], "goes alone"), (["export", "--rollback", "/nowhere/x"], "does not exist")],
)  # fmt: skip
def test_wrong_usage_is_a_sentence(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    assert said in capsys.readouterr().err


def test_credentials_are_not_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = tmp_path / "alluxio-site.properties"
    site.write_text("s3a.secretKey=abc4711\nalluxio.user.file.buffer.bytes=8MB\n")
    write_atomically(site, "s3a.secretKey=abc4711\nalluxio.user.file.buffer.bytes=4MB\n")
    assert run(["export", "--rollback", str(site), "--diff"]) == 0
    assert run(["export", "--rollback", str(site), "--json"]) == 0
    shown = capsys.readouterr()
    assert "4711" not in shown.out + shown.err
    assert "buffer.bytes=8MB" in shown.out
    assert "4711" in site.read_text()
    assert os.path.lexists(f"{site}.bak.1")
