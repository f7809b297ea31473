"""Starts DLIO's ranks with the MPI that is there, and gives them the libraries that they would not find by themselves."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runners.hosts.host import Host
from runners.launch import carry
from runners.launch.job import Finished, Job, Rank
from runners.launch.mpirun import Mpirun, mpirun
from runners.launch.reach import Reach
from runners.mlperf import record_index
from runners.mlperf.installed import Dlio
from runners.runner import EnvironmentProblem, Failure, UsageError

HERE = Host("localhost")
# The name under which mpi4py looks for each MPI's library.
_LIBRARIES = {"intel": "libmpi.so.12", "mpich": "libmpi.so.12", "openmpi": "libmpi.so.40"}
_DEBIAN_MPICH = "libmpich.so.12"
_INDEXER = "tfrecord2idx"
_MEND = "python -m pip install 'clustertune[mlperf]'"
_POLL = 0.5
# DLIO's log ends each line with the place in its source.
_WHERE = re.compile(r"\s*\[[^\]]*:\d+\]\s*$")
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Start:
    """All that starting DLIO takes. ``hosts`` are those of the ranks; blocks of ranks lie on them in their order."""

    dlio: Dlio
    launcher: Mpirun
    hosts: tuple[Host, ...] = (HERE,)

    def facts(self) -> dict[str, str]:
        return {"dlio": self.dlio.version, "mpi": self.launcher.mpi.title}

    def run(
        self, argv: tuple[str, ...], ranks: int, scratch: Path, limit: float, log: Path | None = None, tell: Tell | None = None
    ) -> Finished | Failure:
        """``ranks`` processes of ``argv`` to their end, or none when interrupted; ``log`` is DLIO's, followed for ``tell``."""
        env = environment(self.dlio, self.launcher, scratch)
        # Whatever DLIO writes beside its output (relative folders of its configurations) stays in the scratch folder.
        cwd = str(scratch) if self.hosts == (HERE,) else None
        placed = tuple(Rank(self.hosts[rank * len(self.hosts) // ranks], argv, env) for rank in range(ranks))
        with self.launcher.start(Job(placed, limit, cwd=cwd)) as job, _following(log, tell):
            return job.wait()


def find_launcher(dlio: Dlio, mpi: str = "", ssh: str = "ssh") -> Mpirun:
    """The mpirun that starts DLIO: ``mpi``, or the one beside its Python, or that on the PATH.

    Raises UsageError for one that can't be used, EnvironmentProblem where there is none.
    """
    program = _mpirun(dlio, mpi)
    found = mpirun((program,), Reach(ssh=_words(ssh), python=dlio.python))
    if isinstance(found, Failure):
        if mpi:
            raise UsageError("mpi", mpi, found.reason)
        raise EnvironmentProblem(found.reason, "name the mpirun to use with --mpi")
    return found


def _mpirun(dlio: Dlio, given: str) -> str:
    if given:
        path = shutil.which(Path(given).expanduser())
        if path is None:
            raise UsageError("mpi", given, "there is no such program")
        return str(Path(path).absolute())
    beside = Path(dlio.python).parent / "mpirun"
    found = str(beside) if beside.exists() else shutil.which("mpirun")
    if found is None:
        raise EnvironmentProblem(f"there is no mpirun beside {dlio.python} and none on the PATH", _MEND)
    return found


def _words(command: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(command))
    except ValueError:
        raise UsageError("ssh", command, "a quote is not closed") from None
    if not words:
        raise UsageError("ssh", "''", "name a program, like ssh")
    return words


def environment(dlio: Dlio, launcher: Mpirun, scratch: Path) -> dict[str, str]:
    """What each rank needs beside its login's environment; makes links, stand-ins and a program in ``scratch``."""
    env = {"HYDRA_FULL_ERROR": "1", "PYTHONUNBUFFERED": "1"}
    library = _library(launcher, scratch)
    if library is not None:
        # mpi4py takes the first MPI that it finds; with another one than the launcher's every rank believes to be alone.
        env["MPI4PY_LIBMPI"] = str(library)
        env["LD_LIBRARY_PATH"] = _joined(str(library.parent), os.environ.get("LD_LIBRARY_PATH", ""))
    if launcher.mpi.kind == "intel":
        env["I_MPI_PIN"] = "0"  # a rank's readers are processes too, and take the cores that they find
        root = Path(shutil.which(launcher.mpi.program[-1]) or launcher.mpi.program[-1]).absolute().parent.parent
        env["I_MPI_ROOT"] = str(root)
    if dlio.needs_tensorflow and not dlio.has_tensorflow:
        # DLIO 2.0.0 imports it at its start and, where PyTorch reads, uses nothing of it.
        stub = scratch / "stub" / "tensorflow"
        stub.mkdir(parents=True, exist_ok=True)
        (stub / "__init__.py").touch()
        env["PYTHONPATH"] = _joined(str(stub.parent), os.environ.get("PYTHONPATH", ""))
    if dlio.indexes and dlio.has_tensorflow and not _has_indexer(dlio):
        env["PATH"] = _joined(str(_indexer(dlio, scratch).parent), os.environ.get("PATH", os.defpath))
    return env


def _has_indexer(dlio: Dlio) -> bool:
    return (Path(dlio.python).parent / _INDEXER).exists() or shutil.which(_INDEXER) is not None


def _indexer(dlio: Dlio, scratch: Path) -> Path:
    """Our own tfrecord2idx, for DLIO's Python."""
    program = scratch / "bin" / _INDEXER
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"#!{dlio.python}\n{carry.source_of(record_index)}", encoding="utf-8")
    program.chmod(0o755)
    return program


def _library(launcher: Mpirun, scratch: Path) -> Path | None:
    """The launcher's libmpi under the name that mpi4py knows; None where the system finds it by itself."""
    name = _LIBRARIES[launcher.mpi.kind]
    program = Path(shutil.which(launcher.mpi.program[-1]) or launcher.mpi.program[-1])
    for root in dict.fromkeys((program.absolute().parent.parent, program.resolve().parent.parent)):
        for folder in (root / "lib", root / "lib64", root / "lib" / "release"):
            if (folder / name).exists():
                return folder / name
    if launcher.mpi.kind == "mpich" and (debian := _system_library(_DEBIAN_MPICH)) is not None:
        # Debian's MPICH is the same library under a name of its own.
        link = scratch / "mpi" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(debian)
        return link
    return None


def _system_library(name: str) -> Path | None:
    for folder in (*Path("/usr/lib").glob("*-linux-gnu"), Path("/usr/lib64"), Path("/usr/lib"), Path("/usr/local/lib")):
        if (folder / name).exists():
            return folder / name
    return None


def _joined(first: str, others: str) -> str:
    return f"{first}{os.pathsep}{others}" if others else first


@contextmanager
def _following(log: Path | None, tell: Tell | None) -> Iterator[None]:
    """Passes on the lines of DLIO's log that say how far it is, while the with statement runs."""
    if log is None or tell is None:
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_follow, args=(log, tell, done), name="dlio log", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _follow(log: Path, tell: Tell, done: threading.Event) -> None:
    position = 0
    while not done.wait(_POLL):
        try:
            with log.open("rb") as file:
                file.seek(position)
                data = file.read(1 << 20)
        except OSError:
            continue
        whole = data[: data.rfind(b"\n") + 1]
        position += len(whole)
        for line in whole.decode(errors="replace").splitlines():
            if said := progress(line):
                tell(said)


def progress(line: str) -> str:
    """What a line of DLIO's log says of how far it is, "" where nothing."""
    for word in ("Starting epoch ", "Ending epoch ", "Starting data generation", "Generation done"):
        at = line.find(word)
        if at >= 0:
            return _WHERE.sub("", line[at:]).strip()
    return ""
