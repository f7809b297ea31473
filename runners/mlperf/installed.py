"""Finds the installed DLIO and what it knows, by a short child of its own Python: DLIO itself is never imported here."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from runners.mlperf.workloads import Workload
from runners.process import run
from runners.runner import EnvironmentProblem, Failure, UsageError

# On PyPI, dlio-benchmark 2.0.0 asks for a package that downloads from NVIDIA and fails: it goes in without its dependencies.
INSTALL = "python -m pip install 'clustertune[mlperf]' && python -m pip install --no-deps dlio-benchmark==2.0.0"
_LIMIT = 60.0
_PROBE = r"""
import importlib.metadata, importlib.util, json, pathlib, re, sys
spec = importlib.util.find_spec("dlio_benchmark")
found = {"python": sys.version.split()[0], "package": None}
def there(name):
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
if spec is not None and spec.submodule_search_locations:
    package = pathlib.Path(list(spec.submodule_search_locations)[0])
    def text(name):
        try:
            return (package / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
    try:
        version = importlib.metadata.version("dlio-benchmark")
    except importlib.metadata.PackageNotFoundError:
        version = ""
    early = re.search(r"^(?:from|import) .*tf_profiler", text("profiler/profiler_factory.py"), re.M)
    found.update(
        package=str(package),
        version=version,
        names=sorted(set(re.findall(r"['\"](\w+)['\"] in \w+", text("utils/config.py")))),
        start=bool(text("main.py")),
        indexes="tfrecord2idx" in text("data_generator/tf_generator.py"),
        needs_tensorflow=bool(early and re.search(r"^(?:from|import) tensorflow", text("profiler/tf_profiler.py"), re.M)),
    )
names = ("tensorflow", "torch", "mpi4py", "hydra", "omegaconf", "pandas", "h5py", "PIL", "psutil", "numpy")
found["modules"] = {name: there(name) for name in names}
profilers = ("dftracer", "dlio_profiler")
found["profiler"] = next((name for name in profilers if there(name)), "")
print(json.dumps(found))
"""
# What every run of DLIO imports, and the packages that bring it.
_NEEDED = {
    "mpi4py": "mpi4py",
    "hydra": "hydra-core",
    "omegaconf": "omegaconf",
    "pandas": "pandas",
    "h5py": "h5py",
    "PIL": "Pillow",
    "psutil": "psutil",
    "numpy": "numpy",
}


@dataclass(frozen=True, slots=True)
class Dlio:
    """``names`` are the parameters that its configuration reads; Hydra takes any other name too, and nothing comes of it.

    ``needs_tensorflow``: it imports TensorFlow at its start, also where PyTorch reads. ``indexes``: it calls tfrecord2idx for
    each record file that it makes.
    """

    python: str
    package: Path
    version: str
    names: frozenset[str]
    needs_tensorflow: bool
    has_tensorflow: bool
    has_torch: bool
    indexes: bool = False

    @property
    def record_length(self) -> str:
        """How this DLIO calls a record's length; two more names end in _stdev and _resize."""
        return "record_length_bytes" if "record_length_bytes" in self.names else "record_length"

    @property
    def direct(self) -> bool:
        """Whether it can read past the page cache."""
        return "odirect" in self.names

    def knows(self, parameter: str) -> bool:
        """Whether ``parameter`` (like reader.read_threads) does anything in this DLIO."""
        return parameter.rpartition(".")[2] in self.names

    def refuse(self, workload: Workload) -> None:
        """Raises EnvironmentProblem where this Python can't run what reads the workload's format."""
        framework = workload.sample.framework
        if framework == "tensorflow" and not self.has_tensorflow:
            why = f"{workload.model} is read by TensorFlow, which {self.python} doesn't have"
            raise EnvironmentProblem(why, f"{self.python} -m pip install tensorflow-cpu")
        if framework == "pytorch" and not self.has_torch:
            why = f"{workload.model} is read by PyTorch, which {self.python} doesn't have"
            raise EnvironmentProblem(why, f"{self.python} -m pip install torch")


def find_dlio(python: str = "") -> Dlio:
    """The DLIO of ``python``, a program or path; of the Python that runs this, if none is named.

    Raises UsageError for a Python that can't be started, EnvironmentProblem with the command that mends it.
    """
    program = _program(python)
    found = _ask(program, os.environ.get("PYTHONPATH", ""))
    if isinstance(found, str):
        if python:
            raise UsageError("dlio-python", python, found)
        raise EnvironmentProblem(found)
    mend = INSTALL.replace("python -m", f"{program} -m") if python else INSTALL
    if found["package"] is None:
        raise EnvironmentProblem(f"{program} has no DLIO (package dlio-benchmark)", mend)
    missing = [package for name, package in _NEEDED.items() if not found["modules"][name]]
    if missing:
        raise EnvironmentProblem(
            f"the DLIO of {program} lacks {', '.join(missing)}", f"{program} -m pip install {' '.join(missing)}"
        )
    if not found["profiler"]:
        why = f"the DLIO of {program} lacks its tracer"
        wanted = "pydftracer==1.0.2" if found["version"].startswith(("2.0.0", "1.")) else "'pydftracer>=2.0.2'"
        raise EnvironmentProblem(why, f"{program} -m pip install {wanted}")
    if not found["names"] or not found["start"]:
        raise EnvironmentProblem(f"the DLIO in {found['package']} is of an unknown kind: its configuration can't be read")
    return Dlio(
        python=program,
        package=Path(found["package"]),
        version=found["version"] or "unknown",
        names=frozenset(found["names"]),
        needs_tensorflow=bool(found["needs_tensorflow"]),
        has_tensorflow=bool(found["modules"]["tensorflow"]),
        has_torch=bool(found["modules"]["torch"]),
        indexes=bool(found["indexes"]),
    )


def _program(python: str) -> str:
    if not python:
        return sys.executable
    path = shutil.which(Path(python).expanduser())
    if path is None:
        raise UsageError("dlio-python", python, "there is no such program; name the python of the environment that has DLIO")
    return str(Path(path).absolute())


@cache
def _ask(program: str, _path: str) -> Mapping[str, Any] | str:
    done = run([program, "-c", _PROBE], limit=_LIMIT)
    if isinstance(done, Failure):
        return f"it can't be asked for DLIO: {done.reason}"
    try:
        found = json.loads(done.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        said = done.stderr.strip().splitlines()
        return f"it is no Python 3: it says {said[-1][:120]!r}" if said else "it is no Python 3"
    return found if isinstance(found, dict) else "it is no Python 3"
