"""All studies of one SQLite file or database: made, listed, opened and deleted."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from tuner.database import as_it_is_now, check_file, connect_storage, one_at_a_time, shown, sqlite_path, translated
from tuner.errors import NotUsable, WrongUsage
from tuner.study import ANSWER, HEADER, Header, Study, read_header, to_json


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of `tune studies`."""

    name: str
    target: str
    started: float
    trials: int
    finished: bool
    decision: str


class Storage:
    """An open storage: a SQLite path, ``sqlite:///``, ``postgresql://`` or ``mysql://``. Raises WrongUsage or NotUsable.

    ``reading``: it is there already and nothing will be written; a file that may only be read will do.
    """

    def __init__(self, where: str, *, create: bool = True, reading: bool = False) -> None:
        self.where = where
        self._path = sqlite_path(where)
        with contextlib.ExitStack() as held:
            if self._path is not None:
                check_file(self._path, create=create and not reading, reading=reading)
                if reading:
                    self._path = held.enter_context(as_it_is_now(self._path))
            with translated(where), one_at_a_time(self._path):
                self._rdb = connect_storage(where, self._path)
            self._held = held.pop_all()
        self._file = _identity(self._path)

    def create(self, name: str, header: Header) -> Study:
        """A new study; raises WrongUsage where the name is taken."""
        from optuna.exceptions import DuplicatedStudyError
        from optuna.study import StudyDirection

        direction = StudyDirection.MAXIMIZE if header.objective.maximise else StudyDirection.MINIMIZE
        with translated(self.where):
            try:
                number = self._rdb.create_new_study([direction], name)
            except DuplicatedStudyError:
                raise WrongUsage(
                    f"--study {name}: a study of that name exists", f"tune resume {name}, or choose another name"
                ) from None
            self._rdb.set_study_user_attr(number, HEADER, to_json(header))
        return Study(self.where, self._rdb, number, name, header, self.check_present)

    def open(self, name: str) -> Study:
        """An existing study; raises WrongUsage where there is none, or it was written by a newer version."""
        with translated(self.where):
            try:
                number = self._rdb.get_study_id_from_name(name)
            except KeyError:
                raise WrongUsage(
                    f"there is no study {name!r} in {shown(self.where)}", "`tune studies` lists the ones there are"
                ) from None
            attributes = self._rdb.get_study_user_attrs(number)
        header = read_header(name, attributes)
        return Study(self.where, self._rdb, number, name, header, self.check_present)

    def check_present(self) -> None:
        """Raises NotUsable where somebody took the file away: what is written then is kept nowhere."""
        if _identity(self._path) != self._file:
            raise NotUsable(f"the study file {self._path} was removed or replaced during the run", "start a new study")

    def listing(self) -> list[Listed]:
        """Our studies, newest first; others in the same storage are left out."""
        lines = []
        with translated(self.where):
            for frozen in self._rdb.get_all_studies():
                raw = frozen.user_attrs.get(HEADER)
                if not isinstance(raw, dict):
                    continue
                answer = frozen.user_attrs.get(ANSWER)
                lines.append(
                    Listed(
                        frozen.study_name,
                        str(raw.get("target", "?")),
                        float(raw.get("started", 0.0)),
                        sum("outcome" in t.user_attrs for t in self._rdb.get_all_trials(frozen._study_id, deepcopy=False)),
                        answer is not None,
                        str(answer.get("decision", "")) if isinstance(answer, dict) else "",
                    )
                )
        return sorted(lines, key=lambda line: -line.started)

    def delete(self, name: str) -> None:
        study = self.open(name)
        with translated(self.where):
            self._rdb.delete_study(study.number)

    def close(self) -> None:
        self._rdb.remove_session()
        self._rdb.engine.dispose()
        self._held.close()

    def __enter__(self) -> Storage:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _identity(path: Path | None) -> tuple[int, int] | None:
    if path is None:
        return None
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def new_name(target: str, now: float) -> str:
    """A name that sorts by time and does not collide: ``aio-20260131-142501-3f2a``."""
    return f"{target}-{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}-{os.urandom(2).hex()}"
