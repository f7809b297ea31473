"""Raises this host's backlogs for a while, and puts them back: at the end, or at the next start after a kill.

A journal in the user's state folder says before each change what was there. Its owner holds a lock on it for as long as it
lives; a journal that nobody holds belongs to a run that was killed.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runners.runner import EnvironmentProblem, Problem

SOMAXCONN, SYN_BACKLOG = "net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog"
NAMES = (SOMAXCONN, SYN_BACKLOG)
SYSCTL = Path("/proc/sys")


def state_folder() -> Path:
    """Where this user's programs keep what outlives them and is no data of the user's."""
    home = os.environ.get("XDG_STATE_HOME") or str(Path(os.environ.get("HOME") or Path.home()) / ".local" / "state")
    return Path(home) / "clustertune"


def present(sysctl: Path = SYSCTL) -> dict[str, int]:
    """By name, the backlogs that this host has now."""
    found = {}
    for name in NAMES:
        with suppress(OSError, ValueError):
            found[name] = int(_place(sysctl, name).read_text())
    return found


def missing(wanted: int, sysctl: Path = SYSCTL) -> dict[str, int]:
    """By name, the backlogs below ``wanted``, with what they are."""
    return {name: value for name, value in present(sysctl).items() if value < wanted}


def refusal(wanted: int, sysctl: Path = SYSCTL) -> str:
    """Why this process may not raise the backlogs to ``wanted``, "" when it may or need not."""
    for name, value in missing(wanted, sysctl).items():
        if not os.access(_place(sysctl, name), os.W_OK):
            return f"{name} is {value} and this user may not change it"
    return ""


@dataclass(frozen=True, slots=True)
class Left:
    """A backlog that a killed run left raised and that could not be put back."""

    name: str
    was: int
    now: int
    why: str

    def problem(self, host: str = "") -> Problem:
        where = f" on {host}" if host else ""
        message = f"a run that was killed left {self.name} at {self.now}{where}; it was {self.was} ({self.why})"
        return Problem("left", "warning", message, f"sudo sysctl -w {self.name}={self.was}{where}")


class Backlogs:
    """This host's backlogs, raised while they have to be. ``put_back`` may be called at any time, and twice."""

    def __init__(self, folder: Path | None = None, sysctl: Path = SYSCTL) -> None:
        self._folder, self._sysctl = folder or state_folder(), sysctl
        self._before: dict[str, int] = {}
        self._raised_to: dict[str, int] = {}
        self._lock = -1
        self._owner = os.getpid()

    def at_least(self, wanted: int) -> None:
        """Each backlog is ``wanted`` from now on, or what it was if that was more; 0 puts them back.

        Raises EnvironmentProblem, with everything as it was, where that can't be done.
        """
        if not wanted:
            self.put_back()
            return
        short = missing(wanted, self._sysctl)
        if not short:
            return
        journal = _journal(self._folder)
        try:
            if self._lock < 0:
                self._lock = _locked(journal)
            self._before = {**short, **self._before}
            self._raised_to = {**self._raised_to, **dict.fromkeys(short, wanted)}
            _write(self._before, self._raised_to, self._lock)
        except OSError as error:
            self.put_back()
            raise EnvironmentProblem(
                f"nothing was changed, because what to put back can't be noted in {journal}: {error.strerror}",
                f"ls -ld {self._folder}; or without --system",
            ) from None
        try:
            for name in short:
                _place(self._sysctl, name).write_text(f"{wanted}\n")
        except OSError as error:
            self.put_back()
            raise EnvironmentProblem(
                f"the kernel's backlogs can't be raised: {error.strerror}", "as root, or without --system"
            ) from None

    def put_back(self) -> None:
        """As it was; a forked child must not do it for its parent."""
        lock, self._lock = self._lock, -1
        if lock < 0 or os.getpid() != self._owner:
            return
        try:
            if not restored(self._before, self._raised_to, self._sysctl):
                _journal(self._folder).unlink(missing_ok=True)
        except OSError:
            pass  # the journal stays for the next start
        finally:
            self._before, self._raised_to = {}, {}
            os.close(lock)


def restored(before: Mapping[str, int], raised_to: Mapping[str, int], sysctl: Path = SYSCTL) -> list[Left]:
    """Puts back what is as it was set, and leaves what somebody else has set since; returns what could not be put back."""
    failed = []
    now = present(sysctl)
    for name, value in before.items():
        if now.get(name) != raised_to.get(name):
            continue
        try:
            _place(sysctl, name).write_text(f"{value}\n")
        except OSError as error:
            failed.append(Left(name, value, now[name], error.strerror or str(error)))
    return failed


def clear(folder: Path | None = None, sysctl: Path = SYSCTL) -> list[Left]:
    """Puts back what a killed run of this user left raised here; returns what it could not."""
    journal = _journal(folder or state_folder())
    try:
        lock = os.open(journal, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        record = json.loads(os.pread(lock, 65536, 0) or b"{}")
        before, raised_to = _numbers(record.get("before")), _numbers(record.get("raised_to"))
        failed = restored(before, raised_to, sysctl) if record.get("boot") == _boot() else []
        if not failed:
            journal.unlink(missing_ok=True)
    except (OSError, ValueError, AttributeError):
        return []  # a living run holds it, or it never was written whole: then nothing was changed
    else:
        return failed
    finally:
        os.close(lock)


def _numbers(record: object) -> dict[str, int]:
    """What a journal says of our two numbers; a file is data, whoever wrote it."""
    if not isinstance(record, dict):
        return {}
    return {name: record[name] for name in NAMES if isinstance(record.get(name), int) and 0 < record[name] < 1 << 31}


def _place(sysctl: Path, name: str) -> Path:
    return sysctl / name.replace(".", "/")


def _journal(folder: Path) -> Path:
    """One file a host and network: the backlogs belong to that, and a home may be shared."""
    try:
        network = re.sub(r"\D", "", os.readlink("/proc/self/ns/net"))  # noqa: PTH115  it is no path
    except OSError:
        network = "0"
    return folder / f"tcpstore-backlogs-{os.uname().nodename}-{network}.json"


def _boot() -> str:
    """Of this start of the host: the next one has the backlogs that its own settings give it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _locked(journal: Path) -> int:
    """The journal's lock, ours from now on. Raises OSError."""
    journal.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for _ in range(8):
        lock = os.open(journal, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock).st_nlink:
                return lock
        except BlockingIOError:
            os.close(lock)
            raise BlockingIOError(errno.EAGAIN, "another run holds it") from None
        os.close(lock)
    raise BlockingIOError(errno.EAGAIN, "others keep replacing it")


def _write(before: Mapping[str, int], raised_to: Mapping[str, int], lock: int) -> None:
    """The whole record, on the disk before anything is changed: one write in place, for the lock is on this very file."""
    record = {"boot": _boot(), "pid": os.getpid(), "before": dict(before), "raised_to": dict(raised_to)}
    os.pwrite(lock, json.dumps(record).encode().ljust(1024), 0)
    os.fsync(lock)
