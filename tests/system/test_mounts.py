"""Real mounts of a real store behind a slow link: studies, hangs, deaths, and page caches that answer in its place."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.store import SECRET, Store, program, store

from runners import juicefs, rclone
from runners.launch.marks import holders
from runners.mount import leftovers
from runners.mount.kernel import Background, background, fusectl, read_ahead
from runners.mount.loads import Place, rate
from runners.mount.loads.fio import FioLoad
from runners.mount.runner import MountRunner
from runners.mount.unmount import detach, mounted
from runners.mount.work import Epoch, Reading, Work
from runners.mounts import read_mounts
from runners.rclone.rc import call
from runners.rclone.words import differences
from runners.runner import Failure, Json, Measurement
from spaces.background import CONNECTIONS, MOUNT_FUSECTL
from spaces.juicefs import SPACE as JUICEFS
from spaces.rclone import SPACE as RCLONE
from spaces.space import Config
from tuner import targets
from tuner.exporters import mountline
from tuner.recommendation import Gain, Recommendation

pytestmark = pytest.mark.system

MIB = 1 << 20
# What a mount has of the kernel where nothing is asked for (fs/fuse/inode.c), or what its program asks for.
OWN_BACKGROUND = {"rclone": 12, "juicefs": 50}
FILES = {f"part{number}.bin": 48 * MIB for number in range(2)}


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with store(tmp_path_factory.mktemp("store")) as made:
        for name, size in FILES.items():
            made.add(name, size)
        yield made


@pytest.fixture(scope="module")
def meta(slow: Store) -> str:
    return slow.juicefs(FILES)


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder with a short name: sockets have to fit. Nothing may be left in it."""
    with tempfile.TemporaryDirectory(prefix="tm") as folder:
        yield Path(folder)
        assert not mounts_in(Path(folder))


def mounts_in(folder: Path) -> list[str]:
    return [mount.point for mount in read_mounts() if mount.point.startswith(f"{folder}/")]


def programs_of(folder: Path) -> dict[int, str]:
    """Processes that carry the mark of a scratch folder in ``folder``."""
    return {
        pid: name for each in folder.glob(".clustertune-scratch-*") for pid, name in holders(leftovers.mark_of(each)).items()
    }


def rclone_words(slow: Store, scratch: Path) -> list[str]:
    return ["rclone", "--remote", "slow:data", "--config", str(slow.config), "--scratch", str(scratch), *COMMON]


def juicefs_words(meta: str, scratch: Path) -> list[str]:
    return ["juicefs", "--meta", meta, "--scratch", str(scratch), *COMMON]


# What a small study takes, however busy the machine is.
BUDGET = ["--trials", "30", "--time", "8m"]
COMMON = ["--load", "fio", "--jobs", "1", "--read-time", "1s"]


def started(arguments: Sequence[str], storage: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tuner", *arguments, "--storage", str(storage)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=storage.parent)


def tune(arguments: Sequence[str], storage: Path, limit: float = 280) -> tuple[int, str, str]:
    process = started(arguments, storage)
    try:
        out, err = process.communicate(timeout=limit)
    finally:
        process.kill()
    return process.returncode, out, err


def test_tune_rclone_finds_streams_and_tells_no_secret(slow: Store, scratch: Path, tmp_path: Path) -> None:
    storage = tmp_path / "s.db"
    narrow = ["--buffer-size", "0,16M", "--async-read", "true", "--max-read-ahead", "128K", "--vfs-read-chunk-size", "1M:8M"]
    code, out, err = tune([*rclone_words(slow, scratch), *narrow, *BUDGET, "--json", "--study", "r"], storage)
    assert code == 0, err
    answer = json.loads(out)
    assert answer["decision"] == "adopt"
    assert answer["recommended"]["vfs_read_chunk_streams"] >= 2
    assert answer["gain"]["low"] > 1.3
    assert "RCLONE_VFS_READ_CHUNK_STREAMS=" in answer["files"]["rclone.env"]
    measured = answer["evidence"]["measured"]
    assert measured["bytes_from_store"] >= measured["bytes_read"]
    assert not list(scratch.iterdir())
    everything = out + err + storage.read_bytes().decode("latin-1")
    assert SECRET not in everything
    code, out, err = tune(["export", "r", "--format", "script", "-o", str(tmp_path / "mount.sh")], storage)
    assert code == 0, err
    assert SECRET not in (tmp_path / "mount.sh").read_text()


def test_tune_juicefs_answers(slow: Store, meta: str, scratch: Path, tmp_path: Path) -> None:
    storage = tmp_path / "s.db"
    narrow = ["--max-readahead", "0,4M,32M", "--prefetch", "0,1", "--max-downloads", "4,200", "--buffer-size", "300M",
              "--baseline", str(tmp_path / "mount.sh")]  # fmt: skip
    (tmp_path / "mount.sh").write_text("juicefs mount --max-readahead=0 -d redis://x /mnt\n")
    code, out, err = tune([*juicefs_words(meta, scratch), *narrow, *BUDGET, "--json"], storage)
    assert code == 0, err
    answer = json.loads(out)
    assert answer["baseline"]["max_readahead"] == 0
    assert answer["recommended"]["max_readahead"] > 0
    assert answer["gain"]["low"] > 1.3
    assert SECRET not in out + err + storage.read_bytes().decode("latin-1")
    assert not list(scratch.iterdir())


def alive(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def wait_for(what: Any, limit: float = 60.0) -> None:
    deadline = time.monotonic() + limit
    while not what():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)


@pytest.mark.parametrize("target", ["rclone", "juicefs"])
def test_what_a_killed_run_leaves_is_cleared_by_the_next(
    target: str, slow: Store, meta: str, scratch: Path, tmp_path: Path
) -> None:
    words = rclone_words(slow, scratch) if target == "rclone" else juicefs_words(meta, scratch)
    process = started([*words, "--time", "60s", "--study", "k"], tmp_path / "s.db")
    try:
        wait_for(lambda: (tmp_path / "s.db").exists() and mounts_in(scratch))
    finally:
        process.kill()
        process.communicate()
    wait_for(lambda: mounts_in(scratch), 5.0)
    assert list(scratch.glob(".clustertune-scratch-*"))
    left = set(programs_of(scratch))
    cleared = leftovers.clear(scratch)
    assert len(cleared) == 1
    # What dies with its parent may be past its environment, so that nobody can know it by its mark, and not yet gone.
    wait_for(lambda: not any(alive(pid) for pid in left), 10.0)
    assert not mounts_in(scratch)
    assert not list(scratch.iterdir())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_nothing_and_the_study_goes_on(
    number: signal.Signals, slow: Store, scratch: Path, tmp_path: Path
) -> None:
    process = started([*rclone_words(slow, scratch), "--time", "60s", "--study", "i"], tmp_path / "s.db")
    try:
        wait_for(lambda: (tmp_path / "s.db").exists() and mounts_in(scratch))
        time.sleep(1.0)
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert "tune resume i" in err
    assert not list(scratch.iterdir())
    assert not programs_of(scratch)


# -- one measurement at a time -----------------------------------------------------------------------------------------


@pytest.fixture(params=["rclone", "juicefs"])
def runner(request: pytest.FixtureRequest, slow: Store, meta: str, scratch: Path) -> Iterator[MountRunner]:
    common: dict[str, Any] = {"load": "fio", "jobs": 1, "read_time": "3s", "scratch": str(scratch)}
    if request.param == "rclone":
        made = rclone.create(rclone.Options(remote="slow:data", config=str(slow.config), **common), RCLONE)
    else:
        made = juicefs.create(juicefs.Options(meta=meta, **common), JUICEFS)
    assert isinstance(made, MountRunner)
    with made:
        assert not [problem for problem in made.check() if problem.severity == "error"]
        made.prepare()
        yield made
    assert not list(scratch.iterdir())


def default_of(runner: MountRunner) -> Config:
    return runner.space.default


def meddle(scratch: Path, number: signal.Signals) -> threading.Thread:
    """Sends a signal to the mount program while fio reads."""

    def act() -> None:
        wait_for(lambda: "fio" in programs_of(scratch).values(), 20.0)
        time.sleep(0.3)
        for pid, name in programs_of(scratch).items():
            if name in ("rclone", "juicefs"):
                os.kill(pid, number)

    thread = threading.Thread(target=act)
    thread.start()
    return thread


def test_a_mount_that_hangs_is_a_timeout_and_the_next_one_is_fresh(runner: MountRunner, scratch: Path) -> None:
    thread = meddle(scratch, signal.SIGSTOP)
    begun = time.monotonic()
    failed = runner.measure(default_of(runner), 6.0)
    thread.join()
    assert isinstance(failed, Failure), failed
    assert failed.kind == "timeout", failed
    assert "stopped answering" in failed.reason
    assert time.monotonic() - begun < 60.0, "it ends at its limit of 6 s, not when the mount comes back"
    assert not mounts_in(scratch)
    assert not programs_of(scratch)
    again = runner.measure(default_of(runner), 60.0)
    assert isinstance(again, Measurement), again


def test_a_reading_that_takes_too_long_is_told_from_a_mount_that_hangs(runner: MountRunner) -> None:
    runner.load._work = replace(runner.load._work, seconds=60.0, pattern="random", block_size=4096)
    failed = runner.measure(default_of(runner), 5.0)
    assert isinstance(failed, Failure), failed
    assert failed.kind == "timeout"
    assert "was not done within the limit of 5.0 s" in failed.reason


def test_many_readers_on_a_hanging_mount_end_with_it(slow: Store, scratch: Path) -> None:
    options = rclone.Options(
        remote="slow:data", config=str(slow.config), load="fio", jobs=64, read_time="3s", scratch=str(scratch)
    )
    with rclone.create(options, RCLONE) as made:
        made.check()
        made.prepare()
        thread = meddle(scratch, signal.SIGSTOP)
        failed = made.measure(RCLONE.default, 8.0)
        thread.join()
        assert isinstance(failed, Failure), failed
        assert failed.kind == "timeout", failed
        assert not programs_of(scratch)
        assert isinstance(made.measure(RCLONE.default, 90.0), Measurement)


def test_a_mount_that_dies_is_a_crash_with_its_end(runner: MountRunner, scratch: Path) -> None:
    thread = meddle(scratch, signal.SIGKILL)
    failed = runner.measure(default_of(runner), 30.0)
    thread.join()
    assert isinstance(failed, Failure), failed
    assert failed.kind == "crash"
    assert "SIGKILL" in failed.reason
    assert not mounts_in(scratch)
    assert isinstance(runner.measure(default_of(runner), 60.0), Measurement)


def test_what_is_measured_is_proven(runner: MountRunner) -> None:
    found = runner.measure(default_of(runner), 60.0)
    assert isinstance(found, Measurement), found
    live = found.evidence["live"]
    assert isinstance(live, dict)
    assert all(live[name] == value for name, value in default_of(runner).items())
    assert found.metrics["read_mib_s"] > 0
    (epoch,) = found.evidence["epochs"]
    assert epoch["bytes_from_store"] >= 0.9 * epoch["bytes_read"]
    assert epoch["bytes_answered"] >= 0.9 * epoch["bytes_read"]


@pytest.mark.parametrize("load", ["fio", "torch"])
def test_reads_past_the_page_cache_count_too(load: str, slow: Store, scratch: Path) -> None:
    if load == "torch":
        pytest.importorskip("torch")
    options = rclone.Options(
        remote="slow:data", config=str(slow.config), load=load, jobs=2, read_time="2s", direct=True, scratch=str(scratch)
    )
    with rclone.create(options, RCLONE) as made:
        made.check()
        made.prepare()
        found = made.measure(RCLONE.default, 90.0)
    assert isinstance(found, Measurement), found
    assert found.evidence["bytes_from_store"] >= found.evidence["bytes_read"]


class TwiceLoad(FioLoad):
    """Reads a file over and over through one handle: from the second time on the page cache answers."""

    def run(self, place: Place, limit: float) -> Reading | Failure:
        path = place.folder / self._parts[0].files[0]
        epochs: list[Epoch] = []
        with path.open("rb", buffering=0) as file:
            for _ in range(3):
                began = time.time()
                file.seek(0)
                read = len(file.read(8 * MIB))
                while time.time() - began < 0.5:
                    time.sleep(0.05)
                epochs.append(Epoch(began, time.time(), read, filling=self.fills and not epochs))
        return Reading(tuple(epochs))

    fills = False

    def figures(self, epochs: Sequence[Epoch]) -> tuple[Mapping[str, float], tuple[float, ...]]:
        return rate(epochs)


def test_epochs_out_of_the_page_cache_are_caught(runner: MountRunner) -> None:
    load = TwiceLoad(Work(jobs=1))
    load._parts = runner.load._parts
    runner.load = load
    found = runner.measure(default_of(runner), 60.0)
    assert isinstance(found, Measurement), found
    epochs: list[Json] = found.evidence["epochs"]
    assert [epoch["counted"] for epoch in epochs] == [True, False, False]
    warnings = found.evidence["warnings"]
    assert isinstance(warnings, list)
    assert "epoch 2 is not counted" in str(warnings[0])
    load.fills = True
    failed = runner.measure(default_of(runner), 60.0)
    assert isinstance(failed, Failure), "what the first epoch fetched must not be taken for the second's"
    assert failed.kind == "wrong"


@pytest.mark.parametrize("target", ["rclone", "juicefs"])
def test_a_warm_mount_answers_from_its_own_cache(target: str, slow: Store, meta: str, scratch: Path) -> None:
    common: dict[str, Any] = {
        "load": "fio",
        "jobs": 1,
        "read_time": "2s",
        "scratch": str(scratch),
        "warm": True,
        "data": "part0.bin",
    }
    if target == "rclone":
        made = rclone.create(rclone.Options(remote="slow:data", config=str(slow.config), **common), RCLONE)
        config: Config = {**RCLONE.default, "vfs_read_chunk_streams": 8, "vfs_read_chunk_size": 4 * MIB}
    else:
        made = juicefs.create(juicefs.Options(meta=meta, **common), JUICEFS)
        config = JUICEFS.default
    with made:
        made.check()
        made.prepare()
        first, second = made.measure(config, 90.0), made.measure(config, 90.0)
    assert isinstance(first, Measurement), first
    assert isinstance(second, Measurement), second
    assert first.bytes_written > 40 * MIB
    assert second.bytes_written < 10 * MIB, "the cache on disk is still there"
    assert second.evidence["bytes_from_store"] < 0.1 * second.evidence["bytes_read"]


@pytest.fixture(scope="module")
def connections() -> Iterator[None]:
    """The kernel shows its FUSE mounts, which takes a mount by root where nothing like systemd has made it."""
    if os.geteuid() != 0:
        pytest.skip("needs root to change the kernel's side of a mount")
    own = not fusectl()
    if own:
        subprocess.run(MOUNT_FUSECTL.split(), check=True)
    yield
    if own:
        subprocess.run(["umount", CONNECTIONS], check=True)


@pytest.mark.root
@pytest.mark.usefixtures("connections")
@pytest.mark.parametrize("target", ["rclone", "juicefs"])
def test_root_may_have_more_read_ahead(target: str, slow: Store, meta: str, scratch: Path) -> None:
    common: dict[str, Any] = {"load": "fio", "jobs": 1, "read_time": "1s", "scratch": str(scratch), "system": True}
    if target == "rclone":
        made = rclone.create(rclone.Options(remote="slow:data", config=str(slow.config), **common), RCLONE)
        config: Config = {**RCLONE.default, "max_read_ahead": 2 * MIB, "max_background": 64}
        own = {**RCLONE.default, "max_read_ahead": 2 * MIB}
    else:
        made = juicefs.create(juicefs.Options(meta=meta, **common), JUICEFS)
        config = {**JUICEFS.default, "kernel_read_ahead": 2 * MIB, "max_background": 64}
        own = {**JUICEFS.default, "kernel_read_ahead": 2 * MIB}
    with made:
        made.check()
        made.prepare()
        found, alone = made.measure(config, 60.0), made.measure(own, 60.0)
    assert isinstance(found, Measurement), found
    assert isinstance(alone, Measurement), alone
    assert found.evidence["live"]["kernel_read_ahead"] == 2 * MIB
    assert (found.evidence["live"]["max_background"], found.evidence["live"]["kernel_max_background"]) == (64, 64)
    assert alone.evidence["live"]["kernel_max_background"] == OWN_BACKGROUND[target]


def test_torch_reads_through_a_mount(slow: Store, scratch: Path) -> None:
    pytest.importorskip("torch")
    options = rclone.Options(
        remote="slow:data", config=str(slow.config), load="torch", jobs=2, read_time="2s", scratch=str(scratch)
    )
    with rclone.create(options, RCLONE) as made:
        made.check()
        made.prepare()
        found = made.measure({**RCLONE.default, "vfs_read_chunk_streams": 8, "vfs_read_chunk_size": 4 * MIB}, 90.0)
    assert isinstance(found, Measurement), found
    assert found.metrics["read_mib_s"] > 0
    assert not programs_of(scratch)


# -- what is emitted ------------------------------------------------------------------------------------------------------


def recommended(target: str, chosen: Config, **options: str) -> Recommendation:
    gain = Gain(2.0, 1.9, 2.1, 0.9)
    default = RCLONE.default if target == "rclone" else JUICEFS.default
    return Recommendation("s", target, "fio", "adopt", chosen, default, gain, "r", {}, {}, options=options)


@pytest.fixture
def point(tmp_path: Path) -> Iterator[Path]:
    """A mount point; what is mounted there is taken away, and with it the program that mounted ends."""
    folder = tmp_path / "mnt"
    folder.mkdir()
    yield folder
    assert detach(folder)


def test_rclone_obeys_the_emitted_variables(slow: Store, point: Path, tmp_path: Path) -> None:
    config: Config = {**RCLONE.default, "vfs_read_chunk_streams": 8, "vfs_read_chunk_size": 2 * MIB, "buffer_size": 0,
                      "async_read": False}  # fmt: skip
    (text,) = targets.load("rclone").exporter.render(recommended("rclone", config), "env", {}).values()
    own = dict(line.split("=", 1) for line in text.splitlines() if not line.startswith("#"))
    socket = Path(tempfile.mkdtemp(prefix="tm")) / "s"
    command = [program("rclone"), "mount", "slow:data", str(point), "--config", str(slow.config), "--read-only", "--rc",
               "--rc-no-auth", f"--rc-addr=unix://{socket}"]  # fmt: skip
    process = subprocess.Popen(command, env={**os.environ, **own}, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: mounted(point) and socket.exists())
        live = call(socket, "options/get")
        live["vfs"] = call(socket, "vfs/stats")["opt"]
        assert differences(config, live) == []
    finally:
        detach(point)
        process.terminate()
        process.wait()
        shutil.rmtree(socket.parent)


@pytest.mark.root
@pytest.mark.usefixtures("connections")
@pytest.mark.parametrize("target", ["rclone", "juicefs"])
def test_the_emitted_script_mounts(target: str, slow: Store, meta: str, point: Path, tmp_path: Path) -> None:
    more = {"max_background": 64}
    if target == "rclone":
        config: Config = {**RCLONE.default, **more, "vfs_read_chunk_streams": 4, "max_read_ahead": 2 * MIB}
        answer = recommended(target, config, remote="slow:data", config=str(slow.config))
    else:
        config = {**JUICEFS.default, **more, "max_readahead": 16 * MIB, "kernel_read_ahead": 2 * MIB}
        answer = recommended(target, config, meta=meta)
    (text,) = targets.load(target).exporter.render(answer, "script", {"mount_point": str(point)}).values()
    if target == "juicefs":  # whose own places are those of the machine
        for name in ("log", "cache-dir"):
            text = mountline.put(text, "juicefs", name, str(tmp_path / name))
    script = tmp_path / "mount.sh"
    script.write_text(text)
    path = f"{Path(program(target)).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", script], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert mounted(point)
    assert sorted(each.name for each in point.iterdir() if not each.name.startswith(".")) == sorted(FILES)
    assert read_ahead(point) == 2 * MIB
    assert background(point) == Background(64, 48)
    if target == "juicefs":
        live = json.loads((point / ".config").read_text())["Chunk"]
        assert live["Readahead"] == 16 * MIB


# -- what is not there ---------------------------------------------------------------------------------------------------


def test_a_remote_that_is_not_there_is_told_in_a_sentence(slow: Store, scratch: Path, tmp_path: Path) -> None:
    words = ["rclone", "--remote", "nowhere:x", "--config", str(slow.config), "--scratch", str(scratch), *COMMON]
    code, _, err = tune(words, tmp_path / "s.db")
    assert code == 4
    assert "nowhere" in err
    assert "Traceback" not in err
    assert not list(scratch.iterdir())


def test_an_empty_remote_is_told_in_a_sentence(slow: Store, scratch: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    code, _, err = tune(["rclone", "--remote", str(tmp_path / "empty"), "--scratch", str(scratch), *COMMON], tmp_path / "s.db")
    assert code == 4
    assert "no file with something in it" in err


def test_data_that_is_not_there_is_wrong_usage(slow: Store, scratch: Path, tmp_path: Path) -> None:
    code, _, err = tune([*rclone_words(slow, scratch), "--data", "gone/*.npz"], tmp_path / "s.db")
    assert code == 2
    assert "--data gone/*.npz" in err


@pytest.mark.parametrize("target", ["rclone", "juicefs"])
def test_the_examples_run_as_they_stand(target: str, slow: Store, meta: str, tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "examples" / target / "tune.sh"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "TIME": "2m", "READ": "1s", "CONFIG": str(slow.config)}
    done = subprocess.run(
        [script, "slow:data" if target == "rclone" else meta],
        capture_output=True, text=True, check=False, env=environment, cwd=tmp_path, timeout=290,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "KiB" in done.stdout if target == "rclone" else "MiB" in done.stdout
    assert "Traceback" not in done.stderr
    assert SECRET not in done.stdout + done.stderr


# -- a data set of ours ------------------------------------------------------------------------------------------------------


def ours_in(slow: Store) -> list[str]:
    """What is beside the users' files in the bucket that rclone mounts."""
    return sorted(path.name for path in slow.folder.rglob("*") if path.is_file() and path.name not in FILES)


@pytest.mark.parametrize("target", ["rclone", "juicefs"])
def test_a_generated_set_is_read_and_taken_away(target: str, slow: Store, meta: str, scratch: Path, tmp_path: Path) -> None:
    if target == "rclone":
        words = ["rclone", "--remote", "quick:data", "--config", str(slow.config), "--scratch", str(scratch),
                 "--buffer-size", "0,16M", "--async-read", "true", "--max-read-ahead", "128K"]  # fmt: skip
    else:
        words = ["juicefs", "--meta", meta, "--scratch", str(scratch), "--buffer-size", "64M", "--max-downloads", "200"]
    words += ["--load", "fio", "--jobs", "2", "--read-time", "0.5s"]
    code, out, err = tune([*words, "--generate", "48M", "--trials", "24", "--time", "4m", "--json"], tmp_path / "s.db")
    assert code in (0, 3), err
    answer = json.loads(out)
    assert answer["evidence"]["measured"]["data"] == {"files": 16, "bytes": 48 * MIB, "largest_file": 3 * MIB}
    assert answer["bytes_written"] == 48 * MIB
    assert ours_in(slow) == []
    if target == "juicefs":
        assert trash(meta, scratch) == []


def trash(meta: str, scratch: Path) -> list[str]:
    """What JuiceFS keeps of deleted files of ours."""
    point = scratch / "look"
    point.mkdir()
    subprocess.run([program("juicefs"), "mount", "-d", "--no-usage-report", meta, point], check=True, capture_output=True)
    try:
        return [str(path) for path in (point / ".trash").rglob("*clustertune-data*")]
    finally:
        assert detach(point)
        point.rmdir()


def test_what_a_killed_study_generated_is_removed_by_the_next(slow: Store, scratch: Path, tmp_path: Path) -> None:
    words = ["rclone", "--remote", "quick:data", "--config", str(slow.config), "--scratch", str(scratch), *COMMON]
    process = started([*words, "--generate", "64M", "--time", "5m"], tmp_path / "s.db")
    try:
        wait_for(lambda: len(ours_in(slow)) >= 5)
    finally:
        process.kill()
        process.communicate()
    assert ours_in(slow)
    full = slow.folder / "clustertune-data-of-somebody"
    full.mkdir()
    (full / "0.bin").write_bytes(b"mine")
    tune([*words, "--data", "part0.bin", "--trials", "2", "--time", "2m"], tmp_path / "s.db")
    assert ours_in(slow) == ["0.bin"]
    shutil.rmtree(full)


def test_the_sets_of_others_are_nobodys_data(slow: Store, scratch: Path, tmp_path: Path) -> None:
    remote = tmp_path / "remote"
    other = remote / "clustertune-data-0123456789abcdef"
    other.mkdir(parents=True)
    (other / "00000.bin").write_bytes(b"x" * MIB)
    words = ["rclone", "--remote", str(remote), "--scratch", str(scratch), *COMMON]
    code, _, err = tune([*words, "--time", "2m"], tmp_path / "s.db")
    assert code == 4, err
    assert "holds no file with something in it" in err
    assert "--generate" in err
    code, _, err = tune([*words, "--generate", "64M", "--max-write", "8M"], tmp_path / "s.db")
    assert code == 5, err
    assert [path.name for path in remote.iterdir()] == [other.name]


def test_a_store_that_is_full_is_told_and_left_as_it_was(scratch: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to mount")
    remote = tmp_path / "remote"
    remote.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "none", remote], check=True)
    try:
        words = ["rclone", "--remote", str(remote), "--scratch", str(scratch), *COMMON, "--generate", "64M", "--time", "2m"]
        code, _, err = tune(words, tmp_path / "s.db")
        assert code == 4, err
        assert "has room" in err
        assert list(remote.iterdir()) == []
    finally:
        detach(remote)
