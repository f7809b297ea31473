"""Users' files are replaced whole or not at all, and every failure is a sentence."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.errors import NotUsable, WrongUsage
from tuner.files import LARGEST, diff, read_text, write_atomically

ROOT = os.geteuid() == 0


def leftovers(folder):
    return sorted(path.name for path in folder.iterdir() if path.name.startswith(".tune-"))


def test_a_new_script_can_be_started_and_an_old_one_keeps_its_mode(tmp_path):
    (tmp_path / "run.sh").touch()
    for name in ("new.sh", "run.sh"):
        write_atomically(tmp_path / name, "#!/bin/sh\nexit 7\n")
    before = os.umask(0o022)
    os.umask(before)
    assert stat.S_IMODE((tmp_path / "new.sh").stat().st_mode) == 0o777 & ~before
    assert subprocess.run([tmp_path / "new.sh"], check=False).returncode == 7
    assert not (tmp_path / "run.sh").stat().st_mode & 0o111


def test_a_new_file_gets_the_mode_of_the_umask(tmp_path):
    path = tmp_path / "-a ü.json"
    assert write_atomically(path, "{}\r\n") is None
    (tmp_path / "plain").write_text("")
    assert path.read_bytes() == b"{}\r\n"
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert leftovers(tmp_path) == []


def test_every_replaced_version_stays(tmp_path):
    path = tmp_path / "ds.json"
    path.write_text("one")
    path.chmod(0o640)
    names = [write_atomically(path, text).name for text in ("two", "three", "four")]
    assert names == ["ds.json.bak", "ds.json.bak.1", "ds.json.bak.2"]
    assert [(tmp_path / name).read_text() for name in names] == ["one", "two", "three"]
    assert path.read_text() == "four"
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ds.json", *names)} == {0o640}


def test_the_same_text_is_not_written_again(tmp_path):
    path = tmp_path / "ds.json"
    path.write_text("one")
    before = path.stat()
    assert write_atomically(path, "one") is None
    assert path.stat().st_ino == before.st_ino
    assert list(tmp_path.iterdir()) == [path]


def test_no_backup_where_none_is_wanted(tmp_path):
    path = tmp_path / "ds.json"
    path.write_text("one")
    assert write_atomically(path, "two", backup=False) is None
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "ds.json"
    target.write_text("one")
    link = tmp_path / "link.json"
    link.symlink_to(Path("real") / "ds.json")
    assert write_atomically(link, "two") == target.with_name("ds.json.bak")
    assert link.is_symlink()
    assert link.readlink() == Path("real") / "ds.json"
    assert target.read_text() == "two"


def test_a_link_to_nothing_yet_makes_its_target(tmp_path):
    link = tmp_path / "link.json"
    link.symlink_to("later.json")
    write_atomically(link, "x")
    assert link.is_symlink()
    assert (tmp_path / "later.json").read_text() == "x"


@pytest.mark.parametrize("kind", ["folder", "fifo", "circle", "no folder", "long name", "nul"])
def test_what_is_no_file_is_refused(tmp_path, kind):
    path = tmp_path / "x"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "circle":
        path.symlink_to(path)
    elif kind == "no folder":
        path = tmp_path / "missing" / "x"
    elif kind == "long name":
        path = tmp_path / ("x" * 300)
    else:
        path = Path("a\0b")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(WrongUsage) as caught:
        write_atomically(path, "text")
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)
    assert sorted(tmp_path.iterdir()) == before


AS_NOBODY = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tuner.errors import TunerError
from tuner.files import read_text, write_atomically
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    print(read_text(Path(sys.argv[2]), "FILE") if sys.argv[3] == "read" else write_atomically(Path(sys.argv[2]), "new"))
except TunerError as error:
    print(type(error).__name__, error)
"""


def as_nobody(path, what):
    root = Path(__file__).parents[2]
    run = [sys.executable, "-c", AS_NOBODY, str(root), str(path), what]
    return subprocess.run(run, capture_output=True, text=True, check=True, cwd="/").stdout


@pytest.fixture
def open_folder():
    """A folder that another user can enter too."""
    folder = Path("/tmp") / f"tune files {os.getpid()}"
    folder.mkdir()
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.system
def test_write_protection_is_respected(open_folder):
    path = open_folder / "ds.json"
    path.write_text("old")
    path.chmod(0o444)
    said = as_nobody(path, "write")
    assert said.startswith("WrongUsage")
    assert "write-protected" in said
    path.chmod(0o666)
    open_folder.chmod(0o555)
    said = as_nobody(path, "write")
    assert said.startswith("WrongUsage")
    assert "you may not write there. Nothing was changed." in said
    assert path.read_text() == "old"
    path.chmod(0o000)
    assert "permission denied" in as_nobody(path, "read")
    open_folder.chmod(0o777)
    assert [p.name for p in open_folder.iterdir()] == ["ds.json"]


@pytest.mark.root
@pytest.mark.system
@pytest.mark.skipif(not ROOT, reason="giving a file away needs root")
def test_the_owner_stays(tmp_path):
    path = tmp_path / "ds.json"
    path.write_text("old")
    os.chown(path, 12345, 23456)
    path.chmod(0o604)
    write_atomically(path, "new")
    seen = path.stat()
    assert (seen.st_uid, seen.st_gid, stat.S_IMODE(seen.st_mode)) == (12345, 23456, 0o604)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of one megabyte."""
    folder = tmp_path / "small disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"tmpfs can't be mounted here: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.root
@pytest.mark.system
@pytest.mark.skipif(not ROOT, reason="mounting needs root")
def test_a_full_disk_changes_nothing(small_disk):
    path = small_disk / "ds.json"
    path.write_text("old")
    with pytest.raises(NotUsable, match=r"the disk is full\. Nothing was changed"):
        write_atomically(path, "x" * 2_000_000)
    assert path.read_text() == "old"
    assert [p.name for p in small_disk.iterdir()] == ["ds.json"]


@pytest.mark.root
@pytest.mark.system
@pytest.mark.skipif(not ROOT, reason="mounting needs root")
def test_a_read_only_file_system_changes_nothing(small_disk):
    path = small_disk / "ds.json"
    path.write_text("old")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(WrongUsage, match="the file system is read-only"):
        write_atomically(path, "new")
    with pytest.raises(WrongUsage, match=r"the file system is read-only\. Nothing was changed"):
        write_atomically(small_disk / "new.json", "new")
    assert path.read_text() == "old"


KILLED = """
import os, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from tuner import files
number = 0
while True:
    number += 1
    files.write_atomically(Path(sys.argv[2]), str(number % 10) * 200_000, backup=False)
"""


@pytest.mark.system
def test_a_kill_at_any_point_leaves_a_whole_file(tmp_path):
    path = tmp_path / "ds.json"
    root = Path(__file__).parents[2]
    for delay in (0.0, 0.013, 0.029, 0.041):
        path.write_text("0" * 200_000)
        writer = subprocess.Popen([sys.executable, "-c", KILLED, str(root), str(path)])
        while path.read_text() == "0" * 200_000:
            time.sleep(0.001)
        time.sleep(delay)
        writer.kill()
        writer.wait()
        text = path.read_text()
        assert len(text) == 200_000
        assert len(set(text)) == 1
    # What the killed writers left goes with the first write after an hour, not before.
    hour_ago = time.time() - 3700
    stale, fresh = tmp_path / ".tune-0123456789abcdef.tmp", tmp_path / ".tune-fedcba9876543210.tmp"
    stale.write_text("")
    fresh.write_text("")
    for name in leftovers(tmp_path):
        if name != fresh.name:
            os.utime(tmp_path / name, (hour_ago, hour_ago))
    write_atomically(path, "end", backup=False)
    assert leftovers(tmp_path) == [fresh.name]


def test_reading_keeps_line_ends_and_the_mark(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"\xef\xbb\xbf{\r\n}\r")
    assert read_text(path) == "\ufeff{\r\n}\r"


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"ok\n\xff\xfe", r"not UTF-8 text \(line 2\)"), (b" " * (LARGEST + 1), "larger than 16 MiB")],
)
def test_what_is_no_settings_file_is_refused(tmp_path, content, why):
    path = tmp_path / "a file"
    path.write_bytes(content)
    with pytest.raises(WrongUsage, match=why) as caught:
        read_text(path, "--into")
    assert str(caught.value).startswith(f"--into {path} ")


def test_missing_files_and_folders_are_sentences(tmp_path):
    with pytest.raises(WrongUsage, match="is a folder"):
        read_text(tmp_path)
    with pytest.raises(WrongUsage, match="does not exist"):
        read_text(tmp_path / "x")
    with pytest.raises(WrongUsage, match="not a regular file"):
        read_text(Path("/dev/null"))
    with pytest.raises(WrongUsage, match="can't be read"):
        read_text(Path("a\0b"))


@pytest.mark.skipif(shutil.which("patch") is None, reason="the patch program is not here")
@settings(max_examples=30, deadline=None)
@given(
    *[st.lists(st.sampled_from(["a\n", "b\n", "c\x0bd\n", "e\u2028\n"]), max_size=6).map("".join) for _ in range(2)],
    st.booleans(),
)
def test_patch_takes_the_diff(tmp_path_factory, old, new, cut):
    new = new.removesuffix("\n") if cut else new
    folder = tmp_path_factory.mktemp("patch")
    (folder / "f").write_text(old, newline="")
    shown = diff(old, new, "f")
    assert bool(shown) == (old != new)
    if shown:
        subprocess.run(["patch", "-p1", "-s", "-E"], input=shown.encode(), cwd=folder, check=True)
    assert ((folder / "f").read_bytes() if (folder / "f").exists() else b"") == new.encode()


def test_the_diff_of_windows_lines_shows_only_what_changed():
    old = "{\r\n  1\r\n}\r\n"
    assert diff(old, old.replace("1", "2"), "x").split("\n")[2:] == ["@@ -1,3 +1,3 @@", " {\r", "-  1\r", "+  2\r", " }\r", ""]
