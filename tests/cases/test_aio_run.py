"""Cases of users who ran a tuner on a disk, with the real command: what they had, and the right answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.system, pytest.mark.root]
QUICK = ("--engine", "native", "--tensor-size", "2M", "--trials", "24", "--time", "30s", "--json")


def tune(tmp_path: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    environment = {**os.environ, "CLUSTERTUNE_STORAGE": str(tmp_path / "studies.db")}
    command = [sys.executable, "-m", "tuner", "aio", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


def test_case_raw_device(make_mount: Any, tmp_path: Path) -> None:
    disk = make_mount("disk")
    before = subprocess.run(["md5sum", disk.device], capture_output=True, check=True).stdout
    code, answer, _ = tune(tmp_path, "--device", disk.device, *QUICK)
    assert (code, answer["error"]["kind"]) == (2, "usage")
    message = answer["error"]["message"]
    assert message.startswith(f"--device {disk.device}: ")
    assert str(disk.path) in message, "the mount point is named"
    assert subprocess.run(["md5sum", disk.device], capture_output=True, check=True).stdout == before


def test_case_path_with_space(make_mount: Any, tmp_path: Path) -> None:
    disk = make_mount("a folder", size_mb=200)
    folder = disk.path / "nvmé"
    folder.mkdir()
    code, answer, _ = tune(tmp_path, "--device", str(folder), *QUICK)
    assert code in (0, 3), answer
    assert list(folder.iterdir()) == []


def test_case_read_only_run(make_mount: Any, tmp_path: Path) -> None:
    disk = make_mount("disk", size_mb=200)
    code, answer, _ = tune(tmp_path, "--device", str(disk.path), "--workload", "param", *QUICK)
    assert code in (0, 3), answer
    assert answer["metrics"]["effective_gbs"] == answer["metrics"]["read_gbs"]
    assert "write_gbs" not in answer["metrics"]
    assert any("writes were not measured" in warning for warning in answer["warnings"])
    assert answer["bytes_written"] <= 200 << 20, "the work file is the only write"


def test_case_full_disk_is_refused_with_the_size_it_takes(make_mount: Any, tmp_path: Path) -> None:
    disk = make_mount("disk", size_mb=100)
    code, answer, _ = tune(tmp_path, "--device", str(disk.path), "--engine", "native", "--tensor-size", "64M", "--json")
    assert code == 4
    assert "free" in answer["error"]["message"]
    assert not list(disk.path.glob(".clustertune*"))
