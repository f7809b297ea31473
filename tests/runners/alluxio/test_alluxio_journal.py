"""The user's site file while a study writes into its place: the very same file comes back, whatever happens between."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runners.alluxio.journal import Journal
from runners.runner import EnvironmentProblem


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def site(tmp_path: Path) -> Path:
    path = tmp_path / "conf/alluxio-site.properties"
    path.parent.mkdir()
    path.write_bytes(b"s3a.secretKey=\xe9\r\n")
    path.chmod(0o600)
    return path


def test_the_very_same_file_comes_back(site: Path) -> None:
    before = site.stat()
    journal = Journal(site)
    assert journal.open() is None
    assert journal.text == "s3a.secretKey=é\r\n"
    journal.write(journal.text + "a=1\n")
    journal.write(journal.text + "a=2\n")
    assert site.read_bytes() == b"s3a.secretKey=\xe9\r\na=2\n"
    assert site.stat().st_mode == before.st_mode
    journal.restore()
    journal.restore()
    assert site.read_bytes() == b"s3a.secretKey=\xe9\r\n"
    assert (site.stat().st_ino, site.stat().st_mode, site.stat().st_mtime_ns) == (
        before.st_ino,
        before.st_mode,
        before.st_mtime_ns,
    )
    assert names(site.parent) == [site.name]


def test_a_file_that_was_not_there_is_gone_again(tmp_path: Path) -> None:
    site = tmp_path / "alluxio-site.properties"
    journal = Journal(site)
    journal.open()
    journal.write("a=1\n")
    assert site.stat().st_mode & 0o777 == 0o600
    journal.restore()
    assert names(tmp_path) == []


def test_a_link_stays_a_link(site: Path, tmp_path: Path) -> None:
    link = tmp_path / "alluxio-site.properties"
    link.symlink_to(site)
    journal = Journal(link)
    journal.open()
    journal.write("a=1\n")
    journal.restore()
    assert link.is_symlink()
    assert names(site.parent) == [site.name]


def test_two_studies_of_one_file_are_one_too_many(site: Path) -> None:
    first = Journal(site)
    first.open()
    with pytest.raises(EnvironmentProblem, match="another study"):
        Journal(site).open()
    assert not Journal(site).pending()
    first.restore()
    second = Journal(site)
    assert second.open() is None
    second.restore()


@pytest.mark.parametrize("step", ["open", "write", "remember"])
def test_after_a_kill_the_next_start_puts_it_back(site: Path, step: str) -> None:
    before = site.stat().st_ino
    script = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom runners.alluxio.journal import Journal\n"
        "journal = Journal(Path(sys.argv[1]))\njournal.open()\n"
        "if sys.argv[2] != 'open': journal.remember(['mount', 'x y'])\n"
        "if sys.argv[2] == 'write': journal.write('a=1\\n')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(site), step], check=False, timeout=60)
    new = site.with_name(f".{site.name}.clustertune-new-0123")
    new.write_text("cut off while it was written")
    journal = Journal(site)
    assert journal.pending()
    left = journal.open()
    assert left is not None
    assert left.mount == (() if step == "open" else ("mount", "x y"))
    assert not new.exists()
    journal.restore()
    assert site.read_bytes() == b"s3a.secretKey=\xe9\r\n"
    assert site.stat().st_ino == before
    assert names(site.parent) == [site.name]


def test_what_the_command_holds_is_for_its_owner_only(site: Path) -> None:
    journal = Journal(site)
    journal.open()
    journal.remember(["mount", "-o", "s3a.secretKey=x"])
    for path in site.parent.iterdir():
        assert path.stat().st_mode & 0o077 == 0, path
    journal.restore()


def test_changes_of_others_are_moved_aside(site: Path) -> None:
    journal = Journal(site)
    journal.open()
    journal.write("a=1\n")
    site.write_text("theirs=1\n")
    journal.restore()
    assert journal.moved is not None
    assert journal.moved.read_text() == "theirs=1\n"
    assert site.read_bytes() == b"s3a.secretKey=\xe9\r\n"


def test_a_folder_that_can_t_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="can't be written beside"):
        Journal(tmp_path / "no/alluxio-site.properties").open()


@pytest.mark.root
def test_on_a_full_disk_the_file_comes_back_all_the_same(make_mount: Callable[..., Any]) -> None:
    disk = make_mount("disk", fs="tmpfs", size_mb=1).path
    site = disk / "alluxio-site.properties"
    site.write_text("mine=1\n")
    journal = Journal(site)
    journal.open()
    journal.write("a=1\n")
    with pytest.raises(OSError, match="No space left"):
        journal.write("#" * (2 << 20))
    assert site.read_text() == "a=1\n"
    journal.restore()
    assert site.read_text() == "mine=1\n"
    assert names(disk) == [site.name]


def test_without_hard_links_a_copy_is_kept(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    journal = Journal(site)
    journal.open()
    journal.write("a=1\n")
    journal.restore()
    assert site.read_bytes() == b"s3a.secretKey=\xe9\r\n"
    assert site.stat().st_mode & 0o777 == 0o600
