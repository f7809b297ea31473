"""One tuning run a device: two at once would measure each other."""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import stat
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from runners.blocks import SYSFS, inspect_block
from runners.runner import EnvironmentProblem

_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PLACES = (Path("/run/lock"), Path("/tmp"))  # noqa: S108  what is in it is only ever locked, never trusted


def lock_folder(places: tuple[Path, ...] = _PLACES) -> Path:
    """Where the lock files are: the first place that every user can write to, the same one for all of them."""
    for place in places:
        with suppress(OSError):
            mode = place.stat().st_mode
            if stat.S_ISDIR(mode) and mode & stat.S_IWOTH:
                return place
    return places[-1]


class DeviceLock:
    """The right to measure on some disks. The kernel takes it back when the process dies, however it dies."""

    def __init__(self, handles: ExitStack) -> None:
        self.handles = handles

    def release(self) -> None:
        self.handles.close()

    def __enter__(self) -> DeviceLock:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()


def lock_device(device_id: str, what: str, *, folder: Path | None = None, sysfs: Path = SYSFS) -> DeviceLock:
    """Locks the disks below ``device_id`` ("major:minor") for all users of this host; ``what`` is the command to name.

    Raises EnvironmentProblem that names who holds it.
    """
    block = inspect_block(device_id, sysfs)
    disks = sorted(block.disks()) if block else [device_id]
    place = folder or lock_folder()
    lock = DeviceLock(ExitStack())
    try:
        for disk in disks:
            handle = _open(place / f"clustertune-{disk.replace(':', '-')}.lock")
            lock.handles.callback(os.close, handle)
            if not _flock(handle):
                raise _taken(device_id, handle)
            _sign(handle, what)
    except BaseException:
        lock.release()
        raise
    return lock


def _flock(handle: int) -> bool:
    """Whether the lock was got. A holder is given a moment: it may be ending, or be a doctor that only looked."""
    for attempt in range(4):
        if attempt:
            time.sleep(0.05)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        return True
    return False


def _open(path: Path) -> int:
    """The lock file, made when absent. It is never removed: a second file of that name would be a second lock."""
    for _ in range(8):
        try:
            # Without O_CREAT: the kernel refuses to "create" another user's file in a shared folder (protected_regular).
            return _regular(os.open(path, os.O_RDWR | _FLAGS), path)
        except FileNotFoundError:
            pass
        except PermissionError:
            with suppress(OSError):
                return _regular(os.open(path, os.O_RDONLY | _FLAGS), path)
            raise _unusable(path, "this user may not open it") from None
        except OSError as error:
            raise _unusable(path, error.strerror or str(error)) from None
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS, 0o666)
            with suppress(OSError):
                os.fchmod(handle, 0o666)  # whatever the umask says: other users must be able to lock it
        except FileExistsError:
            continue
        except OSError as error:
            raise EnvironmentProblem(
                f"the device can't be locked, because {path} can't be made: {error.strerror}", f"ls -ld {path.parent}"
            ) from None
        return handle
    raise _unusable(path, "others keep replacing it")


def _regular(handle: int, path: Path) -> int:
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise _unusable(path, "it is not a plain file")


def _unusable(path: Path, why: str) -> EnvironmentProblem:
    return EnvironmentProblem(f"the device can't be locked with {path}: {why}", f"sudo rm {path}")


def _sign(handle: int, what: str) -> None:
    record = {"pid": os.getpid(), "user": os.geteuid(), "since": time.time(), "command": what}
    # Read-only handles and full disks: the lock holds, only its name is missing.
    with suppress(OSError):
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(record).encode(), 0)


def _taken(device_id: str, handle: int) -> EnvironmentProblem:
    pid, who = _holder(handle)
    mend = f"wait until process {pid} has ended" if pid else "wait for it to end"
    return EnvironmentProblem(
        f"the disk {_name(device_id)} is being measured already {who}; two at once would measure each other", mend
    )


def _name(device_id: str) -> str:
    """As people call it: vda for 254:0, or the numbers where the kernel has no name."""
    try:
        return Path(f"/sys/dev/block/{device_id}").readlink().name
    except OSError:
        return device_id


def _holder(handle: int) -> tuple[int | None, str]:
    """The pid and a description of who holds the lock; what the file says is another user's text and read with care."""
    for attempt in range(3):
        if attempt:
            time.sleep(0.05)  # what is there may be an older holder's: the present one has yet to sign
        try:
            record = json.loads(os.pread(handle, 65536, 0))
            pid, since = int(record["pid"]), float(record["since"])
            os.kill(pid, 0)
        except ProcessLookupError:
            continue
        except PermissionError:
            pass
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            continue
        if pid <= 1:
            continue
        command = "".join(c if c.isprintable() else "?" for c in str(record.get("command", "")))[:200]
        try:
            when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(since))
        except (OverflowError, OSError, ValueError):
            when = "an unknown time"
        return pid, f"by process {pid} ({command}){_user(record.get('user'))} since {when}"
    return None, "by another process"


def _user(number: object) -> str:
    if not isinstance(number, int) or number == os.geteuid():
        return ""
    try:
        return f" of user {pwd.getpwuid(number).pw_name}"
    except (KeyError, OverflowError):
        return f" of user {number}"
