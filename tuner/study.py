"""The record: every single measurement as a trial of an Optuna study, in one SQLite file or database."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from runners.runner import Failure, FailureKind, Json, Measurement, Objective, Outcome
from spaces.space import Config, Knob, Space, Value
from tuner.errors import NotUsable, WrongUsage
from tuner.recommendation import Gain, Recommendation
from tuner.trial import Phase, Trial, score

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.storages import RDBStorage
    from optuna.trial import FrozenTrial

SCHEMA = 1
_HEADER = "clustertune"
_ANSWER = "recommendation"


def default_storage() -> str:
    """``studies.db`` in the user's data folder (XDG_DATA_HOME), or what CLUSTERTUNE_STORAGE says."""
    named = os.environ.get("CLUSTERTUNE_STORAGE")
    if named:
        return named
    base = os.environ.get("XDG_DATA_HOME")
    folder = Path(base) if base and Path(base).is_absolute() else Path.home() / ".local" / "share"
    return str(folder / "clustertune" / "studies.db")


@dataclass(frozen=True, slots=True)
class Header:
    """What a study was started with; ``narrow`` holds the knobs' domains as typed, ``options`` the runner's."""

    target: str
    space: str
    objective: Objective
    baseline: Mapping[str, Value]
    narrow: Mapping[str, str]
    options: Mapping[str, Json]
    tuning: Mapping[str, Json]
    machine: Mapping[str, Json]
    started: float
    schema: int = SCHEMA


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
    """An open storage: a SQLite path, ``sqlite:///``, ``postgresql://`` or ``mysql://``. Raises WrongUsage or NotUsable."""

    def __init__(self, where: str, *, create: bool = True) -> None:
        self.where = where
        self._path = _sqlite_path(where)
        if self._path is not None:
            _check_file(self._path, create=create)
        with _translated(where), _one_at_a_time(self._path):
            self._rdb = _open(where, self._path)

    def create(self, name: str, header: Header) -> Study:
        """A new study; raises WrongUsage where the name is taken."""
        from optuna.exceptions import DuplicatedStudyError
        from optuna.study import StudyDirection

        direction = StudyDirection.MAXIMIZE if header.objective.maximise else StudyDirection.MINIMIZE
        with _translated(self.where):
            try:
                number = self._rdb.create_new_study([direction], name)
            except DuplicatedStudyError:
                raise WrongUsage(
                    f"--study {name}: a study of that name exists", f"tune resume {name}, or choose another name"
                ) from None
            self._rdb.set_study_user_attr(number, _HEADER, _to_json(header))
        return Study(self, self._rdb, number, name, header)

    def open(self, name: str) -> Study:
        """An existing study; raises WrongUsage where there is none, or it was written by a newer version."""
        with _translated(self.where):
            try:
                number = self._rdb.get_study_id_from_name(name)
            except KeyError:
                raise WrongUsage(
                    f"there is no study {name!r} in {self.where}", "`tune studies` lists the ones there are"
                ) from None
            attributes = self._rdb.get_study_user_attrs(number)
        header = _header(name, attributes)
        return Study(self, self._rdb, number, name, header)

    def listing(self) -> list[Listed]:
        """Our studies, newest first; others in the same storage are left out."""
        lines = []
        with _translated(self.where):
            for frozen in self._rdb.get_all_studies():
                raw = frozen.user_attrs.get(_HEADER)
                if not isinstance(raw, dict):
                    continue
                answer = frozen.user_attrs.get(_ANSWER)
                lines.append(
                    Listed(
                        frozen.study_name,
                        str(raw.get("target", "?")),
                        float(raw.get("started", 0.0)),
                        self._rdb.get_n_trials(frozen._study_id),
                        answer is not None,
                        str(answer.get("decision", "")) if isinstance(answer, dict) else "",
                    )
                )
        return sorted(lines, key=lambda line: -line.started)

    def delete(self, name: str) -> None:
        study = self.open(name)
        with _translated(self.where):
            self._rdb.delete_study(study.number)

    def close(self) -> None:
        self._rdb.remove_session()
        self._rdb.engine.dispose()

    def __enter__(self) -> Storage:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Study:
    """One study. ``begin`` and ``finish`` each commit, so a kill between them leaves a row that resuming finds."""

    def __init__(self, storage: Storage, rdb: RDBStorage, number: int, name: str, header: Header) -> None:
        self._storage, self._rdb = storage, rdb
        self.number, self.name, self.header = number, name, header

    def begin(self, space: Space, config: Config, phase: Phase, round: int = -1) -> int:
        """Writes a running trial and returns its id."""
        from optuna.trial import TrialState, create_trial

        template = create_trial(
            state=TrialState.RUNNING,
            params=dict(config),
            distributions=_distributions(space, self.header.baseline, config),
            user_attrs={"phase": phase, "round": round},
        )
        with _translated(self._storage.where):
            return self._rdb.create_new_trial(self.number, template)

    def finish(self, trial: int, outcome: Outcome, elapsed: float) -> None:
        """Closes a running trial; ``elapsed`` is the study's wall time so far in seconds, over all its sessions."""
        from optuna.trial import TrialState

        value = outcome.metrics.get(self.header.objective.metric) if isinstance(outcome, Measurement) else None
        measured = score(outcome, self.header.objective) is not None
        with _translated(self._storage.where):
            self._rdb.set_trial_user_attr(trial, "outcome", {**_outcome_to_json(outcome), "elapsed": elapsed})
            if measured and value is not None:
                self._rdb.set_trial_state_values(trial, TrialState.COMPLETE, [value])
            else:
                self._rdb.set_trial_state_values(trial, TrialState.FAIL)

    def abandon_running(self) -> int:
        """Closes what a killed session left running, without inventing an outcome; returns how many there were.

        A trial that was killed between its outcome and its state is finished with the outcome it has.
        """
        from optuna.trial import TrialState

        abandoned = 0
        with _translated(self._storage.where):
            for frozen in self._rdb.get_all_trials(self.number, deepcopy=False, states=(TrialState.RUNNING,)):
                outcome = _outcome(frozen)
                value = outcome.metrics.get(self.header.objective.metric) if isinstance(outcome, Measurement) else None
                if value is not None:
                    self._rdb.set_trial_state_values(frozen._trial_id, TrialState.COMPLETE, [value])
                    continue
                abandoned += outcome is None
                self._rdb.set_trial_state_values(frozen._trial_id, TrialState.FAIL)
        return abandoned

    def trials(self, space: Space) -> list[Trial]:
        """Every finished measurement in the order it was made; abandoned ones, which measured nothing, are left out."""
        found = []
        with _translated(self._storage.where):
            frozen_trials = self._rdb.get_all_trials(self.number, deepcopy=False)
        for frozen in frozen_trials:
            outcome = _outcome(frozen)
            if outcome is not None and all(knob.name in frozen.params for knob in space.knobs):
                attributes = frozen.user_attrs
                config = {knob.name: frozen.params[knob.name] for knob in space.knobs}
                phase = cast(Phase, attributes.get("phase", "search"))
                found.append(Trial(config, outcome, phase, int(attributes.get("round", -1))))
        return found

    def elapsed(self) -> float:
        """Wall seconds that the study's sessions spent, up to its last finished measurement."""
        with _translated(self._storage.where):
            frozen_trials = self._rdb.get_all_trials(self.number, deepcopy=False)
        return max((float(t.user_attrs.get("outcome", {}).get("elapsed", 0.0)) for t in frozen_trials), default=0.0)

    def note(self, key: str, value: Json) -> None:
        """Keeps a fact of the run beside its trials, replacing the one of that name."""
        with _translated(self._storage.where):
            self._rdb.set_study_user_attr(self.number, key, value)

    def noted(self, key: str) -> Json:
        with _translated(self._storage.where):
            return cast(Json, self._rdb.get_study_user_attrs(self.number).get(key))

    def answer(self, recommendation: Recommendation) -> None:
        with _translated(self._storage.where):
            self._rdb.set_study_user_attr(self.number, _ANSWER, _to_json(recommendation))

    def recommendation(self) -> Recommendation | None:
        with _translated(self._storage.where):
            raw = self._rdb.get_study_user_attrs(self.number).get(_ANSWER)
        if not isinstance(raw, dict):
            return None
        gain = raw.get("gain")
        fields: dict[str, Any] = {**raw, "gain": Gain(**gain) if gain else None}
        fields["equals"], fields["warnings"] = tuple(raw["equals"]), tuple(raw["warnings"])
        return Recommendation(**fields)


def new_name(target: str, now: float) -> str:
    """A name that sorts by time and does not collide: ``aio-20260131-142501-3f2a``."""
    return f"{target}-{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}-{os.urandom(2).hex()}"


def _to_json(record: Header | Recommendation) -> dict[str, Any]:
    """Plain JSON; a round trip keeps what NaN or a tuple would not."""
    return cast("dict[str, Any]", json.loads(json.dumps(asdict(record), default=list)))


def _header(name: str, attributes: Mapping[str, Any]) -> Header:
    raw = attributes.get(_HEADER)
    if not isinstance(raw, dict):
        raise WrongUsage(f"study {name!r} was not made by clustertune", "`tune studies` lists the ones that were")
    schema = raw.get("schema")
    if not isinstance(schema, int) or schema > SCHEMA:
        raise WrongUsage(
            f"study {name!r} was written by a newer clustertune (format {schema}, this one knows {SCHEMA})",
            "pip install --upgrade clustertune",
        )
    try:
        return Header(**{**raw, "objective": Objective(**raw["objective"])})
    except (KeyError, TypeError) as error:
        raise WrongUsage(f"study {name!r} is damaged: {error}", f"tune delete {name}, and start a new one") from None


def _outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    if isinstance(outcome, Measurement):
        return {
            "metrics": dict(outcome.metrics),
            "samples": list(outcome.samples),
            "seconds": outcome.seconds,
            "bytes_written": outcome.bytes_written,
            "evidence": dict(outcome.evidence),
        }
    # The tail of a log says why a program died; whole logs would swell the file.
    return {**asdict(replace(outcome, log=outcome.log[-2000:]))}


def _outcome(frozen: FrozenTrial) -> Outcome | None:
    raw = frozen.user_attrs.get("outcome")
    if not isinstance(raw, dict):
        return None
    if "kind" in raw:
        kind = cast(FailureKind, raw["kind"])
        return Failure(kind, raw["reason"], raw["log"], raw["seconds"], raw["bytes_written"])
    return Measurement(raw["metrics"], tuple(raw["samples"]), raw["seconds"], raw["bytes_written"], raw["evidence"])


def _distributions(space: Space, *configs: Config) -> dict[str, BaseDistribution]:
    """Optuna's view of the knobs, wide enough for ``configs``: a baseline may lie outside a narrowed domain."""
    return {knob.name: _distribution(knob, [config[knob.name] for config in configs]) for knob in space.knobs}


def _distribution(knob: Knob, others: Sequence[Value]) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, IntDistribution

    values = [*knob.domain.values, *others]
    if knob.domain.ordinal:
        numbers = [int(value) for value in values]
        return IntDistribution(min(numbers), max(numbers), log=knob.domain.kind == "log2")
    # Optuna wants the same choices in the same order in every trial of a study.
    return CategoricalDistribution(sorted(set(values), key=str))


def _sqlite_path(where: str) -> Path | None:
    if where.startswith("sqlite:///"):
        return Path(where.removeprefix("sqlite:///")).expanduser()
    if "://" in where:
        return None
    return Path(where).expanduser()


def _check_file(path: Path, *, create: bool) -> None:
    """Says in a sentence what SQLAlchemy would say in a traceback."""
    if path.is_dir():
        raise WrongUsage(f"--storage {path}: is a folder", "name a file in it, like studies.db")
    if not path.exists():
        if not create:
            raise WrongUsage(f"there are no studies yet: {path} does not exist", "`tune aio --device DIR` makes the first")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WrongUsage(f"--storage {path}: its folder can't be made ({error.strerror})") from None
        if not os.access(path.parent, os.W_OK):
            raise WrongUsage(f"--storage {path}: its folder is not writable", "name a file in a folder of yours")
        return
    if not os.access(path, os.R_OK | os.W_OK):
        raise WrongUsage(f"--storage {path}: is not readable and writable", f"chmod u+rw {path}, or another --storage")
    with path.open("rb") as file:
        start = file.read(16)
    if start and start != b"SQLite format 3\0":
        raise WrongUsage(f"--storage {path}: is not a SQLite file", "name another file; this one is left as it is")


@contextlib.contextmanager
def _one_at_a_time(path: Path | None) -> Iterator[None]:
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


def _open(where: str, path: Path | None) -> RDBStorage:
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
def _translated(where: str) -> Iterator[None]:
    """Database errors as sentences."""
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (StorageInternalError, SQLAlchemyError, sqlite3.Error, ImportError, RuntimeError) as error:
        raise _sentence(where, _root(error)) from None


def _root(error: BaseException) -> BaseException:
    """What the database itself said, under the layers that passed it on."""
    while (inner := getattr(error, "orig", None) or error.__cause__) is not None:
        error = inner
    return error


def _sentence(where: str, error: BaseException) -> WrongUsage | NotUsable:
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    if "malformed" in text or "not a database" in text:
        return WrongUsage(f"--storage {where}: is a damaged SQLite file", "move it away or name another --storage")
    if "readonly" in text or "read-only" in text:
        return WrongUsage(f"--storage {where}: can't be written", "check its mode and its folder's, or name another --storage")
    if "no longer compatible" in text:
        return WrongUsage(f"--storage {where}: was made by another Optuna version", "pip install --upgrade optuna")
    if "disk is full" in text or "disk I/O" in text:
        return NotUsable(f"the studies can't be kept in {where}: {text}", "free some space and `tune resume`")
    return NotUsable(f"the studies can't be kept in {where}: {text}", "name another --storage")
