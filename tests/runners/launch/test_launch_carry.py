"""Modules of ours on a Python that has none of them: sent as text, imported from memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from runners.launch import carry
from runners.tcpstore.seat import CARRIED

BARE = (sys.executable, "-I", "-S")  # no site-packages: nothing of ours is installed there


def run(module: str, modules: tuple[str, ...], lines: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [*BARE, *carry.argv("python", module)[1:]]
    text = f"{carry.texts(modules)}\n{lines}"
    return subprocess.run(command, input=text, capture_output=True, text=True, cwd=cwd, timeout=60, check=False)


def test_a_module_and_what_it_imports_run_from_memory(tmp_path: Path) -> None:
    (tmp_path / "spaces").mkdir()
    (tmp_path / "spaces" / "units.py").write_text("raise SystemExit('the folder of the user was looked into')")
    done = run("runners.tcpstore.there", CARRIED, '{"do": "clock"}\n', tmp_path)
    assert done.stderr == ""
    facts, clock = map(json.loads, done.stdout.splitlines())
    assert facts["python"] == sys.executable
    assert clock["clock"] > 0


def test_a_module_that_was_not_sent_is_missed(tmp_path: Path) -> None:
    done = run("runners.tcpstore.there", tuple(each for each in CARRIED if not each.endswith(".crowd")), "", tmp_path)
    assert "No module named 'runners.tcpstore.crowd'" in done.stderr


def test_a_traceback_names_the_module(tmp_path: Path) -> None:
    done = run("runners.tcpstore.there", CARRIED, '{"do": "names"}\n', tmp_path)
    assert 'File "<runners.tcpstore.there>", line ' in done.stderr


def test_what_is_needed_is_all_that_is_imported_at_any_time(tmp_path: Path) -> None:
    needed = carry.needed(("runners.tcpstore.there",))
    assert set(needed) >= set(CARRIED)
    assert "runners.packages" in carry.needed(("runners.mount.programs",))  # imported by a function
    assert not [name for name in needed if name.split(".")[0] not in ("runners", "spaces")]
    done = run("runners.tcpstore.there", needed, '{"do": "clock"}\n', tmp_path)
    assert done.stderr == ""


def test_a_carried_module_starts_workers_and_they_are_carried_too(tmp_path: Path) -> None:
    """The child has none of our modules either: the line that carried its parent is said to it."""
    code = (
        "import json, sys\nfrom runners.worker import Worker\n"
        "worker = Worker('runners.mount.loads.torch_child')\n"
        "print(json.dumps(worker.call({'files': [], 'shuffle': False, 'fill': False, 'seconds': 0}, 30)))\nworker.close()\n"
    )
    texts = carry.texts(carry.needed(("runners.mount.loads.torch_child",)))
    boot = carry.argv("python", "x")[2].replace('runpy.run_module(sys.argv[1], run_name="__main__", alter_sys=True)', code)
    done = subprocess.run(
        [*BARE, "-c", boot], input=texts + "\n", capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False
    )
    assert done.stderr == ""
    assert json.loads(done.stdout) == {"epochs": []}


def test_the_texts_fit_into_a_line_that_every_pipe_takes() -> None:
    assert len(carry.texts(CARRIED)) < 1 << 17
    assert "\n" not in carry.texts(CARRIED)
