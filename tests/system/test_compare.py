"""`tune compare aio` against the real ds_nvme_tune on a real file system: its answer, its hang, and Ctrl-C in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runners.aio.engines import deepspeed_loads
from runners.aio.software import find_op

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.root]

SWEEP = {"block_size": ["1M"], "sequential_requests": [False], "single_submit": [False]}
SMALL = ["--tensor-size", "4M", "--time", "20s", "--rounds", "5", "--ds-io-size", "8M"]


@pytest.fixture(scope="module")
def op() -> None:
    state = deepspeed_loads()
    if not state.loads:
        pytest.skip(f"ds_nvme_tune can't run: {state.reason}")


@pytest.fixture
def disk(make_mount: Any) -> Path:
    return Path(make_mount("a disk", size_mb=1000).path)


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


def sweep(folder: Path, **lists: list[int]) -> str:
    path = folder / "a sweep.json"
    path.write_text(json.dumps({**SWEEP, **lists}))
    return str(path)


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tuner", "compare", "aio", *arguments, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "CLUSTERTUNE_STORAGE": str(folder / "studies.db"), "PYTHONPATH": str(Path(__file__).parents[2])},
    )


def left_behind(disk: Path) -> list[str]:
    """What is on the disk, programs that still work there, and locks that would make the next load of the op wait."""
    found = [str(path) for path in disk.iterdir() if path.name != "lost+found"]
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if str((entry / "cwd").readlink()).startswith(str(disk)):
                    found.append((entry / "cmdline").read_text().replace("\0", " "))
            except OSError:
                continue
    return found + [str(lock) for lock in find_op().locks]


def test_the_real_tool_is_run_read_and_raced(op: None, disk: Path, tmp_path: Path) -> None:
    two = sweep(tmp_path, queue_depth=[8], io_parallel=[2, 4])
    process = start(tmp_path, "--device", str(disk), "--against", "ds-nvme-tune,random", "--ds-sweep-config", two, *SMALL)
    out, err = process.communicate(timeout=280)
    assert process.returncode == 0, err
    answer = json.loads(out)
    ours, tool, chance = answer["rows"]
    assert [ours["name"], tool["name"], chance["name"]] == ["ours", "ds-nvme-tune", "random"]
    assert tool["finished"], tool["note"]
    assert tool["tried"] == 2
    assert tool["bytes_written"] == (8 << 20) * (1 + 2 * 2), "the file to read, and two runs of two writes"
    assert tool["config"]["intra_op_parallelism"] in (2, 4)
    assert '"num_threads"' in tool["printed"]
    pasted = tool["pasted"]
    assert not pasted["loads"]
    assert "TypeError" in pasted["problem"]
    assert pasted["config"]["intra_op_parallelism"] == 1, "DeepSpeed ignores num_threads"
    assert set(answer["standings"]) == {"ours", "ds-nvme-tune", "ds-nvme-tune as printed", "random", "baseline"}
    assert all(told["value"]["value"] > 0 for told in answer["standings"].values())
    report = Path(answer["report"])
    assert report.parent == tmp_path
    assert "as printed" in report.read_text()
    assert left_behind(disk) == []


def test_a_hang_of_the_tool_ends_at_the_limit_and_is_told(op: None, disk: Path, tmp_path: Path) -> None:
    hangs = sweep(tmp_path, queue_depth=[8, 70000], io_parallel=[1])
    process = start(
        tmp_path, "--device", str(disk), "--against", "ds-nvme-tune", "--ds-sweep-config", hangs, "--budget", "60s", *SMALL
    )
    out, err = process.communicate(timeout=280)
    assert process.returncode == 0, err
    tool = json.loads(out)["rows"][1]
    assert not tool["finished"]
    assert 60 <= tool["seconds"] < 75
    assert "it hung: Assertion" in tool["note"]
    assert tool["config"]["queue_depth"] == 8, "the best of what it had"
    assert left_behind(disk) == []


def test_ctrl_c_while_the_tool_runs(op: None, disk: Path, tmp_path: Path, processes: list[subprocess.Popen[str]]) -> None:
    report = tmp_path / "r.md"
    process = start(tmp_path, "--device", str(disk), "--against", "ds-nvme-tune", "-o", str(report), *SMALL)
    processes.append(process)
    deadline = time.monotonic() + 120
    while not list(disk.glob(".clustertune-scratch-*/ds_nvme_tune/_aio_read_*")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    error = json.loads(out)["error"]
    assert error["kind"] == "interrupted"
    assert "--trials" in error["mend"]
    assert "| ours |" in report.read_text()
    assert left_behind(disk) == []


def test_a_place_for_the_report_is_looked_for_first(disk: Path, tmp_path: Path) -> None:
    process = start(tmp_path, "--device", str(disk), "-o", str(tmp_path / "none" / "r.md"))
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "--output" in json.loads(out)["error"]["message"]
    assert not (tmp_path / "studies.db").exists()
