"""The user's site file while a study writes its own into its place: kept beside it, and put back however the study ends.

The kept file is a second name of the very same one, so that putting it back is one rename: contents, mode and owner are the
user's own. Who holds the lock is alive; what is kept without a holder is put back by the next start.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runners.runner import EnvironmentProblem

_KEPT = ".clustertune-kept"
_ABSENT = ".clustertune-absent"
_LOCK = ".clustertune-lock"
_NOTES = ".clustertune-mount"
_CHANGED = ".changed-during-study"
_NEW = ".clustertune-new"


@dataclass(frozen=True, slots=True)
class Left:
    """What a killed study left: ``mount`` is the command that brings the user's own mount back, () where there was none.

    ``restarts``: the command also takes away what is mounted, which may have the study's settings still.
    """

    mount: tuple[str, ...] = ()
    restarts: bool = False


class Journal:
    """``site`` as a study may write it. ``path`` is where the file really is, behind symbolic links."""

    def __init__(self, site: Path) -> None:
        self.path = Path(os.path.realpath(site))
        self._lock: int | None = None
        self._last: bytes | None = None
        self.text = ""
        self.moved: Path | None = None

    @property
    def kept(self) -> Path:
        return self._beside(_KEPT)

    def _beside(self, ending: str) -> Path:
        return self.path.with_name(f".{self.path.name}{ending}")

    def open(self) -> Left | None:
        """Takes the lock, puts back what a killed study left, and keeps the user's file. Raises EnvironmentProblem."""
        self._lock = self._locked()
        try:
            for new in self.path.parent.glob(f".{self.path.name}{_NEW}*"):
                new.unlink(missing_ok=True)
            left = self._put_back() if self._pending() else None
            self._keep()
        except BaseException as error:
            self._release()
            if isinstance(error, OSError):
                raise EnvironmentProblem(f"{self.path} can't be kept safe: {error.strerror or error}") from None
            raise
        return left

    def pending(self) -> bool:
        """Whether a killed study left its own file in the place of the user's. Touches nothing."""
        if not self._pending():
            return False
        try:
            handle = os.open(self._beside(_LOCK), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return True
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        finally:
            os.close(handle)
        return True

    def _pending(self) -> bool:
        return os.path.lexists(self.kept) or os.path.lexists(self._beside(_ABSENT))

    def remember(self, mount: Sequence[str], *, restarts: bool = False) -> None:
        """The command that brings the user's own mount back, for the next start if this one is killed. Mode 0600."""
        note = json.dumps({"mount": list(mount), "restarts": restarts})
        self._write(self._beside(_NOTES), note.encode(), 0o600)

    def write(self, text: str) -> None:
        """Puts a study's settings in place of the user's, whole or not at all. Raises OSError."""
        data = text.encode("iso-8859-1")
        self._spare_changes()
        mode = stat.S_IMODE(self.kept.stat().st_mode) if self.kept.exists() else 0o600
        self._write(self.path, data, mode)
        self._last = data

    def restore(self) -> None:
        """Puts the user's own file back. May be called twice."""
        if self._lock is None:
            return
        try:
            self._spare_changes()
            self._put_back()
        finally:
            self._release()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _locked(self) -> int:
        """The lock, held. Raises EnvironmentProblem."""
        path = self._beside(_LOCK)
        while True:
            try:
                handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            except OSError as error:
                message = f"settings can't be written beside {self.path}: {error.strerror or error}"
                raise EnvironmentProblem(message, f"ls -ld {self.path.parent}") from None
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(handle)
                message = f"another study is writing {self.path} already"
                raise EnvironmentProblem(message, "wait until it has ended") from None
            if os.fstat(handle).st_nlink:
                return handle
            os.close(handle)  # its owner removed it just before

    def _keep(self) -> None:
        try:
            os.link(self.path, self.kept)
        except FileNotFoundError:
            self._write(self._beside(_ABSENT), b"", 0o600)
            self.text = ""
            return
        except OSError:  # file systems without hard links
            shutil.copy2(self.path, self._beside(_NEW))
            self._beside(_NEW).rename(self.kept)
        self.text = self.kept.read_bytes().decode("iso-8859-1")

    def _put_back(self) -> Left:
        left = Left()
        with suppress(OSError, ValueError, KeyError, TypeError):
            note = json.loads(self._beside(_NOTES).read_text())
            left = Left(tuple(map(str, note["mount"])), bool(note["restarts"]))
        if os.path.lexists(self.kept):
            if self.path.exists() and self.path.samefile(self.kept):
                self.kept.unlink()  # killed before anything was written; a rename onto itself would leave both names
            else:
                self.kept.replace(self.path)
        else:
            self.path.unlink(missing_ok=True)
        for ending in (_ABSENT, _NOTES, _NEW):
            self._beside(ending).unlink(missing_ok=True)
        _sync(self.path.parent)
        return left

    def _spare_changes(self) -> None:
        """What somebody else wrote into the file meanwhile is not thrown away: it is moved aside."""
        if self._last is None:
            return
        with suppress(FileNotFoundError):
            if self.path.read_bytes() != self._last:
                self.moved = self.path.with_name(self.path.name + _CHANGED)
                self.path.replace(self.moved)

    def _write(self, path: Path, data: bytes, mode: int) -> None:
        temporary = self._beside(f"{_NEW}-{secrets.token_hex(4)}")
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(handle, "wb") as file:  # noqa: PTH123  (a descriptor, not a path)
                file.write(data)
                with suppress(OSError):
                    owner = self.kept.stat()
                    os.fchown(handle, owner.st_uid, owner.st_gid)
                os.fchmod(handle, mode)
                file.flush()
                os.fsync(handle)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        _sync(path.parent)

    def _release(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            self._beside(_LOCK).unlink(missing_ok=True)
            os.close(lock)


def _sync(folder: Path) -> None:
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
