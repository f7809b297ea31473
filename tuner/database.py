"""Opening the database that keeps the studies, and its errors as sentences."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shlex
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.errors import NoStudies, NotUsable, WrongUsage

if TYPE_CHECKING:
    from optuna.storages import RDBStorage

# Optuna's tables.
_OPTUNA = frozenset(
    f"{prefix}{name}"
    for prefix, names in (
        ("", ("studies", "trials", "version_info", "alembic_version")),
        ("study_", ("directions", "system_attributes", "user_attributes")),
        ("trial_", ("heartbeats", "intermediate_values", "params", "system_attributes", "user_attributes", "values")),
    )
    for name in names
)


def default_storage() -> str:
    """``studies.db`` in the user's data folder (XDG_DATA_HOME), or what CLUSTERTUNE_STORAGE says."""
    named = os.environ.get("CLUSTERTUNE_STORAGE")
    if named:
        return named
    base = os.environ.get("XDG_DATA_HOME")
    folder = Path(base) if base and Path(base).is_absolute() else Path.home() / ".local" / "share"
    return str(folder / "clustertune" / "studies.db")


def spelled(study: str, where: str) -> str:
    """``study`` as the words of a command, with ``--storage`` where that is not the usual place; no password is shown."""
    if where == default_storage():
        return shlex.quote(study)
    return f"{shlex.quote(study)} --storage {shlex.quote(shown(where))}"


def shown(where: str) -> str:
    """A storage as it may be printed: a URL's user and password are left out."""
    return re.sub(r"(?<=://)[^/@]*(?:@[^/@]*)*@", "***@", where)


def sqlite_path(where: str) -> Path | None:
    """The file that a storage names, None for the URL of a database server. Raises WrongUsage."""
    if not where.strip():
        raise WrongUsage("--storage: is empty", "name a file, or leave the option out")
    if "://" in where and not where.startswith("sqlite:///"):
        return None
    try:
        return Path(where.removeprefix("sqlite:///")).expanduser()
    except RuntimeError as error:
        raise WrongUsage(f"--storage {where}: {error}") from None


def check_storage(where: str) -> None:
    """Refuses early what can't keep a new study: looking at hosts and machine may take a while. Raises WrongUsage."""
    path = sqlite_path(where)
    if path is not None:
        check_file(path, create=True)


def check_file(path: Path, *, create: bool, reading: bool = False) -> None:
    """Says in a sentence what SQLAlchemy would say in a traceback, and touches no file that isn't ours to change.

    ``reading``: nothing will be written.
    """
    try:
        _check_file(path, create=create, reading=reading)
    except OSError as error:
        raise WrongUsage(f"--storage {path}: can't be used ({error.strerror or error})") from None


def _check_file(path: Path, *, create: bool, reading: bool) -> None:
    if path.is_dir():
        raise WrongUsage(f"--storage {path}: is a folder", "name a file in it, like studies.db")
    if path.exists() and not path.is_file():
        raise WrongUsage(f"--storage {path}: is not a regular file", "name a file in a folder of yours")
    if not path.exists() or (path.stat().st_size == 0 and not create):
        if not create:
            raise NoStudies(
                f"there are no studies yet: {path} does not exist", "a run makes the first, like `tune aio --device DIR`"
            )
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WrongUsage(f"--storage {path}: its folder can't be made ({error.strerror})") from None
        if not os.access(path.parent, os.W_OK):
            raise WrongUsage(f"--storage {path}: its folder is not writable", "name a file in a folder of yours")
        return
    if reading and not os.access(path, os.R_OK):
        raise WrongUsage(f"--storage {path}: is not readable", f"chmod u+r {path}, or another --storage")
    if not reading and not os.access(path, os.R_OK | os.W_OK):
        raise WrongUsage(f"--storage {path}: is not readable and writable", f"chmod u+rw {path}, or another --storage")
    with path.open("rb") as file:
        start = file.read(16)
    if start and start != b"SQLite format 3\0":
        raise WrongUsage(f"--storage {path}: is not a SQLite file", "name another file; this one is left as it is")
    if start and not _holds_studies(path):
        raise WrongUsage(f"--storage {path}: belongs to another program", "name another file; this one is left as it is")


def _holds_studies(path: Path) -> bool:
    """Whether Optuna's tables, or none at all, are in a SQLite file; a damaged one is left to who opens it."""
    with contextlib.suppress(sqlite3.Error, UnicodeDecodeError):
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=60)
        with contextlib.closing(connection):
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        # A first start that was killed has left some of the tables: whoever opens them makes the others.
        return tables <= _OPTUNA or {"studies", "trials", "alembic_version"} <= tables
    return True


@contextlib.contextmanager
def as_it_is_now(path: Path) -> Iterator[Path]:
    """``path``, or a copy of it where it may only be read: SQLite writes beside a file even to read what its log holds."""
    if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="clustertune-") as folder:
        for name in (path.name, f"{path.name}-wal"):
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(path.with_name(name), Path(folder) / name)
        yield Path(folder) / path.name


@contextlib.contextmanager
def one_at_a_time(path: Path | None) -> Iterator[None]:
    """Two first starts at once must not both create the tables."""
    if path is None:
        yield
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # network file systems without locks: the race is back, tuning still works
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def connect_storage(where: str, path: Path | None) -> RDBStorage:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if path is None:
        return optuna.storages.RDBStorage(where, engine_kwargs={"pool_pre_ping": True})

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=60, check_same_thread=False)
        # A write-ahead log keeps finished trials through kill -9 without an fsync at each commit.
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        return connection

    # The URL only selects the dialect: paths may hold ?, % and braces, which URLs and Optuna's templates read otherwise.
    return optuna.storages.RDBStorage("sqlite:///studies.db", engine_kwargs={"creator": connect})


@contextlib.contextmanager
def translated(where: str) -> Iterator[None]:
    """Database errors as sentences."""
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except ImportError as error:
        mend = "pip install psycopg2-binary (PostgreSQL) or pymysql (MySQL)"
        raise WrongUsage(f"--storage {shown(where)}: its database driver is not installed ({error})", mend) from None
    except (StorageInternalError, SQLAlchemyError, sqlite3.Error, OSError, RuntimeError, ValueError) as error:
        raise _sentence(shown(where), _root(error)) from None


def _root(error: BaseException) -> BaseException:
    """What the database itself said, under the layers that passed it on."""
    while (inner := getattr(error, "orig", None) or error.__cause__) is not None:
        error = inner
    return error


def _sentence(where: str, error: BaseException) -> WrongUsage | NotUsable:
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    if "malformed" in text or "not a database" in text or isinstance(error, UnicodeDecodeError):
        return WrongUsage(f"--storage {where}: is a damaged SQLite file", "move it away or name another --storage")
    if "readonly" in text or "read-only" in text:
        return WrongUsage(f"--storage {where}: can't be written", "check its mode and its folder's, or name another --storage")
    if "no longer compatible" in text:
        return WrongUsage(f"--storage {where}: was made by another Optuna version", "pip install --upgrade optuna")
    if "disk is full" in text or "disk I/O" in text:
        return NotUsable(f"the studies can't be kept in {where}: {text}", "free some space and `tune resume`")
    return NotUsable(f"the studies can't be kept in {where}: {text}", "name another --storage")
