"""Starts that are hit while they run, and the whole command: failures with reasons, nothing left running."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runners.process import descendants
from runners.runner import Failure
from runners.tcpstore import network
from runners.tcpstore.job import Job
from runners.tcpstore.starting import started
from runners.tcpstore.switches import Row, attempts, known, start
from runners.worker import Worker, gather

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "tcpstore"
INSIDE = {"hosts": "127.0.0.1 localhost\n::ffff:127.0.0.1 localhost\n", "nsswitch": "hosts: files\n"}


@pytest.fixture
def worker() -> Iterator[Worker]:
    made, _ = started()
    yield made
    made.close()


def a_job(**changes: object) -> Job:
    given = {
        "backend": "libuv", "barrier": "keys", "host": "127.0.0.1", "start": "server_first", "clients": 8, "processes": 7,
        "rounds": 1, "barriers": 1, "timeout": 40.0,
    }  # fmt: skip
    return Job.of({**given, **changes})


def until_children(worker: Worker, count: int) -> list[int]:
    deadline = time.monotonic() + 30
    while len(found := sorted(descendants(worker.pid))) < count:
        assert time.monotonic() < deadline, found
        time.sleep(0.01)
    return found


def failure(worker: Worker) -> dict[str, str]:
    (reply,) = gather([worker], 60.0)
    assert not isinstance(reply, Failure), reply
    found = reply["failure"]
    assert isinstance(found, dict)
    assert descendants(worker.pid) == []
    return {name: str(value) for name, value in found.items()}


def still_works(worker: Worker) -> None:
    reply = worker.call({"do": "measure", **a_job(clients=3, processes=2).json()}, 60.0)
    assert not isinstance(reply, Failure)
    assert "starts" in reply, reply


@pytest.mark.parametrize("form", ["keys", "store_barrier"])
def test_client_killed_in_a_barrier(worker: Worker, form: str) -> None:
    (port,) = network.free_ports(1)
    job = a_job(barrier=form, port=port, late_rank=3, late_seconds=60.0)
    worker.send({"do": "measure", **job.json()})
    victim = until_children(worker, 8)[-1]
    until_listening(port)
    # All but the late one wait in the barrier by then: the store counts them.
    watch = [sys.executable, str(DATA / "watch.py"), "127.0.0.1", str(port), "barrier/0", "7"]
    subprocess.run(watch, check=True, timeout=100)
    os.kill(victim, signal.SIGKILL)
    found = failure(worker)
    assert found["kind"] == "crash"
    assert found["reason"] == "the process of rank 7 was ended by SIGKILL in a barrier"
    still_works(worker)


def until_listening(port: int) -> None:
    deadline = time.monotonic() + 30
    while not network.listens(port):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_server_killed_while_clients_join(worker: Worker) -> None:
    (port,) = network.free_ports(1)
    # One client never joins, so that all the others wait in their joining, rank 0 too.
    worker.send({"do": "measure", **a_job(port=port, late_rank=3, late_seconds=60.0, late_to="join").json()})
    server = until_children(worker, 1)[0]
    until_listening(port)
    time.sleep(0.5)
    os.kill(server, signal.SIGKILL)
    found = failure(worker)
    assert found["kind"] == "crash"
    assert found["reason"] == "rank 0, the server, was ended by SIGKILL while it joined"
    still_works(worker)


def test_nothing_is_left_when_the_worker_is_killed(worker: Worker) -> None:
    worker.send({"do": "measure", **a_job(late_rank=3, late_seconds=60.0).json()})
    children = until_children(worker, 8)
    os.kill(worker.pid, signal.SIGKILL)
    (reply,) = gather([worker], 30.0)
    assert isinstance(reply, Failure)
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_too_long_is_a_timeout_that_says_how_many_came(worker: Worker) -> None:
    reply = worker.call({"do": "measure", **a_job(late_rank=3, late_seconds=60.0, timeout=2.0).json()}, 60.0)
    assert isinstance(reply, dict)
    found = reply["failure"]
    assert isinstance(found, dict)
    assert found["kind"] in ("timeout", "crash")
    assert descendants(worker.pid) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "attempt",
    [
        ("env", {"USE_LIBUV": "True"}, "", ()),
        ("tcp", {"USE_LIBUV": "0"}, "use_libuv=1", ()),
        ("torchrun --rdzv-backend=c10d", {"USE_LIBUV": "0"}, "", ()),
        ("torchrun --rdzv-backend=c10d", {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "USE_LIBUV": "0"}, "", ()),
        ("torchrun --rdzv-backend=c10d", {}, "", ("--use_libuv=False",)),
    ],
)
def test_recorded_switches_are_what_this_torch_obeys(attempt) -> None:  # type: ignore[no-untyped-def]
    rows = known(_torch())
    if rows is None:
        pytest.skip("this torch was not recorded; python -m runners.tcpstore.switches --module records it")
    assert attempt in attempts()
    now = start(attempt)
    (before,) = [row for row in rows if _what(row) == _what(now)]
    assert now.server == before.server


def _what(row: Row) -> tuple[object, ...]:
    return row.launch, tuple(sorted(row.variables.items())), row.url, tuple(row.options)


def _torch() -> str:
    from runners.tcpstore.starting import torch_version

    version = torch_version()
    assert version is not None
    return version


def tune(tmp_path: Path, *arguments: str, limit: float = 280) -> tuple[int, dict[str, object], str]:
    """The real command inside namespaces in which names cost nothing."""
    if os.geteuid() != 0:
        pytest.skip("needs root for namespaces")
    command = ["unshare", "--net", "--mount", sys.executable, str(DATA / "inside.py"), json.dumps(INSIDE)]
    command += [sys.executable, "-m", "tuner", *arguments, "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CLUSTERTUNE_STORAGE": str(tmp_path / "studies.db")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False, env=environment)
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


@pytest.mark.slow
@pytest.mark.root
def test_tune_tcpstore_answers(tmp_path: Path) -> None:
    code, answer, _ = tune(
        tmp_path, "tcpstore", "--world-size", "8", "--time", "150s", "--start", "together,listening", "--barrier", "keys",
        "--address", "name", "--predict", "4096",
    )  # fmt: skip
    assert code in (0, 3), answer
    assert answer["target"] == "tcpstore"
    metrics, evidence = answer["metrics"], answer["evidence"]
    assert isinstance(metrics, dict)
    assert isinstance(evidence, dict)
    assert metrics["startup_ms"] > 0
    assert evidence["measured"]["server"] == answer["recommended"]["backend"]  # type: ignore[index]
    assert evidence["measured"]["prediction"]["extrapolated"] is True
    assert any("4096 ranks, extrapolated and not measured" in each for each in answer["warnings"])  # type: ignore[attr-defined]
    if code == 0:
        assert "CLUSTERTUNE_START=listening" in answer["files"]["tcpstore.env"]  # type: ignore[index]


@pytest.mark.root
def test_too_many_is_refused_before_anything_starts(tmp_path: Path) -> None:
    code, answer, _ = tune(tmp_path, "tcpstore", "--world-size", "1000000")
    assert code == 4
    error = answer["error"]
    assert isinstance(error, dict)
    assert "1000000" in error["message"]
    assert "--predict 1000000" in error["mend"]


@pytest.mark.root
@pytest.mark.parametrize(
    ("number", "code", "after"), [(signal.SIGINT, 130, 4), (signal.SIGTERM, 130, 4), (signal.SIGKILL, -9, 4096)]
)
def test_raised_backlogs_are_put_back_at_the_next_start_at_the_latest(
    number: int, code: int, after: int, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root for namespaces")
    command = ["unshare", "--net", "--mount", sys.executable, str(DATA / "inside.py"), json.dumps({**INSIDE, "somaxconn": 4})]
    command += [sys.executable, str(DATA / "killed.py"), str(int(number))]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "CLUSTERTUNE_STORAGE": str(tmp_path / "studies.db"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False, env=environment)
    assert "Traceback" not in done.stderr, done.stderr
    assert json.loads(done.stdout) == {"code": code, "after": after, "next": 5, "then": 4}, done.stderr
    assert "somaxconn after 4\n" in done.stderr
    assert list((tmp_path / "state").rglob("*.json")) == []


@pytest.mark.root
def test_no_rights_to_raise_backlogs_are_one_sentence(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root for namespaces")
    # As in most containers: the files of the kernel's settings are there and can't be written.
    inside = ["mount", "-o", "bind,ro", "/proc/sys", "/proc/sys"]
    script = f'{shlex.join(inside)} && exec {shlex.join([sys.executable, "-m", "tuner"])} "$@"'
    command = ["unshare", "--net", "--mount", sys.executable, str(DATA / "inside.py"), json.dumps({**INSIDE, "somaxconn": 4})]
    command += ["sh", "-c", script, "sh", "tcpstore", "--world-size", "8", "--system", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CLUSTERTUNE_STORAGE": str(tmp_path / "studies.db")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, env=environment)
    assert done.returncode == 4, done.stdout + done.stderr
    error = json.loads(done.stdout)["error"]
    assert error["message"] == "--system: net.core.somaxconn is 4 and this user may not change it"
    assert error["mend"] == "as root there, or without --system"


@pytest.mark.slow
@pytest.mark.root
def test_example_of_a_start_script(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root for namespaces")
    script = ROOT / "examples" / "tcpstore" / "tune.sh"
    command = ["unshare", "--net", "--mount", sys.executable, str(DATA / "inside.py"), json.dumps(INSIDE), str(script)]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "RANKS": "4", "TIME": "120s"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "only 1 selects libuv" in done.stdout
    assert "torch reads MASTER_ADDR" in done.stdout
    assert "\nUSE_LIBUV=" in done.stdout
    assert (script.parent / "start_job.sh").read_text().count("USE_LIBUV=True") == 1
