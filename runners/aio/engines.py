"""Which engine does the I/O here, and why: DeepSpeed's op where it loads, the kernel's own calls elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runners.aio import linux_aio, software
from runners.limits import memlock
from runners.process import Completed, run
from runners.runner import EnvironmentProblem
from spaces.units import format_duration, format_size

# Processor time of compiling the op's 15 files, measured.
_BUILD_CPU = 340.0


@dataclass(frozen=True, slots=True)
class OpState:
    """DeepSpeed's async_io op: ``loads`` without compiling; else ``builds``, in about ``seconds``. ``reason`` says why.

    ``path`` is the PATH with which torch finds it as it is said here.
    """

    loads: bool
    builds: bool
    seconds: float
    reason: str
    path: str
    mend: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """The engine that measures; ``build`` is the seconds that its first use takes to compile it, or 0.

    ``path`` is the PATH that its processes need, "" for this process's own.
    """

    name: str
    reason: str
    build: float = 0.0
    path: str = ""

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "PATH": self.path} if self.path else dict(os.environ)


def environment() -> dict[str, str]:
    """This process's, with a ninja to be found also where the venv was not activated."""
    path = os.environ.get("PATH") or os.defpath
    return {**os.environ, "PATH": f"{path}{os.pathsep}{Path(sys.executable).parent}"}


def deepspeed_loads(limit: float = 10.0, environ: Mapping[str, str] | None = None) -> OpState:
    """Whether the op can be used, found out without importing torch or deepspeed; takes milliseconds, at most ``limit`` s."""
    given = os.environ if environ is None else environ
    paths = _paths(given)
    environ = {**given, "PATH": paths[0]}
    op = software.find_op(environ)
    blocking = [problem for problem in software.problems("deepspeed", environ) if problem.severity == "error"]
    if blocking:
        return OpState(False, False, 0.0, blocking[0].message, paths[0], blocking[0].mend)
    version = software.version("deepspeed")
    if op.library is not None:
        prebuilt = op.folder not in op.library.parents
        for path in paths:
            if prebuilt or _up_to_date(op.folder, limit, {**given, "PATH": path}):
                return OpState(True, True, 0.0, f"DeepSpeed {version}'s own async_io op is built", path)
    seconds = _BUILD_CPU / _jobs(given)
    return OpState(False, True, seconds, f"DeepSpeed {version}'s async_io op is not built for this installation yet", paths[0])


def _paths(environ: Mapping[str, str]) -> list[str]:
    """Values of PATH with each ninja that may have built the op, the user's own first.

    Two versions of ninja do not recognise each other's builds: loading the op with the other one compiles it anew.
    """
    own, path = str(Path(sys.executable).parent), environ.get("PATH") or os.defpath
    last, first = f"{path}{os.pathsep}{own}", f"{own}{os.pathsep}{path}"
    return [last] if shutil.which("ninja", path=last) == shutil.which("ninja", path=first) else [last, first]


def _up_to_date(folder: Path, limit: float, environ: Mapping[str, str]) -> bool:
    """Whether torch would load the op as it is: it asks ninja, and so do we. A copied or older build is compiled anew."""
    program = shutil.which("ninja", path=environ.get("PATH"))
    if program is None:
        return False
    for each in (folder.parent / "pin_memory", folder):
        if not each.is_dir():
            continue  # releases before 0.19 have no such part
        dry = run([program, "-n", "-C", str(each)], limit=limit, env=environ)
        if not (isinstance(dry, Completed) and dry.returncode == 0 and "no work to do" in dry.stdout):
            return False
    return True


def _jobs(environ: Mapping[str, str]) -> int:
    cores = len(os.sched_getaffinity(0))
    wanted = environ.get("MAX_JOBS", "")
    return min(cores, int(wanted)) if wanted.isdigit() and int(wanted) > 0 else cores


def choose(wanted: str, locked: int) -> Choice:
    """The engine for ``wanted`` (auto, deepspeed or native) where each process locks ``locked`` bytes of memory.

    Raises EnvironmentProblem where the named one can't work.
    """
    if wanted == "native":
        return _native("as asked for")
    state = deepspeed_loads()
    refusal = None if state.loads or state.builds else state.reason
    mend = state.mend
    if refusal is None and not memlock().allows(locked):
        refusal, mend = _too_little_memlock(locked)
    if wanted == "deepspeed":
        if refusal is not None:
            raise EnvironmentProblem(refusal, mend)
        return Choice("deepspeed", "as asked for", 0.0 if state.loads else state.seconds, state.path)
    if refusal is not None:
        return _native(refusal)
    if not state.loads:
        return _native(f"{state.reason}; --engine deepspeed builds it once (about {format_duration(state.seconds)})")
    return Choice("deepspeed", state.reason, 0.0, state.path)


def _native(reason: str) -> Choice:
    if not linux_aio.SUPPORTED:
        raise EnvironmentProblem(
            f"the native engine does not know this processor ({os.uname().machine})", "--engine deepspeed"
        )
    return Choice("native", reason)


def _too_little_memlock(locked: int) -> tuple[str, str]:
    limit = memlock()
    reason = (
        f"DeepSpeed's op locks {format_size(locked)} of memory in each process and the limit is {limit.soft} bytes (memlock)"
    )
    if limit.hard is None or limit.hard >= locked:
        return reason, "ulimit -l unlimited"
    return reason, "sudo prlimit --pid $$ --memlock=unlimited:unlimited"
