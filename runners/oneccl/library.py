"""Where oneCCL and its mpirun are on this host, and the environment that both need."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runners.oneccl.options import Options
from runners.oneccl.rank_library import PLUGIN
from runners.runner import EnvironmentProblem, UsageError

# The C API came with this name; older oneCCL has C++ only.
NAME = "libccl.so.2"
_PIP = "python -m pip install 'clustertune[oneccl]'"
_ONEAPI = "/opt/intel/oneapi/ccl/latest"
# What a shell may hold of these would become part of every setting; where things are is kept.
_FAMILIES = ("CCL_", "FI_", "ATL_", "I_MPI_")
_PLACES = frozenset({"CCL_ROOT", "FI_PROVIDER_PATH", "I_MPI_ROOT", "I_MPI_SUBSTITUTE_INSTALLDIR", "I_MPI_TUNING_BIN"})
_LAUNCHING = ("I_MPI_HYDRA_", "I_MPI_PORT_RANGE", "I_MPI_TMPDIR", "I_MPI_PMI_", "I_MPI_JOB_")


@dataclass(frozen=True, slots=True)
class Found:
    """``root`` holds lib and mostly bin; ``mpirun`` is a path or a name for the PATH; ``why`` says how root was chosen."""

    root: Path
    library: Path
    mpirun: str
    why: str

    @property
    def mpi_root(self) -> Path:
        path = Path(shutil.which(self.mpirun) or self.mpirun)
        return path.absolute().parent.parent

    def environment(self) -> dict[str, str]:
        """What every rank needs, whatever the setting."""
        folders = dict.fromkeys(str(folder) for folder in (self.root / "lib", self.mpi_root / "lib") if folder.is_dir())
        return {
            "CCL_ROOT": str(self.root),
            "CCL_PLUGIN": PLUGIN,
            "I_MPI_ROOT": str(self.mpi_root),
            "LD_LIBRARY_PATH": ":".join(folders),
        }


def find(
    options: Options, environ: Mapping[str, str] = os.environ, prefix: str = sys.prefix, *, any_age: bool = False
) -> Found:
    """Raises UsageError for a --ccl-root or --mpi that can't be used, EnvironmentProblem where there is no oneCCL.

    ``any_age``: a oneCCL without the C API will do.
    """
    root, why = _root(options.ccl_root, environ, prefix, ("libccl.so.2", "libccl.so", "libccl.a") if any_age else (NAME,))
    return Found(root, root / "lib" / NAME, _mpirun(options.mpi, root, environ), why)


def _root(given: str, environ: Mapping[str, str], prefix: str, names: Sequence[str]) -> tuple[Path, str]:
    if given:
        root = Path(given).expanduser().absolute()
        if not any((root / "lib" / name).exists() for name in names):
            older = "; oneCCL before 2022.0 has no C API" if (root / "lib" / "libccl.so").exists() else ""
            raise UsageError("ccl-root", given, f"there is no lib/{NAME} in it{older}")
        return root, "--ccl-root names it"
    places = [(environ.get("CCL_ROOT", ""), "CCL_ROOT names it"), (prefix, "this Python has it"),
              (environ.get("CONDA_PREFIX", ""), "the conda environment has it"), (_ONEAPI, "oneAPI is installed")]  # fmt: skip
    for place, why in places:
        if place and any((Path(place) / "lib" / name).exists() for name in names):
            return Path(place).absolute(), why
    raise EnvironmentProblem(f"there is no oneCCL ({NAME}) in CCL_ROOT, in {prefix}/lib or in {_ONEAPI}", _PIP)


def named_mpirun(given: str) -> str:
    """The program of --mpi: a path, absolute, or a name that the PATH has. Raises UsageError."""
    path = Path(given).expanduser()
    if "/" in given and not path.exists():
        raise UsageError("mpi", given, "there is no such program")
    if "/" not in given and shutil.which(given) is None:
        raise UsageError("mpi", given, "no folder of the PATH has such a program")
    return str(path.absolute()) if "/" in given else given


def _mpirun(given: str, root: Path, environ: Mapping[str, str]) -> str:
    if given:
        return named_mpirun(given)
    beside = [root, root.parent.parent / "mpi" / "latest", *(Path(environ[n]) for n in ("I_MPI_ROOT",) if environ.get(n))]
    for place in beside:
        if (place / "bin" / "mpirun").exists():
            return str(place / "bin" / "mpirun")
    if shutil.which("mpirun"):
        return "mpirun"
    raise EnvironmentProblem("there is no mpirun beside oneCCL and none on the PATH", _PIP)


def strays(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Variables of this shell that would change every measurement without being part of a setting."""
    return sorted(
        name for name in environ if name.startswith(_FAMILIES) and name not in _PLACES and not name.startswith(_LAUNCHING)
    )
