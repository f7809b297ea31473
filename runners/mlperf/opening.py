"""From what a user typed after `tune mlperf run` to a session: options checked, DLIO and MPI found, the data set there."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from runners.hosts import hosts_for
from runners.mlperf.benchmark import DataSet, generate, look, record_length, steps_of
from runners.mlperf.command import known, parameter, workload_name
from runners.mlperf.divisions import division_of
from runners.mlperf.installed import find_dlio
from runners.mlperf.launching import HERE, Start, Tell, find_launcher
from runners.mlperf.memory import host_memory
from runners.mlperf.session import Session, words_of
from runners.mlperf.size import data_size, files_short
from runners.mlperf.workloads import Workload, find
from runners.runner import EnvironmentProblem, Failure, UsageError
from runners.scratch import Scratch
from spaces.units import format_duration, parse_duration

LEAST_STEPS = 50
_MOST_RANKS, _MOST_RUNS, _MOST_EPOCHS = 4096, 100, 1000
# Start-up, and storage that is twenty times too slow for the accelerators.
_START, _SLOW = 300.0, 20.0
# The slowest disk that data are generated on, in bytes a second.
_WRITES = 4 << 20
_SIZE_DIFFERS = 1.5
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of `tune mlperf run`, as typed; "" and 0 stand for what is told there."""

    data: Path
    model: str = "unet3d"
    accelerator: str = ""
    accelerators: int = 1
    version: str = ""
    runs: int = 1
    files: int = 0
    epochs: int = 0
    parameters: tuple[str, ...] = ()
    open_division: bool = False
    results: Path = Path("mlperf-results")
    hosts: str = ""
    mpi: str = ""
    python: str = ""
    ssh: str = "ssh"
    limit: str = ""


@contextmanager
def opened(asked: Asked, tell: Tell) -> Iterator[Session]:
    """Everything checked, and the data set generated where there is none. Raises UsageError, EnvironmentProblem."""
    workload = find(asked.model, asked.version, asked.accelerator)
    for option, value, most in (
        ("accelerators", asked.accelerators, _MOST_RANKS),
        ("runs", asked.runs, _MOST_RUNS),
        ("epochs", asked.epochs or workload.epochs, _MOST_EPOCHS),
    ):
        if not 1 <= value <= most:
            raise UsageError(option, value, f"must be from 1 to {most}")
    if asked.files < 0:
        raise UsageError("files", asked.files, "must be 0, for all that are there, or how many")
    limit = _duration(asked.limit) if asked.limit else None
    dlio = find_dlio(asked.python)
    dlio.refuse(workload)
    parameters = _parameters(asked, workload, known(dict(map(parameter, asked.parameters)), dlio))
    start = Start(dlio, find_launcher(dlio, asked.mpi, asked.ssh), hosts_for(asked.hosts) or (HERE,))
    folder = _results(asked, workload)
    # Other hosts see the results folder, which they share, and not this one's temporary files.
    with Scratch.create(Path(tempfile.gettempdir()) if start.hosts == (HERE,) else asked.results.absolute()) as scratch:
        data = _data(asked, workload, start, parameters, scratch.path, tell)
        epochs = asked.epochs or workload.epochs
        session = Session(
            workload=workload,
            start=start,
            data=data,
            parameters=parameters,
            ranks=asked.accelerators,
            epochs=epochs,
            folder=folder,
            limit=limit or _limit(workload, data, asked.accelerators, epochs, parameters),
            scratch=scratch.path,
            tell=tell,
        )
        session.notes += _notes(session, asked)
        folder.mkdir(parents=True, exist_ok=True)
        yield session


def _duration(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError("limit", text, str(error)) from None


def _parameters(asked: Asked, workload: Workload, given: dict[str, str]) -> dict[str, str]:
    division = division_of(workload.version, workload.model, given)
    if division.division != "closed" and not asked.open_division:
        raise UsageError("param", ",".join(sorted(given)), f"{division.why}; with --open it runs, and says so")
    return given


def _results(asked: Asked, workload: Workload) -> Path:
    """Where the runs go, laid out as the version's own tools do it."""
    root = asked.results.absolute()
    new = workload.version == "v2.0"
    folder = root / "training" / workload.model / "run" if new else root / workload_name(workload)
    try:
        if folder.exists() and any(folder.iterdir()):
            raise UsageError("results", asked.results, f"{folder} holds results already; name another folder")
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError("results", asked.results, f"{folder} can't be made: {error.strerror}") from None
    return folder


def _data(asked: Asked, workload: Workload, start: Start, parameters: dict[str, str], scratch: Path, tell: Tell) -> DataSet:
    folder = asked.data.absolute()
    if folder.exists() and not folder.is_dir():
        raise UsageError("data", asked.data, "is no folder")
    try:
        there = look(folder, workload)
    except OSError as error:
        raise EnvironmentProblem(f"{folder} can't be read: {error.strerror or error}") from None
    if there is not None:
        if asked.files > there.files:
            raise UsageError("files", asked.files, f"{folder} holds {there.files}; name another folder to generate more")
        files = asked.files or there.files
        return DataSet(there.folder, files, there.file_size, there.subfolders)
    if asked.files < 1:
        need = data_size(workload, asked.accelerators, host_memory(), len(start.hosts))
        why = f"{folder} holds no data set for {workload.model}: say how many files to generate"
        raise UsageError("files", asked.files, f"{why} (the rules ask for {need.files} here, {need.gib:.0f} GB)")
    if not folder.parent.is_dir():
        raise UsageError("data", asked.data, f"{folder.parent} is no folder")
    _enough(asked.files, asked.accelerators, workload, parameters)
    _room(folder.parent, asked.files * workload.sample.per_file * record_length(workload, parameters))
    tell(f"generating {asked.files} files in {folder}")
    ranks = max(1, min(os.cpu_count() or 1, 8, asked.files))
    limit = _START + 60 + asked.files * workload.sample.per_file * record_length(workload, parameters) / _WRITES
    with _undone(folder) as keep:
        made = generate(start, workload, folder, asked.files, parameters, ranks=ranks, scratch=scratch, limit=limit, tell=tell)
        keep(isinstance(made, DataSet))
    if isinstance(made, Failure):
        raise EnvironmentProblem(f"the data set can't be generated ({made.kind}): {made.reason}", words_of(made))
    return made


@contextmanager
def _undone(folder: Path) -> Iterator[Callable[[bool], None]]:
    """Takes away what was begun in ``folder`` and not finished, where nothing of the kind was there before."""
    fresh = [folder / name for name in ("train", "valid") if not (folder / name).exists()]
    there, whole = folder.exists(), False

    def keep(finished: bool) -> None:
        nonlocal whole
        whole = finished

    try:
        yield keep
    finally:
        if not whole:
            for each in fresh:
                shutil.rmtree(each, ignore_errors=True)
            if not there:
                with suppress(OSError):
                    folder.rmdir()


def _enough(files: int, ranks: int, workload: Workload, parameters: dict[str, str]) -> None:
    """Raises UsageError for an epoch too short to be timed."""
    batch = _batch(workload, parameters)
    if steps_of(workload, files, batch, ranks) < 2:
        each = "1 accelerator" if ranks == 1 else f"{ranks} accelerators"
        raise UsageError("files", files, f"is less than two steps for {each} with {batch} samples a step")


def _room(folder: Path, need: float) -> None:
    free = shutil.disk_usage(folder).free
    if need > 0.95 * free:
        why = f"the data set takes {need / _GIB:.1f} GiB and {folder} has {free / _GIB:.1f} GiB left"
        raise EnvironmentProblem(why, "fewer --files, or another --data")


def _limit(workload: Workload, data: DataSet, ranks: int, epochs: int, parameters: dict[str, str]) -> float:
    steps = steps_of(workload, data.files, _batch(workload, parameters), ranks)
    seconds = float(parameters.get("train.computation_time", workload.computation_time))
    return _START + _SLOW * epochs * steps * seconds


def _batch(workload: Workload, parameters: dict[str, str]) -> int:
    text = parameters.get("reader.batch_size", str(workload.batch))
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise UsageError("param", f"reader.batch_size={text}", "must be a whole number from 1")
    return int(text)


def _notes(session: Session, asked: Asked) -> Iterator[str]:
    """What makes these runs no submission, or their figures weak."""
    workload, data = session.workload, session.data
    steps = steps_of(workload, data.files, _batch(workload, session.parameters), session.ranks)
    _enough(data.files, session.ranks, workload, session.parameters)
    memory = host_memory() * len(session.start.hosts)
    if short := files_short(workload, session.ranks, memory, data.files):
        yield f"no submission: {short}"
    nominal = workload.sample.length * workload.sample.per_file
    if not nominal / _SIZE_DIFFERS <= data.file_size <= nominal * _SIZE_DIFFERS:
        yield f"no submission: the files have {data.file_size:.0f} bytes where {workload.model}'s have {nominal:.0f}"
    epochs = {"train.epochs": str(session.epochs)} if session.epochs != workload.epochs else {}
    division = division_of(workload.version, workload.model, {**session.parameters, **epochs})
    if division.division != "closed":
        yield f"{'OPEN division' if division.division == 'open' else 'no submission'}: {division.why}"
    if steps < LEAST_STEPS:
        yield f"{steps} steps an epoch are few: below {LEAST_STEPS} start-up weighs too much to compare anything"
    if workload.version == "v2.0" and asked.runs == 5:
        yield "v2.0 asks for a warm-up before its five runs: --runs 6"
    yield f"a run takes at most {format_duration(session.limit)}; --limit changes that"
