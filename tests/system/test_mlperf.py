"""DLIO itself: data made, two ranks trained by each MPI, interrupted, misled, and reading through a mount of a slow store."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import mpis
from support.store import Store, store

from runners.mlperf import launching
from runners.mlperf.benchmark import DataSet, Trained, generate, train
from runners.mlperf.installed import Dlio, find_dlio
from runners.mlperf.launching import Start, find_launcher
from runners.mlperf.workloads import find
from runners.runner import EnvironmentProblem, Failure, Measurement

pytestmark = pytest.mark.system

UNET3D = find("unet3d", "v1.0", "h100")
TUNE = (sys.executable, "-m", "tuner")
LIMIT = 240.0


def small(size: int) -> dict[str, str]:
    return {"dataset.record_length": str(size), "dataset.record_length_stdev": "0", "dataset.record_length_resize": "65536"}


@pytest.fixture(scope="module")
def dlio() -> Dlio:
    try:
        return find_dlio()
    except EnvironmentProblem as problem:
        pytest.skip(f"{problem.message} ({problem.mend})")


@pytest.fixture(scope="module")
def start(dlio: Dlio) -> Start:
    try:
        return Start(dlio, find_launcher(dlio))
    except EnvironmentProblem as problem:
        pytest.skip(f"{problem.message} ({problem.mend})")


@pytest.fixture(scope="module")
def data(start: Start, tmp_path_factory: pytest.TempPathFactory) -> DataSet:
    """100 records of 64 KiB, made by two ranks of DLIO."""
    root = tmp_path_factory.mktemp("dlio")
    made = generate(start, UNET3D, root / "unet3d", 100, small(65536), ranks=2, scratch=root, limit=LIMIT)
    assert isinstance(made, DataSet), made
    return made


def trained(start: Start, data: DataSet, folder: Path, **parameters: str) -> Trained | Failure:
    given = {"reader.batch_size": "1", "reader.read_threads": "1", "train.computation_time": "0.01"}
    given |= {name.replace("__", "."): value for name, value in parameters.items()}
    (folder / "scratch").mkdir(exist_ok=True)
    return train(
        start, UNET3D, data, given, ranks=2, epochs=2, output=folder / "out", kept="configs", scratch=folder / "scratch",
        limit=LIMIT,
    )  # fmt: skip


def test_data_are_of_the_size_that_was_asked_for(data: DataSet) -> None:
    assert data.files == 100
    assert data.file_size == pytest.approx(65536, rel=0.05)


@pytest.mark.parametrize("kind", list(mpis.KINDS))
def test_two_ranks_of_each_mpi_train(dlio: Dlio, data: DataSet, tmp_path: Path, kind: str) -> None:
    launcher = find_launcher(dlio, str(mpis.folder(kind) / "bin" / "mpirun"))
    assert launcher.mpi.kind == kind
    done = trained(Start(dlio, launcher), data, tmp_path)
    assert isinstance(done, Trained), done
    assert done.summary.accelerators == 2
    assert done.summary.training is not None
    assert [epoch.steps for epoch in done.epochs] == [50, 50]
    assert all(0 < epoch.au <= 100 for epoch in done.epochs)
    assert all(epoch.samples == 100 for epoch in done.epochs)


def test_ranks_that_each_believe_to_be_alone_are_found_out(
    dlio: Dlio, data: DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """mpi4py with Open MPI's library below MPICH's mpirun: two runs at once, which both end well."""
    other, real = mpis.library("openmpi"), launching.environment
    paths = {"MPI4PY_LIBMPI": str(other), "LD_LIBRARY_PATH": str(other.parent), "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    monkeypatch.setattr(
        launching, "environment", lambda *given: {**real(*given), **paths, "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    )
    launcher = find_launcher(dlio, str(mpis.folder("mpich") / "bin" / "mpirun"))
    done = trained(Start(dlio, launcher), data, tmp_path)
    assert isinstance(done, Failure)
    assert done.kind in ("wrong", "crash")
    if done.kind == "wrong":
        assert "another MPI" in done.reason


def test_fewer_files_than_asked_for_are_said_in_our_words(start: Start, data: DataSet, tmp_path: Path) -> None:
    done = trained(start, replace(data, files=200), tmp_path)
    assert isinstance(done, Failure)
    assert "fewer files than the run asks for" in done.reason


def test_a_run_over_its_limit_is_ended_everywhere(start: Start, data: DataSet, tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    parameters = {"reader.batch_size": "1", "train.computation_time": "60"}
    done = train(
        start, UNET3D, data, parameters, ranks=2, epochs=1, output=tmp_path / "out", kept="configs",
        scratch=tmp_path / "scratch", limit=30.0,
    )  # fmt: skip
    assert isinstance(done, Failure)
    assert done.kind == "timeout"
    assert not left(tmp_path)


def left(folder: Path) -> list[str]:
    """Processes that know ``folder``."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
            except OSError:
                continue
            if str(folder).encode() in words:
                found.append(words.decode(errors="replace")[:200])
    return found


def run_words(data: Path, results: Path, *more: str) -> list[str]:
    parameters = ["reader.batch_size=1", "reader.read_threads=1", "train.computation_time=0.01", *more]
    words = ["mlperf", "run", "--data", str(data), "--accelerators", "2", "--epochs", "1", "--results", str(results), "--open"]
    return [*TUNE, *words, *(word for each in parameters for word in ("--param", each))]


def test_the_command_makes_data_trains_and_its_results_are_read(start: Start, tmp_path: Path) -> None:
    sizes = [f"{name}={value}" for name, value in small(32768).items()]
    words = run_words(tmp_path / "new", tmp_path / "r", *sizes)
    done = subprocess.run([*words, "--files", "100", "--json"], capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode in (0, 1), done.stderr
    told = json.loads(done.stdout)
    assert told["data"]["files"] == 100
    (only,) = told["runs"]
    assert only["passed"] == (only["au_percent"] >= 90) == (done.returncode == 0)
    assert "no submission" in done.stderr
    assert "Ending epoch 1" in done.stderr
    report = subprocess.run(
        [*TUNE, "mlperf", "report", str(tmp_path / "r"), "--json"], capture_output=True, text=True, timeout=60, check=False
    )
    assert report.returncode == 1
    (found,) = json.loads(report.stdout)["reports"]
    assert (found["model"], found["accelerator"], found["version"], found["division"]) == ("unet3d", "h100", "v2.0", "none")
    assert found["runs"][0]["au_percent"] == pytest.approx(only["au_percent"])
    assert {"runs", "size", "division"} <= {each["rule"] for each in found["findings"]}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_all_ranks_and_leaves_no_scratch(start: Start, data: DataSet, tmp_path: Path, number: int) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    words = run_words(data.folder, tmp_path / "r", "train.computation_time=30")
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(scratch)}
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if "Starting epoch 1" in line:
                break
        assert left(scratch)
        process.send_signal(number)
        process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    deadline = time.monotonic() + 10
    while left(scratch) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left(scratch)
    assert not list(scratch.iterdir())


# -- through a mount ------------------------------------------------------------------------------------------------


@pytest.fixture
def slow(start: Start, tmp_path: Path) -> Iterator[Store]:
    """A store behind 20 ms and 15 MB/s a connection, with 100 records of 4 MiB in it."""
    with store(tmp_path / "store") as made:
        scratch = tmp_path / "made"
        scratch.mkdir()
        done = generate(start, UNET3D, made.folder / "unet3d", 100, small(4 << 20), ranks=2, scratch=scratch, limit=LIMIT)
        assert isinstance(done, DataSet), done
        yield made


@pytest.fixture
def short() -> Iterator[Path]:
    """A scratch folder with a path that is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="ct") as folder:
        yield Path(folder)


def options(made: Store, scratch: Path, *extra: str) -> Any:
    from runners import rclone

    parameters = ["reader.batch_size=1", "reader.read_threads=1", *extra]
    return rclone.OPTIONS(
        remote="slow:data",
        config=str(made.config),
        load="unet3d",
        accelerators=2,
        load_option=parameters,
        scratch=str(scratch),
    )


def test_a_tuned_mount_keeps_the_accelerators_busier(slow: Store, short: Path) -> None:
    from runners import rclone
    from spaces.rclone import SPACE

    parallel = {**SPACE.default, "vfs_read_chunk_streams": 4, "vfs_read_chunk_size": 1 << 20, "buffer_size": 1 << 20}
    with rclone.create(options(slow, short, "train.computation_time=0.05"), SPACE) as runner:
        assert not [problem for problem in runner.check() if problem.severity == "error"]
        runner.prepare()
        before, after = (runner.measure(config, LIMIT) for config in (SPACE.default, parallel))
    for outcome in (before, after):
        assert isinstance(outcome, Measurement), outcome
        assert int(str(outcome.evidence["bytes_from_store"])) >= 0.9 * 100 * (4 << 20)
        assert outcome.evidence["steps"] == 50
    assert isinstance(before, Measurement)
    assert isinstance(after, Measurement)
    print(f"utilisation {before.metrics['utilisation']:.1f} % -> {after.metrics['utilisation']:.1f} %")
    assert after.metrics["utilisation"] > before.metrics["utilisation"]


def test_accelerators_that_never_wait_keep_the_mount_as_it_is(slow: Store, short: Path) -> None:
    words = [*TUNE, "rclone", "--remote", "slow:data", "--config", str(slow.config), "--load", "unet3d", "--accelerators", "2"]
    for each in ("reader.batch_size=1", "reader.read_threads=2", "train.computation_time=1.5", "steps=12"):
        words += ["--load-option", each]
    words += ["--time", "10m", "--scratch", str(short), "--storage", str(short / "s.db"), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=290, check=False)
    assert done.returncode == 3, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    assert answer["decision"] == "keep"
    assert answer["reason"].startswith("not storage-bound: the accelerators compute")
    assert answer["trials"] == 3
    assert answer["metrics"]["utilisation"] >= 90


def test_several_hosts_train_at_the_same_time(slow: Store, short: Path, start: Start) -> None:
    """Both names are this machine, which needs no ssh: what is sent there runs from memory all the same."""
    from runners import rclone
    from spaces.rclone import SPACE

    own = options(slow, short, "train.computation_time=0.05")
    hosts = replace(own, hosts="localhost,127.0.0.1", python=sys.executable, accelerators=1, tune_reader=True)
    with rclone.create(hosts, SPACE) as runner:
        assert not [problem for problem in runner.check() if problem.severity == "error"]
        runner.prepare()
        assert {knob.name for knob in runner.space.knobs} - set(SPACE.default) == {
            "reader_read_threads",
            "reader_prefetch_size",
        }
        outcome = runner.measure({**runner.space.default, "reader_prefetch_size": 4}, LIMIT)
    assert isinstance(outcome, Measurement), outcome
    each: Any = outcome.evidence["hosts"]
    assert list(each) == ["localhost", "127.0.0.1"]
    for one in each.values():
        assert one["bytes_from_store"] >= 0.9 * 50 * (4 << 20)
        assert one["steps"] == 50
        assert one["reader"] == {"reader.read_threads": "1", "reader.prefetch_size": "4"}
    figures = [one["metrics"] for one in each.values()]
    assert outcome.metrics["samples_s"] == pytest.approx(sum(one["samples_s"] for one in figures))
    assert outcome.metrics["utilisation"] == min(one["utilisation"] for one in figures)
    assert not list(short.iterdir())
