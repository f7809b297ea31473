"""The MLPerf example runs as it stands."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runners.mlperf.installed import find_dlio
from runners.runner import EnvironmentProblem

SCRIPT = Path(__file__).parents[2] / "examples" / "mlperf" / "run.sh"


@pytest.mark.system
def test_the_example_goes_the_whole_way(tmp_path: Path) -> None:
    try:
        find_dlio()
    except EnvironmentProblem as problem:
        pytest.skip(f"{problem.message} ({problem.mend})")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "TMPDIR": str(tmp_path), "RUNS": "1"}
    done = subprocess.run([SCRIPT], capture_output=True, text=True, check=False, env=environment, cwd=tmp_path, timeout=280)
    assert done.returncode == 0, done.stderr
    assert "500 steps an epoch decides" in done.stdout or "five times the memory" in done.stdout
    assert "bound by" in done.stdout
    assert "1 run found" in done.stdout
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())
