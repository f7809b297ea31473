"""Starts a rank's program with its environment, folder and CPUs: part of the text that is sent to hosts."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from runners.launch.marks import MARK, SOURCE, TABLE


class CantStart(Exception):
    """What can't be used (program, cwd, cpus, folder), and why."""


def make_folder(spec: dict[str, Any]) -> None:
    """The job's own folder on this host with its files, if it has one. Raises CantStart."""
    if not spec["folder"]:
        return
    try:
        folder = Path(spec["folder"])
        folder.mkdir(mode=0o700, exist_ok=True)
        for name, text in spec["files"].items():
            (folder / name).write_text(text, encoding="utf-8")
            (folder / name).chmod(0o700)
    except OSError as error:
        raise CantStart("folder", f"{error.filename}: {error.strerror}") from error


def start(spec: dict[str, Any], mark: str, below: bool) -> subprocess.Popen[bytes]:
    """The program of ``spec``, marked; ``below`` a launcher it keeps standard input and open files. Raises CantStart."""
    env = {name: value for name, value in os.environ.items() if name not in (SOURCE, TABLE)}
    env.update(spec["env"])
    env[MARK] = mark
    parent = os.getpid()

    def arrange() -> None:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # dies with its keeper
        if os.getppid() != parent:
            os._exit(1)
        if not below:
            os.setsid()

    before = os.sched_getaffinity(0)
    try:
        if spec["cpus"] is not None:
            _bind(spec["cpus"])
        return subprocess.Popen(
            spec["argv"],
            stdin=None if below else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd=spec["cwd"],
            close_fds=not below,  # a launcher may hand its connection over as an open file
            preexec_fn=arrange,
        )
    except OSError as error:
        of_folder = spec["cwd"] and error.filename == spec["cwd"] and not Path(spec["cwd"]).is_dir()
        raise CantStart("cwd" if of_folder else "program", error.strerror or str(error)) from error
    except ValueError as error:
        raise CantStart("program", str(error)) from error
    finally:
        os.sched_setaffinity(0, before)


def _bind(cpus: list[int]) -> None:
    try:
        os.sched_setaffinity(0, cpus)
        if os.sched_getaffinity(0) != set(cpus):
            raise OSError(errno.EINVAL, "not all of them can be used")
    except (OSError, ValueError, OverflowError) as error:
        raise CantStart("cpus", getattr(error, "strerror", None) or str(error)) from error
