"""The one place that reads and writes users' files: whole or not at all, with a backup, a sentence for each failure."""

from __future__ import annotations

import contextlib
import difflib
import errno
import os
import re
import secrets
import shutil
import stat
import time
from pathlib import Path

from tuner.errors import NotUsable, TunerError, WrongUsage

# A configuration file is a few kilobytes; what is larger was named by mistake.
LARGEST = 16 << 20

_STALE_SECONDS = 3600
_TEMPORARY = ".tune-{}.tmp"
_DISK = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "your disk quota is used up", errno.EIO: "the disk reports an error"}
_REFUSED = {
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "you may not write there",
    errno.EPERM: "you may not write there",
    errno.ENOENT: "the folder does not exist",
    errno.ENOTDIR: "a part of the path is no folder",
    errno.ELOOP: "the symbolic links lead in a circle",
    errno.ENAMETOOLONG: "the name is too long",
}


def read_text(path: Path, option: str = "") -> str:
    """The file's text with its line ends and byte order mark as they are; raises WrongUsage that names ``option``.

    A .properties file is ISO-8859-1, as Java takes it: every byte is a character. All others must be UTF-8.
    """
    name = f"{option} {path}".strip()
    try:
        # A named pipe must not make us wait for who writes into it.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise WrongUsage(f"{name} is not a regular file.")
            data = file.read(LARGEST + 1)
    except IsADirectoryError:
        raise WrongUsage(f"{name} is a folder; name the file in it.") from None
    except FileNotFoundError:
        raise WrongUsage(f"{name} does not exist.") from None
    except PermissionError:
        raise WrongUsage(f"{name} can't be read: permission denied.") from None
    except (OSError, ValueError) as error:
        raise WrongUsage(f"{name} can't be read: {_words(error)}.") from None
    if len(data) > LARGEST:
        raise WrongUsage(f"{name} is larger than {LARGEST >> 20} MiB, which no settings file is.")
    try:
        return data.decode(_encoding(path))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise WrongUsage(f"{name} is not UTF-8 text (line {line}).") from None


def write_atomically(path: Path, text: str, *, backup: bool = True) -> Path | None:
    """Puts ``text`` at ``path`` so that a reader sees the old file or the new one, and a crash leaves one of them.

    A symbolic link stays one: its target is replaced. Mode and owner are kept. Gives the path of the backup: ``<name>.bak``
    beside the replaced file, or the next free ``<name>.bak.N``, so that an earlier backup is never lost; None where there was
    no file, nothing changed, or none was wanted. Raises WrongUsage or NotUsable, the old file then being as it was.
    """
    try:
        return _write(Path(os.path.realpath(path)), text.encode(_encoding(path)), backup)
    except (OSError, ValueError) as error:
        raise _told(path, error) from None


def roll_back(path: Path) -> tuple[Path, Path]:
    """Puts the newest backup of ``path`` back: the very file, with its mode and owner. Gives its path, which is free then.

    What stood there becomes the newest backup itself (the second path), so that doing it again undoes it. Raises WrongUsage
    where there is none, and NotUsable; the file is then as it was.
    """
    target = Path(os.path.realpath(path))
    try:
        found = backups(path)
        if not found:
            raise WrongUsage(f"{path} has no backup: no export replaced it.")
        if _present(target) is None:
            raise WrongUsage(f"{path} does not exist.", f"its newest backup is {found[0]}")
        kept = _back_up(target)
        try:
            found[0].replace(target)
        except BaseException:
            kept.unlink(missing_ok=True)
            raise
    except (OSError, ValueError) as error:
        raise _told(path, error) from None
    _sync_folder(target.parent)
    return found[0], kept


def backups(path: Path) -> list[Path]:
    """The backups of a file, the newest first: by when it was replaced, which a backup's own status change tells."""
    target = Path(os.path.realpath(path))
    name = re.compile(re.escape(target.name) + r"\.bak(?:\.([0-9]{1,9}))?")
    found = []
    for entry in target.parent.iterdir():
        match = name.fullmatch(entry.name)
        if match and entry.is_file() and not entry.is_symlink():
            found.append((entry.stat().st_ctime_ns, int(match[1] or 0), entry))
    return [entry for _, _, entry in sorted(found, reverse=True)]


def diff(old: str, new: str, name: str) -> str:
    """What `patch -p1` takes to turn ``old`` into ``new``; empty when they are equal."""
    lines = difflib.unified_diff(_lines(old), _lines(new), f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _write(target: Path, data: bytes, backup: bool) -> Path | None:
    old = _present(target)
    if old is not None and target.stat().st_size == len(data) and target.read_bytes() == data:
        return None
    _clear_stale(target.parent)
    temporary = target.parent / _TEMPORARY.format(secrets.token_hex(8))
    kept: Path | None = None
    try:
        # A new file gets the mode that the user's umask gives, a script one to be started with; a copy of a private file is
        # private from its first byte.
        new = 0o777 if data.startswith(b"#!") else 0o666
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, new if old is None else 0o600)
        with open(descriptor, "wb") as file:  # noqa: PTH123  (a descriptor, not a path)
            file.write(data)
            if old is not None:
                with contextlib.suppress(PermissionError):
                    os.fchown(descriptor, old.st_uid, old.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
            file.flush()
            os.fsync(descriptor)
        kept = _back_up(target) if old is not None and backup else None
        try:
            temporary.replace(target)
        except BaseException:
            if kept is not None:
                kept.unlink(missing_ok=True)
            raise
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(target.parent)
    return kept


def _present(target: Path) -> os.stat_result | None:
    """The file that would be replaced, or None; raises WrongUsage for what is no file or is write-protected."""
    try:
        old = target.stat()
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(old.st_mode):
        raise WrongUsage(f"{target} is a folder; name a file in it.")
    if not stat.S_ISREG(old.st_mode):
        raise WrongUsage(f"{target} is not a regular file.")
    if os.statvfs(target).f_flag & os.ST_RDONLY:
        raise OSError(errno.EROFS, "")
    if not os.access(target, os.W_OK):
        raise WrongUsage(f"{target} can't be written: it is write-protected. Nothing was changed.", f"chmod u+w {target}")
    return old


def _back_up(target: Path) -> Path:
    """A second name for the old file: costs no space and keeps everything about it; a copy where links are refused."""
    number = 0
    while True:
        kept = target.with_name(target.name + (f".bak.{number}" if number else ".bak"))
        number += 1
        try:
            os.link(target, kept)
        except FileExistsError:
            continue
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.EACCES, errno.ENOSYS):
                raise
            try:
                _copy(target, kept)
            except FileExistsError:
                continue
        return kept


def _copy(source: Path, destination: Path) -> None:
    with source.open("rb") as old, destination.open("xb") as new:
        try:
            shutil.copyfileobj(old, new)
            os.fsync(new.fileno())
        except BaseException:
            destination.unlink()
            raise
    shutil.copystat(source, destination)


def _clear_stale(folder: Path) -> None:
    """Removes what a killed run left; a fresh one may belong to a run that is writing now."""
    for left in folder.glob(_TEMPORARY.format("*")):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _STALE_SECONDS:
                left.unlink()


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _told(path: Path, error: OSError | ValueError) -> TunerError:
    number = getattr(error, "errno", None)
    if number in _DISK:
        return NotUsable(f"{path} can't be written: {_DISK[number]}. Nothing was changed.", "free some space and try again")
    why = _REFUSED.get(number, _words(error)) if number is not None else _words(error)
    return WrongUsage(f"{path} can't be written: {why}. Nothing was changed.")


def _encoding(path: Path) -> str:
    return "iso-8859-1" if ".properties" in path.name else "utf-8"


def _words(error: OSError | ValueError) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return text[:1].lower() + text[1:]


def _lines(text: str) -> list[str]:
    """Lines with their ends, split at newlines alone: what Python's splitlines takes for ends may stand inside a line."""
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
