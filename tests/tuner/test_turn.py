"""A study is run by one process at a time, and is free again however that process ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.errors import WrongUsage
from tuner.turn import lock_file, turn

HOLDER = (
    "import sys\nfrom tuner.turn import turn\n"
    "with turn(sys.argv[1], sys.argv[2]):\n    print('mine', flush=True)\n    sys.stdin.read()\n"
)


def test_a_study_that_is_being_run_is_refused_and_free_after_a_kill(tmp_path: Path) -> None:
    storage = tmp_path / "studies.db"
    (tmp_path / "link").symlink_to(tmp_path)
    command = [sys.executable, "-c", HOLDER, str(storage), "one"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "mine\n"
        for spelled in (str(storage), str(tmp_path / "link" / "studies.db"), os.path.relpath(storage)):
            with pytest.raises(WrongUsage, match="study one is being run by another process"), turn(spelled, "one"):
                pass
        with turn(str(storage), "two"), turn(str(tmp_path / "other.db"), "one"):
            pass
        holder.kill()
    with turn(str(storage), "one"):
        pass
    assert not lock_file(str(storage), "one").exists(), "no file stays"


def test_turns_follow_each_other(tmp_path: Path) -> None:
    """A second one that begins while the first ends waits for it and gets the turn."""
    storage = str(tmp_path / "studies.db")
    code = (
        "import sys, time\nfrom tuner.turn import turn\n"
        "for _ in range(20):\n    with turn(sys.argv[1], 'one'):\n"
        "        with open(sys.argv[2], 'x'):\n            time.sleep(0.01)\n"
        "        import os; os.unlink(sys.argv[2])\n"
    )
    both = [subprocess.Popen([sys.executable, "-c", code, storage, str(tmp_path / "held")]) for _ in range(2)]
    assert [process.wait(60) for process in both] == [0, 0]
