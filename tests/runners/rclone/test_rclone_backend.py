"""rclone as a program: versions, the mount's command line, what is missing."""

from pathlib import Path

import pytest

from runners.mount.programs import last_line
from runners.mount.work import Bounds, Work
from runners.rclone.backend import RcloneBackend
from runners.rclone.options import Options
from runners.runner import EnvironmentProblem, UsageError
from spaces.rclone import SPACE


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program that says it is an rclone of another version."""
    path = tmp_path / "rclone"
    path.write_text("#!/bin/sh\necho 'rclone v1.60.1-DEV'\n")
    path.chmod(0o755)
    return path


def test_an_old_rclone_is_refused_with_its_mend(program: Path) -> None:
    backend = RcloneBackend(Options(remote="store:x", rclone=str(program)))
    (found,) = [problem for problem in backend.problems() if problem.id == "old"]
    assert found.severity == "error"
    assert found.message == "rclone 1.60.1 has no --vfs-read-chunk-streams, and 1.68 or newer is needed"
    assert backend.facts() == {"rclone": "1.60.1", "remote": "store:x"}


def test_the_mount_is_read_only_and_asks_nobody(program: Path, tmp_path: Path) -> None:
    (tmp_path / "r.conf").write_text("")
    backend = RcloneBackend(Options(remote="store:x y", rclone=str(program), config=str(tmp_path / "r.conf")))
    (tmp_path / "own").mkdir()
    backend.prepare(tmp_path / "own", warm=False)
    words = backend.command(SPACE.default, Path("/m"), Path("/s"), Path("/c"))
    assert words[:4] == [str(program), "mount", "store:x y", "/m"]
    assert {"--read-only", "--ask-password=false", "--vfs-cache-mode=off", "--rc-addr=unix:///s"} <= set(words)
    assert f"--config={tmp_path}/r.conf" in words
    assert "--buffer-size=16M" in words


def test_a_path_too_long_for_a_socket_has_a_mend(program: Path, tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 90)
    deep.mkdir()
    with pytest.raises(EnvironmentProblem) as caught:
        RcloneBackend(Options(remote="store:x", rclone=str(program))).prepare(deep, warm=False)
    assert "--scratch" in caught.value.mend


def test_what_is_named_must_be_there(program: Path) -> None:
    with pytest.raises(UsageError, match="--config /no/such: is no file"):
        RcloneBackend(Options(remote="store:x", config="/no/such"))
    with pytest.raises(UsageError, match="--rclone /no/such: is no program"):
        RcloneBackend(Options(remote="store:x", rclone="/no/such"))
    with pytest.raises(UsageError, match="--remote ''"):
        RcloneBackend(Options())


def test_the_space_knows_the_memory(program: Path) -> None:
    backend = RcloneBackend(Options(remote="store:x", rclone=str(program)))
    space = backend.space(SPACE, Bounds(Work(), open_files=64, memory=512 << 20))
    assert "64 open files" in space.broken(SPACE.default)[0]


def test_paths_are_named_from_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A study goes on in other folders, and a unit has none."""
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    options = Options(remote="data", config="r.conf")
    assert (options.remote, options.config) == (f"{tmp_path}/data", f"{tmp_path}/r.conf")
    assert Options(remote="store:data").remote == "store:data"
    assert Options() == Options(remote="", config="")


def test_another_program_is_not_taken_for_rclone(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    found = {each.id: each for each in RcloneBackend(Options(rclone=str(other)), doctor=True).problems()}
    assert found["program"].severity == "error"
    assert "is not rclone" in found["program"].message
    other.write_text("#!/bin/sh\necho rclone DEV\n")
    found = {each.id: each for each in RcloneBackend(Options(rclone=str(other)), doctor=True).problems()}
    assert found["version"].severity == "warning"


def test_a_line_of_the_configuration_is_not_repeated() -> None:
    said = last_line('CRITICAL: Failed to load config file "r.conf": could not parse line: secret_access_key not-to-be-shown')
    assert said.endswith("could not parse line: …")
