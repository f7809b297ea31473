"""Command lines of alluxio-fuse, what a running process tells, its metrics, and the limit of the network card."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runners.alluxio.detached import call
from runners.alluxio.metrics import port, received
from runners.alluxio.process import FuseProcess, of_pid
from runners.alluxio.proof import prove
from runners.alluxio.runner import link_bound, link_speed
from runners.alluxio.site import counting
from runners.alluxio.users import users
from runners.alluxio.words import Made, made_by, mount_words, overriding, with_memory, with_setting
from runners.runner import Failure
from spaces.alluxio import SPACE, parse_version

OPEN2, OPEN3 = parse_version("2.9.5"), parse_version("304")
SCRIPT, POINT = Path("/opt/alluxio/alluxio-fuse"), Path("/mnt/fuse")
KEY = "alluxio.user.position.reader.streaming.async.prefetch.thread"


def process(*words: str) -> FuseProcess:
    return FuseProcess(1, words, 100.0)


def test_what_2x_was_made_with_makes_it_again() -> None:
    running = process(
        "java", "-Xmx1g", "alluxio.fuse.AlluxioFuse", "-o", "big_writes,allow_other", "-m", "/mnt/fuse", "-r", "/data"
    )
    made = made_by(running, OPEN2)
    assert made == Made("/data", ("allow_other",))
    assert mount_words(SCRIPT, OPEN2, POINT, made, foreground=True) == [
        str(SCRIPT), "mount", "-n", "-o", "allow_other", "/mnt/fuse", "/data",
    ]  # fmt: skip


def test_what_3x_was_made_with_makes_it_again() -> None:
    running = process("java", "-XX:MaxDirectMemorySize=8g", "-cp", "x.jar", "alluxio.fuse.AlluxioFuse", "-m", "/mnt/fuse",
                      "-u", "s3://b/", "-o", "s3a.secretKey=k", "-o", "direct_io")  # fmt: skip
    made = made_by(running, OPEN3)
    assert made is not None
    assert running.direct_memory == 8 << 30
    assert mount_words(SCRIPT, OPEN3, POINT, made, foreground=False) == [
        str(SCRIPT), "mount", "s3://b/", "/mnt/fuse", "-o", "s3a.secretKey=k", "-o", "direct_io", "-XX:MaxDirectMemorySize=8g",
    ]  # fmt: skip
    assert with_memory(made, 16 << 30).jvm == ("-XX:MaxDirectMemorySize=16g",)
    assert with_setting(made, {**SPACE.default, "page_cache": "auto_cache"}).options == ("s3a.secretKey=k", "auto_cache")
    assert made_by(process("java", "-jar", "x"), OPEN3) is None


def test_options_of_the_site_file_count_where_the_command_line_names_none() -> None:
    made = Made("/", ())
    assert with_setting(made, {**SPACE.default, "page_cache": "direct_io"}) == made


def test_keys_on_the_command_line_win() -> None:
    assert overriding([f"-D{KEY}=4", "-o", f"direct_io,{KEY}=8", "-Dalluxio.master.hostname=x"]) == [KEY]


def test_a_process_that_is_older_or_has_less_memory_is_no_proof() -> None:
    values = {KEY: "8"}
    older = prove(process("java"), POINT, 200.0, SPACE.default, values, None)
    assert isinstance(older, Failure)
    assert "older than the settings" in older.reason
    wins = prove(process("java", f"-D{KEY}=4"), POINT, 50.0, SPACE.default, values, None)
    assert isinstance(wins, Failure)
    assert "wins over the site file" in wins.reason
    small = prove(process("java", "-XX:MaxDirectMemorySize=4g"), POINT, 50.0, SPACE.default, values, 8 << 30)
    assert isinstance(small, Failure)
    assert "8 GiB of direct memory and has 4 GiB" in small.reason


def test_this_process_is_told_by_its_number() -> None:
    own = of_pid(os.getpid())
    assert own is not None
    assert own.started < 1e11
    assert of_pid(2**22 - 1) is None


def test_who_uses_a_folder_is_seen(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "30"], cwd=tmp_path) as sleeper:
        found = users(tmp_path)
        sleeper.kill()
    assert (sleeper.pid, "sleep") in found


PAGE = """\
# HELP Client_BytesReadRemote_total Generated
# TYPE Client_BytesReadRemote_total counter
Client_BytesReadRemote_total 1.048576E7
jvm_memory_bytes_used{area="heap"} 5.0
Worker_Something NaN
"""


def test_the_metrics_tell_what_came_from_outside() -> None:
    assert received(PAGE) == 10 << 20
    assert received("Client_CacheBytesReadExternal 5\n" + PAGE) == 5
    assert received("jvm_x 1\n") is None
    assert received("") is None


def test_metrics_are_asked_only_where_they_are_on() -> None:
    assert port(counting("")) is None
    assert port(counting("alluxio.fuse.web.enabled=yes\n")) is None
    assert port(counting("alluxio.fuse.web.enabled=true\n")) == 49999
    assert port(counting("alluxio.fuse.web.enabled=true\nalluxio.fuse.web.port=1234\n")) == 1234
    assert port(counting("alluxio.fuse.web.enabled=true\nalluxio.fuse.web.port=x\n")) is None


def test_a_full_link_is_not_the_storages_fault(tmp_path: Path) -> None:
    assert "network card does 10" in link_bound(6_000_000_000, 5.0, 10_000_000_000)
    assert link_bound(600_000_000, 5.0, 10_000_000_000) == ""
    assert link_bound(6_000_000_000, 5.0, None) == ""
    for name, state, speed in (
        ("eth0", "up", "10000"),
        ("eth1", "down", "100000"),
        ("lo", "unknown", ""),
        ("eth2", "up", "-1"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "operstate").write_text(state)
        (tmp_path / name / "speed").write_text(speed)
    assert link_speed(tmp_path) == 10_000_000_000
    assert link_speed(tmp_path / "none") is None


def test_a_command_that_leaves_something_running_is_waited_for_alone(tmp_path: Path) -> None:
    later = "import time; time.sleep(0.5); open('done', 'w')"
    background = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {later!r}])"
    assert call([sys.executable, "-c", background], limit=30, env=os.environ, cwd=tmp_path) is None
    deadline = time.monotonic() + 20
    while not (tmp_path / "done").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert (tmp_path / "done").exists()


@pytest.mark.parametrize(
    ("words", "kind"),
    [(["sleep", "30"], "timeout"), (["false"], "crash"), (["/no/such/program"], "environment"),
     (["sh", "-c", "echo secret4711; exit 3"], "crash")],
)  # fmt: skip
def test_a_command_that_fails_is_told_without_its_output(words: list[str], kind: str, tmp_path: Path) -> None:
    failed = call(words, limit=0.5 if kind == "timeout" else 30, env=os.environ, cwd=tmp_path)
    assert failed is not None
    assert failed.kind == kind
    assert "4711" not in failed.reason + failed.log
