"""Finding DLIO and what it knows in another Python, and the libraries that its ranks need, without importing it."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from runners.launch.mpi import Mpi
from runners.launch.mpirun import Mpirun
from runners.mlperf import installed, launching
from runners.mlperf.installed import Dlio, find_dlio
from runners.mlperf.launching import environment, find_launcher
from runners.runner import EnvironmentProblem, UsageError

CONFIG = """
if 'record_length' in config['dataset']:
    pass
if 'read_threads' in reader:
    pass
"""
MODULES = ("mpi4py", "hydra", "omegaconf", "pandas", "h5py", "PIL", "psutil", "numpy", "dftracer", "torch")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the asked Python looks into first, and no other: with a DLIO whose import would end the program."""
    folder = tmp_path / "site"
    package = folder / "dlio_benchmark"
    for name in ("utils", "profiler"):
        (package / name).mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('imported')\n")
    (package / "main.py").write_text("if __name__ == '__main__':\n    pass\n")
    (package / "utils" / "config.py").write_text(CONFIG)
    for name in MODULES:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("raise SystemExit('imported')\n")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{folder}" exec "{sys.base_prefix}/bin/python3" -S -E -c "import sys; '
                      f"sys.path.insert(0, '{folder}'); sys.argv.pop(1); exec(sys.argv.pop(1))\" \"$@\"\n")  # fmt: skip
    python.chmod(0o755)
    installed._ask.cache_clear()
    return folder


def asked(site: Path) -> Dlio:
    return find_dlio(str(site.parent / "python"))


def test_an_old_dlio_and_its_names_are_found(site: Path) -> None:
    (site / "dlio_benchmark" / "profiler" / "profiler_factory.py").write_text(
        "from dlio_benchmark.profiler.tf_profiler import X\n"
    )
    (site / "dlio_benchmark" / "profiler" / "tf_profiler.py").write_text("import tensorflow as tf\n")
    found = asked(site)
    assert found.record_length == "record_length"
    assert found.knows("reader.read_threads")
    assert not found.knows("reader.odirect")
    assert not found.direct
    assert found.needs_tensorflow
    assert not found.has_tensorflow


def test_a_newer_dlio_is_told_by_what_it_reads_and_not_by_its_number(site: Path) -> None:
    config = site / "dlio_benchmark" / "utils" / "config.py"
    config.write_text(CONFIG + "if 'record_length_bytes' in config['dataset'] or 'odirect' in reader:\n    pass\n")
    (site / "dlio_benchmark" / "profiler" / "profiler_factory.py").write_text(
        "def get():\n    from dlio_benchmark.profiler.tf_profiler import X\n"
    )
    found = asked(site)
    assert found.record_length == "record_length_bytes"
    assert found.direct
    assert not found.needs_tensorflow


def test_what_is_missing_is_named_with_the_command_that_brings_it(site: Path) -> None:
    for name in ("pandas", "PIL"):
        (site / name / "__init__.py").unlink()
        (site / name).rmdir()
    with pytest.raises(EnvironmentProblem, match="lacks pandas, Pillow") as error:
        asked(site)
    assert error.value.mend.endswith("-m pip install pandas Pillow")


def test_no_dlio_names_the_way_in_that_works(site: Path) -> None:
    (site / "dlio_benchmark").rename(site / "other")
    with pytest.raises(EnvironmentProblem, match="has no DLIO") as error:
        asked(site)
    assert "clustertune[mlperf]" in error.value.mend
    assert "--no-deps dlio-benchmark==2.0.0" in error.value.mend


def test_a_program_that_is_no_python_is_a_wrong_option(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--dlio-python /bin/false"):
        find_dlio("/bin/false")
    with pytest.raises(UsageError, match="there is no such program"):
        find_dlio(str(tmp_path / "python9"))


def dlio(tmp_path: Path, *, stub: bool = True) -> Dlio:
    return Dlio(str(tmp_path / "bin" / "python"), tmp_path, "2.0.0", frozenset(), stub, False, True)


def mpi(tmp_path: Path, kind: str, *libraries: str) -> Mpirun:
    for name in ("bin", "lib"):
        (tmp_path / "mpi" / name).mkdir(parents=True)
    (tmp_path / "mpi" / "bin" / "mpirun").write_text("#!/bin/sh\n")
    (tmp_path / "mpi" / "bin" / "mpirun").chmod(0o755)
    for library in libraries:
        (tmp_path / "mpi" / "lib" / library).touch()
    return Mpirun(Mpi(kind, "1", (str(tmp_path / "mpi" / "bin" / "mpirun"),)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "library"), [("intel", "libmpi.so.12"), ("mpich", "libmpi.so.12"), ("openmpi", "libmpi.so.40")]
)
def test_ranks_load_the_library_of_the_mpi_that_starts_them(tmp_path: Path, kind: str, library: str) -> None:
    env = environment(dlio(tmp_path), mpi(tmp_path, kind, library), tmp_path)
    assert env["MPI4PY_LIBMPI"] == str(tmp_path / "mpi" / "lib" / library)
    assert env["LD_LIBRARY_PATH"].split(":")[0] == str(tmp_path / "mpi" / "lib")
    assert ("I_MPI_PIN" in env) == (kind == "intel")


def test_debians_mpich_gets_the_name_that_mpi4py_looks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    debian = tmp_path / "libmpich.so.12"
    debian.touch()
    monkeypatch.setattr(launching, "_system_library", lambda name: debian if name == debian.name else None)
    launcher = mpi(tmp_path, "mpich")
    for _ in range(2):  # the scratch folder is the same for all runs
        link = Path(environment(dlio(tmp_path), launcher, tmp_path)["MPI4PY_LIBMPI"])
        assert link.name == "libmpi.so.12"
        assert link.resolve() == debian


def test_a_stand_in_for_tensorflow_is_there_only_where_nothing_is_read_by_it(tmp_path: Path) -> None:
    launcher = mpi(tmp_path, "mpich", "libmpi.so.12")
    folder = Path(environment(dlio(tmp_path), launcher, tmp_path)["PYTHONPATH"].split(":")[0])
    assert (folder / "tensorflow" / "__init__.py").read_text() == ""
    assert "PYTHONPATH" not in environment(dlio(tmp_path, stub=False), launcher, tmp_path)


def test_an_mpirun_that_is_none_is_a_wrong_option(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--mpi /bin/true"):
        find_launcher(dlio(tmp_path), "/bin/true")
    with pytest.raises(UsageError, match="there is no such program"):
        find_launcher(dlio(tmp_path), "mpirun9")


def test_dlio_finds_a_program_for_its_indexes_where_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    launcher = mpi(tmp_path, "mpich", "libmpi.so.12")
    reads = replace(dlio(tmp_path), has_tensorflow=True, indexes=True)
    first, rest = environment(reads, launcher, tmp_path)["PATH"].split(":", 1)
    assert rest == "/usr/bin"
    program = Path(first) / "tfrecord2idx"
    assert program.read_text().startswith(f"#!{reads.python}\n")
    assert "PATH" not in environment(replace(reads, has_tensorflow=False), launcher, tmp_path)
    (tmp_path / "bin").mkdir(exist_ok=True)
    own = tmp_path / "own" / "bin"
    own.mkdir(parents=True)
    (own / "tfrecord2idx").touch()
    assert "PATH" not in environment(replace(reads, python=str(own / "python")), launcher, tmp_path)
