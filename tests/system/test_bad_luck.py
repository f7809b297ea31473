"""What bad luck gets, with the real command on a real file system: nothing finished is lost, nothing of ours is left."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.system, pytest.mark.root]

LEFTOVERS = ".clustertune-scratch-*"
SMALL = ["--tensor-size", "4M", "--engine", "native", "--time", "25s", "--trials", "40"]


class Run:
    """One `tune` process whose events the test reads while it goes."""

    def __init__(self, arguments: list[str], environment: dict[str, str]) -> None:
        command = [sys.executable, "-m", "tuner", *arguments, "--events", "--json"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
        )
        self.events: list[dict[str, Any]] = []
        self.other: list[str] = []

    def until(self, name: str, count: int = 1) -> None:
        """Reads events until ``count`` of that name were seen."""
        assert self.process.stderr is not None
        seen = sum(event["event"] == name for event in self.events)
        while seen < count:
            line = self.process.stderr.readline()
            assert line, f"ended with {self.process.wait()} before {count} {name}: {self.other}"
            seen += self._keep(line) == name

    def end(self, limit: float = 120) -> tuple[int, dict[str, Any]]:
        """Waits, and returns the exit code and the printed object; a traceback fails the test."""
        out, err = self.process.communicate(timeout=limit)
        for line in err.splitlines():
            self._keep(line)
        assert not any("Traceback" in line for line in self.other), "\n".join(self.other)
        return self.process.returncode, json.loads(out) if out.strip() else {}

    def _keep(self, line: str) -> str:
        try:
            self.events.append(json.loads(line))
        except ValueError:
            self.other.append(line)
            return ""
        return str(self.events[-1]["event"])

    @property
    def study(self) -> str:
        return str(next(event["study"] for event in self.events if event["event"] == "started"))

    def children(self) -> list[int]:
        return [int(pid) for pid in subprocess.run(
            ["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True, check=False
        ).stdout.split()]  # fmt: skip


Start = Callable[..., Run]


@pytest.fixture
def disk(make_mount: Any) -> Path:
    return Path(make_mount("a disk é", size_mb=400).path)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    runs: list[Run] = []
    environment = {**os.environ, "CLUSTERTUNE_STORAGE": str(tmp_path / "studies.db")}

    def begin(*arguments: str, **more: str) -> Run:
        runs.append(Run(list(arguments), {**environment, **more}))
        return runs[-1]

    yield begin
    for run in runs:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.process.pid, signal.SIGKILL)
        run.process.communicate()


def gone(pids: list[int], limit: float = 10) -> bool:
    """Whether every process ends within ``limit`` seconds."""
    deadline = time.monotonic() + limit
    while any(Path(f"/proc/{pid}").exists() and _state(pid) != "Z" for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _state(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    return "Z"


def finished(path: Path) -> int:
    """Measurements that the study file holds with an outcome."""
    with contextlib.closing(sqlite3.connect(path)) as raw:
        return int(raw.execute("SELECT count(*) FROM trial_user_attributes WHERE key = 'outcome'").fetchone()[0])


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted(disk: Path, start: Start, tmp_path: Path, how: signal.Signals) -> None:
    run = start("aio", "--device", str(disk), *SMALL)
    run.until("measured", 8)
    workers = run.children()
    assert workers
    run.process.send_signal(how)
    code, answer = run.end(30)
    assert (code, answer["error"]["kind"]) == (130, "interrupted")
    assert answer["error"]["mend"] == f"tune resume {run.study}"
    assert not list(disk.glob(LEFTOVERS))
    assert gone(workers)
    kept = finished(tmp_path / "studies.db")
    assert kept >= 8
    again = start("resume", run.study)
    code, answer = again.end()
    assert code in (0, 3), answer
    assert answer["study"] == run.study
    assert next(e for e in again.events if e["event"] == "resumed")["trials"] == kept
    assert answer["trials"] + 1 > kept


def test_interrupted_twice_by_an_impatient_user(disk: Path, start: Start) -> None:
    run = start("aio", "--device", str(disk), *SMALL)
    run.until("measured", 5)
    workers = run.children()
    for _ in range(4):
        run.process.send_signal(signal.SIGINT)
        time.sleep(0.02)
    code, _ = run.end(30)
    assert code == 130
    assert not list(disk.glob(LEFTOVERS))
    assert gone(workers)


@pytest.mark.parametrize(("event", "count"), [("started", 1), ("measuring", 1), ("measured", 9), ("measured", 32)])
def test_killed_at_any_point_the_study_goes_on(disk: Path, start: Start, tmp_path: Path, event: str, count: int) -> None:
    run = start("aio", "--device", str(disk), *SMALL)
    run.until(event, count)
    workers = run.children()
    run.process.kill()
    run.process.wait()
    assert gone(workers), "the workers die with the process that owns them"
    kept = finished(tmp_path / "studies.db")
    again = start("resume", run.study)
    code, answer = again.end()
    assert code in (0, 3), answer
    assert not list(disk.glob(LEFTOVERS)), "the next start clears what the killed one left"
    assert answer["trials"] + 1 > kept
    assert finished(tmp_path / "studies.db") >= kept


def test_a_worker_that_aborts_costs_one_measurement(disk: Path, start: Start) -> None:
    run = start("aio", "--device", str(disk), *SMALL)
    run.until("measured", 10)
    for worker in run.children():
        os.kill(worker, signal.SIGABRT)
    code, answer = run.end()
    assert code in (0, 3), answer
    assert answer["failures"].get("crash", 0) <= 2
    assert not list(disk.glob(LEFTOVERS))


@pytest.mark.slow
def test_a_worker_that_hangs_is_killed_at_its_limit(disk: Path, start: Start) -> None:
    run = start("aio", "--device", str(disk), *[*SMALL[:4], "--time", "70s", "--trials", "40"])
    run.until("measured", 12)
    [worker] = run.children()
    os.kill(worker, signal.SIGSTOP)
    code, answer = run.end(150)
    assert code in (0, 3), answer
    assert answer["failures"].get("timeout") == 1
    assert gone([worker])
    assert not list(disk.glob(LEFTOVERS))


def test_a_disk_that_fills_up(disk: Path, start: Start) -> None:
    run = start("aio", "--device", str(disk), "--workload", "checkpoint", *SMALL)
    run.until("measured", 6)
    run.process.send_signal(signal.SIGSTOP)  # it must not be done before the disk is full
    hog = disk / "somebody else's data"
    for size in (1 << 20, 4096):
        with contextlib.suppress(OSError), hog.open("ab", buffering=0) as file:
            while True:
                file.write(b"x" * size)
    run.process.send_signal(signal.SIGCONT)
    code, answer = run.end(60)
    assert code == 4, answer
    assert "full" in answer["error"]["message"]
    assert not list(disk.glob(LEFTOVERS))
    assert hog.exists()
    hog.unlink()
    code, answer = start("resume", run.study).end()
    assert code in (0, 3), answer


def test_a_second_run_on_the_same_device_names_the_first(disk: Path, start: Start) -> None:
    (disk / "other").mkdir()
    run = start("aio", "--device", str(disk), *SMALL)
    run.until("measured", 3)
    second = start("aio", "--device", str(disk / "other"), *SMALL)
    code, answer = second.end(30)
    assert code == 4
    assert str(run.process.pid) in answer["error"]["message"]
    code, _ = run.end()
    assert code in (0, 3)


_JUMPING_CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
/* The wall clock, and it alone, shifted by the seconds that a file names at each call. */
static long shift(void) {
    long seconds = 0;
    FILE *file = fopen(getenv("CLOCK_SHIFT"), "r");
    if (file) { if (fscanf(file, "%ld", &seconds) != 1) seconds = 0; fclose(file); }
    return seconds;
}
int clock_gettime(clockid_t clock, struct timespec *now) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    if (clock == CLOCK_REALTIME) now->tv_sec += shift();
    return result;
}
"""


def test_a_clock_that_jumps(disk: Path, start: Start, tmp_path: Path) -> None:
    """A year forwards and two back while it runs; the budget counts on another clock."""
    source, library, shift = (tmp_path / name for name in ("clock.c", "clock.so", "shift"))
    source.write_text(_JUMPING_CLOCK)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    shift.write_text("0")
    environment = {"LD_PRELOAD": str(library), "CLOCK_SHIFT": str(shift)}
    year = 365 * 86400
    now = [sys.executable, "-c", "import time; print(time.time())"]
    shift.write_text(str(year))
    shown = float(subprocess.run(now, env={**os.environ, **environment}, capture_output=True, check=True).stdout)
    assert shown > time.time() + year / 2, "the clock does not jump"
    shift.write_text("0")
    run = start("aio", "--device", str(disk), *SMALL, **environment)
    run.until("measured", 5)
    shift.write_text(str(year))
    run.until("measured", 15)
    shift.write_text(str(-year))
    code, answer = run.end()
    assert code in (0, 3), answer
    assert 0 < answer["seconds"] < 60
    assert answer["trials"] > 20


def test_the_study_file_on_a_read_only_file_system(disk: Path, start: Start, make_mount: Any) -> None:
    frozen = make_mount("frozen", size_mb=20)
    (frozen.path / "studies.db").write_bytes(b"")
    subprocess.run(["mount", "-o", "remount,ro", frozen.path], check=True)
    code, answer = start("aio", "--device", str(disk), *SMALL, CLUSTERTUNE_STORAGE=str(frozen.path / "studies.db")).end(30)
    assert (code, answer["error"]["kind"]) == (2, "usage")
    assert "--storage" in answer["error"]["message"]
    assert not list(disk.glob(LEFTOVERS))


def test_the_study_file_s_own_disk_fills_up(disk: Path, start: Start, make_mount: Any) -> None:
    small = make_mount("small", size_mb=3)
    where = str(small.path / "studies.db")
    run = start("aio", "--device", str(disk), *SMALL, CLUSTERTUNE_STORAGE=where)
    run.until("measured", 4)
    hog = small.path / "hog"
    with contextlib.suppress(OSError), hog.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    code, answer = run.end(60)
    assert code == 4, answer
    assert "studies can't be kept" in answer["error"]["message"]
    assert not list(disk.glob(LEFTOVERS))
    hog.unlink()
    code, answer = start("resume", run.study, CLUSTERTUNE_STORAGE=where).end()
    assert code in (0, 3), answer


def test_resume_refuses_another_machine_unless_told(disk: Path, start: Start, tmp_path: Path) -> None:
    run = start("aio", "--device", str(disk), *SMALL)
    run.until("measured", 5)
    run.process.send_signal(signal.SIGINT)
    run.end(30)
    with contextlib.closing(sqlite3.connect(tmp_path / "studies.db")) as raw:
        raw.execute("""UPDATE study_user_attributes SET value_json = replace(value_json, '"host": "', '"host": "not-')""")
        raw.commit()
    code, answer = start("resume", run.study).end(30)
    assert code == 2
    assert "another machine" in answer["error"]["message"]
    code, answer = start("resume", run.study, "--anyway").end()
    assert code in (0, 3), answer
