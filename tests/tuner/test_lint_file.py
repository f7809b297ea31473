"""Files are linted by the exporter that knows them, and mended on disk with a backup."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.errors import WrongUsage
from tuner.lint import fix_file, lint_file

DATA = Path(__file__).parents[1] / "data" / "aio"
PRESENT = {"deepspeed_version": "0.19.0"}


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "-my ünal config.json"
    shutil.copy(DATA / "ds_printed.json", path)
    return path


def test_linting_writes_nothing(config):
    before = config.stat()
    linted = lint_file(config, PRESENT)
    assert linted.target == "aio"
    assert [finding.line for finding in linted.findings] == [4, 5, 6]
    assert '+    "intra_op_parallelism": 2,' in linted.diff
    assert (config.stat().st_ino, config.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert linted.json()["findings"][2] == {
        "line": 6,
        "key": "aio.num_threads",
        "message": linted.findings[2].message,
        "mend": "rename it to intra_op_parallelism",
        "safe": True,
    }


def test_fixing_keeps_a_backup(config):
    old = config.read_bytes()
    fixed = fix_file(config, PRESENT)
    assert fixed.backup == config.with_name(config.name + ".bak")
    assert fixed.backup.read_bytes() == old
    assert fixed.left == ()
    assert len(fixed.json()["fixed"]) == 3
    assert lint_file(config, PRESENT).findings == ()
    again = fix_file(config, PRESENT)
    assert (again.backup, again.diff, again.findings) == (None, "", ())


def test_a_file_with_nothing_safe_is_not_touched(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"aio": {"block_size": 1000}}')
    fixed = fix_file(path, PRESENT)
    assert fixed.left == fixed.findings
    assert len(fixed.left) == 1
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_no_target_knows(tmp_path):
    path = tmp_path / "package.json"
    path.write_text('{"name": "x"}')
    with pytest.raises(WrongUsage, match="no settings file of a known target"):
        lint_file(path)
    assert lint_file(path, target="aio").findings == ()
    with pytest.raises(WrongUsage, match="no target"):
        lint_file(path, target="nonsense")
    with pytest.raises(WrongUsage, match="does not exist"):
        lint_file(tmp_path / "missing.json")


@pytest.mark.parametrize(("text", "line"), [("[]", 1), ('"aio"', 1), ("null", 1), ('{\n"a": }', 2), ("", 1)])
def test_a_json_file_that_holds_no_object_is_a_finding(tmp_path, text, line):
    path = tmp_path / "my.json"
    path.write_text(text)
    (found,) = lint_file(path).findings
    assert (found.line, found.key, found.safe) == (line, "", False)
    command = [sys.executable, "-m", "tuner", "lint", path.name]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=_environment())
    assert run.returncode == 1, run.stderr
    assert run.stdout.splitlines()[0] == f"my.json:{line}"


def _environment():
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


def test_options_of_the_user_count_more_than_the_machine(tmp_path):
    path = tmp_path / "ds.json"
    shutil.copy(DATA / "ds_old.json", path)
    assert lint_file(path, {"deepspeed_version": "0.15.0"}).findings == ()
    assert len(lint_file(path, {"deepspeed_version": "0.16.4"}).findings) == 1


def test_linting_loads_nothing_heavy():
    code = (
        "import sys; from pathlib import Path; from tuner.lint import lint_file; lint_file(Path(sys.argv[1]));"
        "print([m for m in ('numpy', 'optuna', 'torch', 'deepspeed', 'rich', 'scipy', 'sklearn') if m in sys.modules])"
    )
    root = Path(__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-c", code, str(DATA / "ds_old.json")], capture_output=True, text=True, cwd=root, check=True
    )
    assert run.stdout.strip() == "[]"
