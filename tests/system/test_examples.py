"""Every example runs as it stands."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "examples").glob("*/tune.sh"))


@pytest.mark.system
@pytest.mark.root
@pytest.mark.parametrize("script", [s for s in SCRIPTS if s.parent.name == "aio"], ids=lambda script: script.parent.name)
def test_example(script: Path, make_mount: Any, tmp_path: Path) -> None:
    disk = make_mount("disk", size_mb=900)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "TIME": "20s"}
    done = subprocess.run(
        [script, disk.path], capture_output=True, text=True, check=False, env=environment, cwd=tmp_path, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert "thread_count" in done.stdout, "the stale key is found"
    assert '"intra_op_parallelism"' in done.stdout[-600:]
    assert "Traceback" not in done.stderr
    assert not list(disk.path.glob(".clustertune-scratch-*"))


def test_every_target_has_an_example() -> None:
    from tuner import targets

    assert {script.parent.name for script in SCRIPTS} == set(targets.names())
