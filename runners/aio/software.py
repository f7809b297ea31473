"""Is DeepSpeed's async_io op there, or what does it lack: found out without importing torch or deepspeed."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runners.device import inspect
from runners.packages import install
from runners.runner import Problem, Severity

_RUNTIMES = ("libaio.so.1", "libaio.so.1t64", "libaio.so")
_INCLUDES = ("usr/include", "usr/local/include")
# A build takes minutes, on a busy machine too; on a shared home a lock file older than this is a killed build's.
_STALE = 900.0


def version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def package_folder(name: str) -> Path | None:
    """Where a top-level package is installed, without importing it."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or []) if spec else []
    return Path(places[0]) if places else None


@dataclass(frozen=True, slots=True)
class Op:
    """DeepSpeed's async_io op. ``library`` is the built file or None; ``locks`` are files that make its loading wait."""

    folder: Path
    library: Path | None
    locks: tuple[Path, ...]


def extensions_folder(environ: Mapping[str, str] = os.environ, torch: Path | None = None) -> Path:
    """Where torch keeps what it builds for this interpreter; ``torch`` is the installed package's folder."""
    if environ.get("TORCH_EXTENSIONS_DIR"):
        return Path(environ["TORCH_EXTENSIONS_DIR"])
    home = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME") or Path.home()) / ".cache")
    python = f"py{sys.version_info.major}{sys.version_info.minor}{getattr(sys, 'abiflags', '')}"
    return Path(home) / "torch_extensions" / f"{python}_{_accelerator(torch)}"


def _accelerator(torch: Path | None) -> str:
    try:
        text = (torch / "version.py").read_text() if torch else ""
    except OSError:
        text = ""
    found: dict[str, str] = dict(re.findall(r"^(cuda|hip)\b[^=\n]*= ['\"]([^'\"]+)['\"]", text, re.MULTILINE))
    if "hip" in found:
        return "rocm" + found["hip"].replace(".", "")
    return "cu" + found["cuda"].replace(".", "") if "cuda" in found else "cpu"


def find_op(environ: Mapping[str, str] = os.environ) -> Op:
    """The op as built at installation (DS_BUILD_AIO=1), or as torch built it on first use for this very installation."""
    torch, deepspeed = package_folder("torch"), package_folder("deepspeed")
    root = extensions_folder(environ, torch)
    folder = root / "async_io"
    locks = tuple(path for path in (root / name / "lock" for name in ("pin_memory", "async_io")) if path.exists())
    built = sorted((deepspeed / "ops/aio").glob("async_io_op*.so")) if deepspeed else []
    if built:
        return Op(folder, built[0], ())
    library = folder / "async_io.so"
    try:
        recipe = (folder / "build.ninja").read_text(errors="replace")
    except OSError:
        recipe = ""
    # What another environment left there is built anew on first use.
    fresh = library.exists() and (deepspeed is None or str(deepspeed) in recipe)
    return Op(folder, library if fresh else None, locks)


def holder(lock: Path) -> int | None:
    """The process of this machine that has ``lock`` open, as torch does while it builds; None when there is none."""
    wanted = str(lock.resolve())
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        with suppress(OSError):  # it ended, or is another user's
            if any(str(entry.readlink()) == wanted for entry in (process / "fd").iterdir()):
                return int(process.name)
    return None


def _stale(lock: Path) -> bool:
    """Whether a lock that nobody here holds is a killed build's; on a shared home the builder may be another machine."""
    try:
        age = time.time() - lock.stat().st_mtime
        return inspect(lock.parent).kind != "network" or age > _STALE
    except OSError:
        return False  # released a moment ago


def libaio_runtime() -> bool:
    for name in _RUNTIMES:
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return True
    return False


def libaio_header(root: Path = Path("/"), environ: Mapping[str, str] = os.environ) -> Path | None:
    folders = [root / place for place in _INCLUDES]
    if environ.get("CONDA_PREFIX"):
        folders.append(Path(environ["CONDA_PREFIX"]) / "include")
    for name in ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"):
        folders += [Path(part) for part in environ.get(name, "").split(":") if part]
    folders += [Path(part) for part in re.findall(r"-I\s*(\S+)", environ.get("CFLAGS", ""))]
    return next((folder / "libaio.h" for folder in folders if (folder / "libaio.h").exists()), None)


def compiler(environ: Mapping[str, str] = os.environ) -> str | None:
    return shutil.which((environ.get("CXX") or "c++").split()[0], path=environ.get("PATH"))


def ninja(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether torch will find ninja: on PATH, which need not hold this environment's own bin folder."""
    return shutil.which("ninja", path=environ.get("PATH")) is not None


def problems(engine: str, environ: Mapping[str, str] = os.environ, root: Path = Path("/")) -> list[Problem]:
    """What stands between this machine and DeepSpeed's op; errors only when ``engine`` is "deepspeed"."""
    lacking: Severity = "error" if engine == "deepspeed" else "warning" if engine == "auto" else "note"
    instead = "" if engine == "deepspeed" else "; the native engine measures without it"
    missing = [name for name in ("torch", "deepspeed") if version(name) is None or package_folder(name) is None]
    if missing:
        names = " and ".join(missing)
        mend = f"{sys.executable} -m pip install 'clustertune[aio]'"
        return [
            Problem(missing[-1], lacking, f"{names} not installed, so DeepSpeed's own op can't be measured{instead}", mend)
        ]
    found: list[Problem] = []
    op = find_op(environ)
    for lock in op.locks:
        builder = holder(lock)
        if builder is not None:
            message = f"process {builder} builds the op just now, and loading it waits for that"
            found.append(Problem("op-lock", "note", message, "wait for it to end"))
        elif _stale(lock):
            message = f"{lock} was left by a build that was killed, and loading the op waits for it without end{instead}"
            found.append(Problem("op-lock", lacking, message, f"rm {shlex.quote(str(lock))}"))
    has_library = libaio_runtime()
    if not has_library:
        message = f"the library libaio is missing, which DeepSpeed's op needs{instead}"
        found.append(Problem("libaio", lacking, message, install("libaio", root, environ)))
    if op.library is None:
        lacks = _unbuildable(lacking, instead, environ, root)
        # One package brings both the library and its header.
        found += [problem for problem in lacks if has_library or problem.id != "libaio"]
    return found


def _unbuildable(lacking: Severity, instead: str, environ: Mapping[str, str], root: Path) -> list[Problem]:
    found = []
    if libaio_header(root, environ) is None:
        message = f"libaio.h is missing, so DeepSpeed's op can't be built{instead}"
        found.append(Problem("libaio", lacking, message, install("libaio", root, environ)))
    if compiler(environ) is None:
        message = f"there is no C++ compiler ({environ.get('CXX') or 'c++'}), so DeepSpeed's op can't be built{instead}"
        found.append(Problem("compiler", lacking, message, install("compiler", root, environ)))
    if not ninja(environ):
        message = f"ninja is not on PATH, so DeepSpeed's op can't be built{instead}"
        mend = f"{sys.executable} -m pip install ninja"
        if package_folder("ninja") is not None:
            mend = f"export PATH={Path(sys.executable).parent}:$PATH"
        found.append(Problem("ninja", lacking, message, mend))
    return found
