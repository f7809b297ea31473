"""One run a device, across folders, processes and users."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runners.lock import lock_device, lock_folder
from runners.runner import EnvironmentProblem

ROOT = Path(__file__).parents[2]

HOLDER = """
import sys, time
from pathlib import Path
from runners.lock import lock_device
lock = lock_device("77:7", "tune aio --device /mnt/nvme", folder=Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(folder)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_run_is_told_who_the_first_is(tmp_path: Path) -> None:
    with (
        lock_device("77:7", "tune aio --device /a", folder=tmp_path) as lock,
        pytest.raises(EnvironmentProblem) as caught,
    ):
        lock_device("77:7", "tune aio --device /b", folder=tmp_path)
    today = time.strftime("%Y-%m-")
    assert f"by process {os.getpid()} (tune aio --device /a) since {today}" in caught.value.message
    assert caught.value.mend == f"wait until process {os.getpid()} has ended"
    lock.release()
    lock_device("77:7", "tune", folder=tmp_path).release()


def test_other_devices_are_free(tmp_path: Path) -> None:
    with lock_device("77:7", "a", folder=tmp_path), lock_device("77:70", "b", folder=tmp_path):
        pass


@pytest.mark.system
def test_a_killed_holder_gives_the_lock_back(tmp_path: Path) -> None:
    process = holder(tmp_path)
    with pytest.raises(EnvironmentProblem, match=rf"by process {process.pid} \(tune aio --device /mnt/nvme\)"):
        lock_device("77:7", "x", folder=tmp_path)
    process.kill()
    process.communicate()
    with lock_device("77:7", "x", folder=tmp_path):
        (file,) = tmp_path.iterdir()
        assert json.loads(file.read_text())["command"] == "x"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', '{"pid": "x"}', '{"pid": 99999999, "since": 1}', "\0" * 100])
def test_what_a_dead_holder_wrote_is_harmless(tmp_path: Path, text: str) -> None:
    (tmp_path / "clustertune-77-7.lock").write_text(text)
    with (
        lock_device("77:7", "new", folder=tmp_path),
        pytest.raises(EnvironmentProblem, match=r"\(new\)"),
    ):
        lock_device("77:7", "newer", folder=tmp_path)


@settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.binary(max_size=200),
        st.fixed_dictionaries(
            {"pid": st.just(os.getpid()), "since": st.floats(), "command": st.text(), "user": st.integers()}
        ).map(lambda record: json.dumps(record).encode()),
    )
)
def test_whatever_the_file_holds_the_answer_is_one_printable_sentence(tmp_path: Path, text: bytes) -> None:
    with lock_device("77:7", "x", folder=tmp_path):
        (tmp_path / "clustertune-77-7.lock").write_bytes(text)
        with pytest.raises(EnvironmentProblem) as caught:
            lock_device("77:7", "y", folder=tmp_path)
    assert caught.value.message.isprintable()
    assert "is being measured already by" in caught.value.message


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "clustertune-77-7.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(EnvironmentProblem, match="can't be locked") as caught:
        lock_device("77:7", "x", folder=tmp_path)
    assert (tmp_path / "precious").read_text() == "precious"
    assert caught.value.mend == f"sudo rm {tmp_path}/clustertune-77-7.lock"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_something_else_than_a_file_is_named(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "clustertune-77-7.lock")
    with pytest.raises(EnvironmentProblem, match="can't be locked"):
        lock_device("77:7", "x", folder=tmp_path)


def test_a_missing_place_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="can't be made: No such file"):
        lock_device("77:7", "x", folder=tmp_path / "absent")


def test_disks_below_two_volumes_are_shared(tmp_path: Path) -> None:
    def block(name: str, number: str, *slaves: str) -> None:
        node = tmp_path / "sys/devices" / name
        (node / "slaves").mkdir(parents=True)
        (node / "dev").write_text(number)
        for slave in slaves:
            (node / "slaves" / slave).symlink_to(tmp_path / "sys/devices" / slave)
        (tmp_path / "sys/dev/block").mkdir(parents=True, exist_ok=True)
        (tmp_path / "sys/dev/block" / number).symlink_to(node)

    block("sda", "8:0")
    block("sdb", "8:16")
    block("sdc", "8:32")
    block("dm-0", "253:0", "sda", "sdb")
    block("dm-1", "253:1", "sdb")
    block("dm-2", "253:2", "sdc")
    with lock_device("253:0", "first", folder=tmp_path, sysfs=tmp_path / "sys"):
        with pytest.raises(EnvironmentProblem, match=r"253:1 is being measured already .*first"):
            lock_device("253:1", "second", folder=tmp_path, sysfs=tmp_path / "sys")
        lock_device("253:2", "third", folder=tmp_path, sysfs=tmp_path / "sys").release()
    lock_device("253:1", "second", folder=tmp_path, sysfs=tmp_path / "sys").release()


def test_a_lock_that_was_refused_leaves_none_behind(tmp_path: Path) -> None:
    handles = len(list(Path("/proc/self/fd").iterdir()))
    with lock_device("77:7", "x", folder=tmp_path), pytest.raises(EnvironmentProblem):
        lock_device("77:7", "x", folder=tmp_path)
    assert len(list(Path("/proc/self/fd").iterdir())) == handles


@pytest.mark.root
def test_users_share_the_lock_whatever_their_umask(as_nobody: Callable) -> None:
    place = lock_folder()
    file = place / "clustertune-77-77.lock"
    before = os.umask(0o077)
    try:
        with lock_device("77:77", "of root"):
            assert file.stat().st_mode & 0o777 == 0o666

            def try_it() -> str:
                try:
                    lock_device("77:77", "of nobody")
                except EnvironmentProblem as problem:
                    return problem.message
                return "locked"

            assert "(of root) of user root since" in as_nobody(try_it)
        assert as_nobody(try_it) == "locked"
    finally:
        os.umask(before)
        file.unlink(missing_ok=True)


@pytest.mark.root
def test_a_file_that_another_user_closed_is_named_with_the_mend(tmp_path: Path, as_nobody: Callable) -> None:
    place = lock_folder()
    file = place / "clustertune-77-78.lock"
    file.touch(mode=0o600)

    def try_it() -> str:
        try:
            lock_device("77:78", "of nobody")
        except EnvironmentProblem as problem:
            return problem.mend
        return "locked"

    try:
        assert as_nobody(try_it) == f"sudo rm {file}"
        file.chmod(0o644)
        assert as_nobody(try_it) == "locked"
    finally:
        file.unlink()


def test_the_place_is_the_first_that_everybody_can_write(tmp_path: Path) -> None:
    closed, opened = tmp_path / "closed", tmp_path / "open"
    closed.mkdir(mode=0o755)
    opened.mkdir()
    opened.chmod(0o1777)
    assert lock_folder((tmp_path / "absent", closed, opened)) == opened
    assert lock_folder((closed, tmp_path / "absent")) == tmp_path / "absent"


FIGHTER = """
import os, sys, time
from pathlib import Path
from runners.lock import lock_device
from runners.runner import EnvironmentProblem
folder, got, end = Path(sys.argv[1]), 0, time.monotonic() + 30
while got < 15 and time.monotonic() < end:
    try:
        lock = lock_device("77:7", "fight", folder=folder)
    except EnvironmentProblem:
        continue
    with lock:
        os.mkdir(folder / "inside")
        os.rmdir(folder / "inside")
        got += 1
    time.sleep(0.01)
print(got)
"""


@pytest.mark.system
def test_of_processes_that_fight_one_is_inside_at_a_time(tmp_path: Path) -> None:
    fighters = [
        subprocess.Popen([sys.executable, "-c", FIGHTER, str(tmp_path)], cwd=ROOT, stdout=-1, stderr=-1, text=True)
        for _ in range(2)
    ]
    ends = [fighter.communicate(timeout=60) for fighter in fighters]
    assert ends == [("15\n", "")] * 2
