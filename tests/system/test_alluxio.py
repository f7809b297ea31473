"""`tune alluxio` on a stand-in for Alluxio's FUSE process, over a slow store: real mounts, real reads, everything put back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.alluxio_fuse import make_home
from support.store import Store, store

from runners.alluxio.backend import AlluxioBackend
from runners.alluxio.options import Options
from runners.alluxio.process import FuseProcess, mount_at, serving
from runners.alluxio.runner import AlluxioRunner
from runners.runner import EnvironmentProblem, Failure, Measurement
from spaces.alluxio import SPACE

pytestmark = [pytest.mark.system, pytest.mark.root]
LIMIT = 60.0
SECRET = "not/to+be=shown-0815"
MINE = (
    "# ours, since 2026\n"
    "s3a.accessKeyId=AKIAEXAMPLE\n"
    f"s3a.secretKey={SECRET.replace('=', chr(92) + '=')}\n"
    "alluxio.user.position.reader.streaming.async.prefetch.thread=32\n"
    "alluxio.etcd.endpoints=http://192.0.2.20:2379,\\\n    http://192.0.2.21:2379"
)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    if os.geteuid() != 0:
        pytest.skip("needs root to mount")
    root = tmp_path_factory.mktemp("store")
    with store(root) as made:
        for number in range(4):
            made.add(f"train/{number}.npz", 24 << 20)
        yield made


@dataclass
class Here:
    """A host with an Alluxio whose mount is up, as a user has it."""

    home: Path
    point: Path
    environment: dict[str, str]
    line: str

    @property
    def site(self) -> Path:
        return self.home / "conf/alluxio-site.properties"

    @property
    def script(self) -> Path:
        return next(self.home.rglob("alluxio-fuse"))

    @property
    def source(self) -> list[str]:
        return [] if self.line == "open2" else ["s3://training/"]

    def options(self, **more: Any) -> Options:
        fields: dict[str, Any] = {"mount": str(self.point), "load": "fio", "jobs": 2, "read_time": "1s", **more}
        return Options(**fields)

    def process(self) -> FuseProcess:
        found = serving(self.point)
        assert found is not None
        return found

    def as_before(self) -> None:
        """The file is the very same one, nothing lies beside it, and a FUSE process that is no study's serves the mount."""
        assert self.site.read_text() == MINE
        assert self.site.stat().st_mode & 0o777 == 0o600
        assert [path.name for path in self.site.parent.iterdir()] == [self.site.name]
        assert mount_at(self.point) is not None
        assert (self.point / "train/0.npz").stat().st_size == 24 << 20


@pytest.fixture
def here(shop: Store, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Here]:
    line, version = getattr(request, "param", ("enterprise", "3.6"))
    home = make_home(tmp_path / "alluxio", line, version, shop.config, "slow:data")
    point = tmp_path / "mnt"
    point.mkdir()
    environment = {**os.environ, "ALLUXIO_HOME": str(home), "CLUSTERTUNE_STORAGE": str(tmp_path / "studies.db"),
                   "TMPDIR": str(tmp_path), "COLUMNS": "200"}  # fmt: skip
    monkeypatch.setenv("ALLUXIO_HOME", str(home))
    made = Here(home, point, environment, line)
    made.site.write_text(MINE if line == "enterprise" else "s3a.secretKey=x\n")
    made.site.chmod(0o600)
    try:
        subprocess.run([made.script, "mount", *made.source, point], env=environment, check=True, timeout=LIMIT)
        yield made
    finally:
        for _ in range(3):
            subprocess.run([made.script, "unmount", point], env=environment, check=False, timeout=LIMIT, capture_output=True)
            if mount_at(point) is None:
                break
            subprocess.run(["umount", "--lazy", point], check=False, capture_output=True, timeout=LIMIT)
        left = serving(point)
        if left is not None:
            os.kill(left.pid, signal.SIGKILL)
    assert mount_at(point) is None


def tune(here: Here, *arguments: str, limit: float = 280) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tuner", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=here.environment, timeout=limit)
    assert "Traceback" not in done.stderr, done.stderr
    return done


PINNED = ("--prefetch-threads", "64", "--file-length-threshold", "4M", "--slow-threads", "256", "--slow-part-length", "1M",
          "--shared-reads", "false", "--preload", "false")  # fmt: skip


def study(here: Here, *more: str) -> list[str]:
    return ["alluxio", "--mount", str(here.point), "--load", "fio", "--jobs", "2", "--read-time", "1s", *PINNED,
            "--part-length", "1M,4M", *more]  # fmt: skip


# -- one measurement ---------------------------------------------------------------------------------------------------


def test_a_measurement_is_proven_and_everything_is_put_back(here: Here) -> None:
    own, inode = here.process(), here.site.stat().st_ino
    with AlluxioRunner.create(here.options(), SPACE) as runner:
        assert not [problem for problem in runner.check() if problem.severity == "error"]
        runner.prepare()
        outcome = runner.measure({**SPACE.default, "max_part_number": 4}, LIMIT)
        assert isinstance(outcome, Measurement), outcome
        assert outcome.metrics["read_mib_s"] > 0
        live = outcome.evidence["live"]
        assert isinstance(live, dict)
        assert live["process_newer_than_settings"] is True
        assert live["alluxio.user.position.reader.streaming.async.prefetch.max.part.number"] == "4"
        served, read = outcome.evidence["bytes_from_store"], outcome.evidence["bytes_read"]
        assert isinstance(served, int)
        assert isinstance(read, int)
        assert served >= 0.9 * read
        assert "prefetch.max.part.number=4" in here.site.read_text()
        assert serving(here.point) is None
    here.as_before()
    assert here.site.stat().st_ino == inode
    assert here.process().words[1:] == own.words[1:]


@pytest.mark.parametrize("here", [("open2", "2.9.5"), ("open3", "304")], indirect=True)
def test_each_product_line_gets_the_keys_that_it_has(here: Here) -> None:
    before = here.site.read_bytes()
    with AlluxioRunner.create(here.options(), SPACE) as runner:
        runner.check()
        runner.prepare()
        config = {**SPACE.default, "chunk_size": 4 << 20, "multiplier": 4, "max_part_number": 2}
        outcome = runner.measure(config, LIMIT)
        assert isinstance(outcome, Measurement), outcome
        text = here.site.read_text()
    assert "async.prefetch" not in text
    assert ("streaming.reader.chunk.size.bytes=4MB" in text) == (here.line == "open2")
    assert ("streaming.multiplier=4" in text) == (here.line == "open3")
    assert here.site.read_bytes() == before
    assert mount_at(here.point) is not None


def test_memory_that_a_setting_needs_is_given_to_the_jvm_and_proven(here: Here) -> None:
    with AlluxioRunner.create(here.options(memory="32G"), SPACE) as runner:
        runner.check()
        runner.prepare()
        config = {**SPACE.default, "part_length": 32 << 20, "max_part_number": 64, "direct_memory": 8 << 30}
        outcome = runner.measure(config, LIMIT)
        assert isinstance(outcome, Measurement), outcome
        live = outcome.evidence["live"]
        assert isinstance(live, dict)
        assert live["direct_memory"] == 8 << 30


def test_the_kernel_reads_ahead_as_far_as_it_is_told_with_system(here: Here) -> None:
    with AlluxioRunner.create(here.options(system=True), SPACE) as runner:
        runner.check()
        runner.prepare()
        outcome = runner.measure({**SPACE.default, "read_ahead": 1 << 20}, LIMIT)
        assert isinstance(outcome, Measurement), outcome
        live = outcome.evidence["live"]
        assert isinstance(live, dict)
        assert live["kernel_read_ahead"] == 1 << 20


def test_bytes_are_counted_by_the_metrics_where_they_are_on(here: Here) -> None:
    from support.store import free_port

    port = free_port()
    here.site.write_text(f"{MINE}\nalluxio.fuse.web.enabled=true\nalluxio.fuse.web.port={port}\n")
    with AlluxioRunner.create(here.options(), SPACE) as runner:
        runner.check()
        runner.prepare()
        outcome = runner.measure(SPACE.default, LIMIT)
        assert isinstance(outcome, Measurement), outcome
        assert outcome.evidence["counted_by"] == "the FUSE process's metrics"
    here.site.write_text(MINE)


def restarter(here: Here) -> Path:
    """A command that restarts the FUSE process in the background, as a service manager would."""
    restart = here.home / "restart"
    restart.write_text(
        f'#!/bin/sh\n"{here.script}" unmount "{here.point}"\nexec "{here.script}" mount s3://training/ "{here.point}"\n'
    )
    restart.chmod(0o755)
    return restart


def test_a_remount_command_is_run_and_found_out_where_it_restarts_nothing(here: Here) -> None:
    restart = restarter(here)
    with AlluxioRunner.create(here.options(remount_cmd=str(restart)), SPACE) as runner:
        runner.check()
        runner.prepare()
        outcome = runner.measure({**SPACE.default, "max_part_number": 2}, LIMIT)
        assert isinstance(outcome, Measurement), outcome
    here.as_before()
    with pytest.raises(EnvironmentProblem, match="older than the settings"), \
            AlluxioRunner.create(here.options(remount_cmd="true"), SPACE) as runner:  # fmt: skip
        runner.check()
    here.as_before()


def test_a_key_on_the_command_line_that_wins_is_found_out(here: Here) -> None:
    key = "alluxio.user.position.reader.streaming.async.prefetch.max.part.number"
    subprocess.run([here.script, "unmount", here.point], env=here.environment, check=True, timeout=LIMIT)
    subprocess.run([here.script, "mount", *here.source, here.point, "-o", f"{key}=2"], env=here.environment, check=True)
    with AlluxioRunner.create(here.options(), SPACE) as runner:
        runner.check()
        runner.prepare()
        outcome = runner.measure({**SPACE.default, "max_part_number": 4}, LIMIT)
        assert isinstance(outcome, Failure)
        assert outcome.kind == "wrong"
        assert f"{key} is given on the command line" in outcome.reason


def test_a_mount_in_use_is_not_taken_away(here: Here) -> None:
    with (here.point / "train/0.npz").open("rb"), subprocess.Popen(["sleep", "60"], cwd=here.point) as user:
        found = {problem.id: problem for problem in AlluxioBackend(here.options()).problems()}
        user.kill()
    assert found["mount-in-use"].severity == "error"
    assert f"sleep ({user.pid})" in found["mount-in-use"].message


# -- bad luck ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_a_hung_or_killed_mount_ends_one_trial_only(here: Here, number: signal.Signals) -> None:
    """The mount dies or hangs while 64 jobs read."""
    with AlluxioRunner.create(here.options(jobs=64, read_time="20s"), SPACE) as runner:
        runner.check()
        runner.prepare()

        def strike() -> None:
            deadline = time.monotonic() + 30
            while not _readers(here) and time.monotonic() < deadline:
                time.sleep(0.02)
            time.sleep(0.3)  # now they read
            for pid in _fuse_pids(here):
                os.kill(pid, number)

        striking = threading.Thread(target=strike)
        striking.start()
        begun = time.monotonic()
        outcome = runner.measure(SPACE.default, 12.0)
        striking.join()
        assert time.monotonic() - begun < 40
        assert isinstance(outcome, Failure)
        assert outcome.kind == ("timeout" if number == signal.SIGSTOP else "crash"), outcome
        assert mount_at(here.point) is None
        runner._work = runner.load._work = type(runner._work)(jobs=2, seconds=1.0)  # type: ignore[attr-defined]
        again = runner.measure(SPACE.default, LIMIT)
        assert isinstance(again, Measurement), again
    here.as_before()


def _readers(here: Here) -> list[int]:
    """fio's processes that have a file of the mount in their words."""
    return _processes(lambda words: words[0].endswith("fio") and any(str(here.point) in word for word in words))


def _fuse_pids(here: Here) -> list[int]:
    return _processes(lambda words: str(here.point) in words and any(word.endswith(("rclone", "bin/java")) for word in words))


def _processes(wanted: Callable[[list[str]], bool]) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if wanted(words):
                found.append(int(folder.name))
    return found


def _until_measured(run: subprocess.Popen[str], count: int = 2) -> None:
    assert run.stderr is not None
    for line in run.stderr:
        count -= '"measured"' in line
        if count == 0:
            return
    raise AssertionError("the study ended before it was cut off")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_however_a_study_ends_the_users_file_and_mount_come_back(here: Here, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "tuner", *study(here, "--time", "5m", "--study", "cut", "--events")]
    pipes: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    inode = here.site.stat().st_ino
    with subprocess.Popen(command, env=here.environment, **pipes) as run:
        _until_measured(run)
        run.send_signal(number)
        run.communicate(timeout=LIMIT)
    if number == signal.SIGKILL:
        assert "clustertune" in here.site.read_text()
        done = tune(here, *study(here, "--trials", "1"))
        assert "a study was killed" in done.stderr
    else:
        assert run.returncode == 130
    here.as_before()
    assert here.site.stat().st_ino == inode
    assert not list(here.site.parents[2].glob(".clustertune-scratch-*"))
    assert len(_fuse_pids(here)) == 2, "the user's own FUSE process and its rclone, and no other"


def test_after_a_kill_a_command_of_the_users_restarts_the_mount_with_their_own_file(here: Here) -> None:
    """The FUSE process that the command started outlives the study, with its settings."""
    restart = str(restarter(here))
    command = [sys.executable, "-m", "tuner", *study(here, "--time", "5m", "--events", "--remount-cmd", restart)]
    pipes: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=here.environment, **pipes) as run:
        _until_measured(run)
        run.kill()
        run.communicate(timeout=LIMIT)
    left = here.process()
    backend = AlluxioBackend(here.options(remount_cmd=restart))
    assert "recovered" in {problem.id for problem in backend.problems()}
    here.as_before()
    assert here.process().started > left.started


def test_what_somebody_writes_meanwhile_is_not_lost(here: Here) -> None:
    runner = AlluxioRunner.create(here.options(), SPACE)
    runner.check()
    here.site.write_text("alluxio.user.file.buffer.bytes=1MB\n")
    with pytest.raises(EnvironmentProblem, match="was changed by somebody"):
        runner.close()
    moved = here.site.with_name(f"{here.site.name}.changed-during-study")
    assert moved.read_text() == "alluxio.user.file.buffer.bytes=1MB\n"
    moved.unlink()
    here.as_before()


# -- whole studies -----------------------------------------------------------------------------------------------------


def test_a_study_answers_and_the_secret_is_nowhere(here: Here, tmp_path: Path) -> None:
    done = tune(here, *study(here, "--max-part-number", "1,8", "--trials", "24", "--study", "one", "--json", "--events",
                             "--baseline", str(here.site)))  # fmt: skip
    assert done.returncode in (0, 3), done.stderr
    here.as_before()
    answer = json.loads(done.stdout)
    assert answer["baseline"]["prefetch_threads"] == 32
    assert answer["machine"]["alluxio"] == "3.6"
    shown = [done.stdout, done.stderr]
    for arguments in (["show", "one", "--trials"], ["report", "one", "-o", str(tmp_path / "report.html")],
                      ["export", "one", "--into", str(here.site), "--diff"],
                      ["export", "one", "--into", str(here.site), "--json"],
                      ["lint", str(here.site), "--json"], ["export", "--rollback", str(here.site), "--json"]):  # fmt: skip
        ran = tune(here, *arguments)
        shown += [ran.stdout, ran.stderr]
        if arguments[1:3] == ["one", "--into"] and "--json" in arguments:
            assert ran.returncode == 0, ran.stderr
            assert SECRET.replace("=", "\\=") in here.site.read_text()
    shown += [
        path.read_bytes().decode("latin-1") for path in (tmp_path / "studies.db", tmp_path / "report.html") if path.exists()
    ]
    for text in shown:
        assert SECRET not in text
        assert "not/to+be" not in text
    assert here.site.read_text() == MINE
    assert here.site.stat().st_mode & 0o777 == 0o600


def test_random_reads_don_t_get_a_larger_window_without_proof(here: Here) -> None:
    """Case random-window: 4k reads at random gain nothing from reading ahead."""
    done = tune(here, *study(here, "--pattern", "random", "--block-size", "4K", "--max-part-number", "1,8,32",
                             "--trials", "30", "--json"))  # fmt: skip
    assert done.returncode in (0, 3), done.stderr
    answer = json.loads(done.stdout)
    window = answer["recommended"]["part_length"] * answer["recommended"]["max_part_number"]
    before = answer["baseline"]["part_length"] * answer["baseline"]["max_part_number"]
    assert window <= before, "a larger window can't be better here"


def test_the_example_runs_as_it_stands(here: Here) -> None:
    script = Path(__file__).parents[2] / "examples/alluxio/tune.sh"
    environment = {**here.environment, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "TIME": "4m",
                   "READ_TIME": "1s"}  # fmt: skip
    few = [*PINNED, "--part-length", "4M", "--max-part-number", "1,8"]
    done = subprocess.run(
        [script, here.point, *few], capture_output=True, text=True, check=False, env=environment, timeout=280
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    assert "call it alluxio.user.position.reader.streaming.async.prefetch.thread" in done.stdout
    assert "-XX:MaxDirectMemorySize=4g" in done.stdout
    assert "example\\=only" not in done.stdout + done.stderr
    here.as_before()
