"""One data set generated and one training run by DLIO, each checked by what it left, not by what it said."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from runners.launch.job import Finished
from runners.mlperf.command import Parameters, arguments, write_configuration
from runners.mlperf.fields import BadResult
from runners.mlperf.launching import Start, Tell
from runners.mlperf.output import EpochFigures, output_ranks, read_epochs
from runners.mlperf.summary import Summary, read_summary
from runners.mlperf.workloads import Workload
from runners.runner import Failure

# DLIO rounds records to squares and adds a header; a name that it doesn't know leaves files of many times the size.
# Sizes of few files scatter: their mean says less.
_SIZES_DIFFER, _FEW_DIFFER, _MANY = 1.5, 4.0, 20
_LOOKED_AT = 200


@dataclass(frozen=True, slots=True)
class DataSet:
    """What lies in a folder for DLIO: ``files`` of ``file_size`` bytes in the mean, below ``folder``/train.

    ``subfolders`` is how many folders they are spread over, 0 for none; ``largest`` the size of the largest, 0 if not known.
    """

    folder: Path
    files: int
    file_size: float
    subfolders: int = 0
    largest: int = 0

    @property
    def bytes(self) -> int:
        return int(self.files * self.file_size)


@dataclass(frozen=True, slots=True)
class Trained:
    """A training run that did what it was asked to. ``epochs`` are our own figures, the same whatever DLIO's version."""

    summary: Summary
    epochs: tuple[EpochFigures, ...]
    seconds: float
    command: tuple[str, ...]


def look(folder: Path, workload: Workload) -> DataSet | None:
    """The training data of ``workload``'s format in ``folder``; None where there is none. Raises OSError."""
    train = folder / "train"
    if not train.is_dir():
        return None
    entries = sorted(train.iterdir())
    below = [entry for entry in entries if entry.is_dir()]
    files = [file for place in below or [train] for file in _files(place, workload.sample.format)]
    if not files:
        return None
    some = files[:: max(1, len(files) // _LOOKED_AT)]
    sizes = [file.stat().st_size for file in some]
    return DataSet(folder, len(files), sum(sizes) / len(sizes), len(below), max(sizes))


def _files(folder: Path, ending: str) -> Iterator[Path]:
    return (entry for entry in sorted(folder.iterdir()) if entry.name.endswith(f".{ending}"))


def record_length(workload: Workload, parameters: Mapping[str, str]) -> float:
    """Bytes of a record as ``parameters`` (in any version's names) ask for it."""
    for name in ("dataset.record_length_bytes", "dataset.record_length"):
        if name in parameters:
            return float(parameters[name])
    return workload.sample.length


def generate(
    start: Start,
    workload: Workload,
    folder: Path,
    files: int,
    parameters: Parameters,
    *,
    ranks: int,
    scratch: Path,
    limit: float,
    tell: Tell | None = None,
) -> DataSet | Failure:
    """Writes ``files`` training files into ``folder`` with ``ranks`` processes; other files there are left alone.

    Failure "wrong" where DLIO ended well and the files are not what was asked for.
    """
    given = {
        "workflow.generate_data": "True",
        "workflow.train": "False",
        "dataset.data_folder": str(folder),
        "dataset.num_files_train": str(files),
        **parameters,
    }
    output = scratch / "datagen"
    done = _run(start, workload, given, output, ".hydra", ranks, scratch, limit, tell)
    shutil.rmtree(output, ignore_errors=True)
    if isinstance(done, Failure):
        return done
    made = look(folder, workload)
    if made is None or made.files < files:
        there = 0 if made is None else made.files
        return Failure("wrong", f"DLIO said that it made {files} files, and {there} are in {folder}/train", _log(done))
    wanted = record_length(workload, parameters) * workload.sample.per_file
    most = _SIZES_DIFFER if files >= _MANY else _FEW_DIFFER
    if not wanted / most <= made.file_size <= wanted * most:
        why = f"DLIO made files of {made.file_size:.0f} bytes where {wanted:.0f} were asked for"
        return Failure("wrong", f"{why}: it may not know a parameter", _log(done))
    return made


def train(
    start: Start,
    workload: Workload,
    data: DataSet,
    parameters: Parameters,
    *,
    ranks: int,
    epochs: int,
    output: Path,
    kept: str,
    scratch: Path,
    limit: float,
    tell: Tell | None = None,
) -> Trained | Failure:
    """Trains on ``data`` with ``ranks`` emulated accelerators, the results in ``output`` (made here).

    Failure "wrong" for a run that ended well and didn't do what it was asked to: other accelerators, epochs or steps, or a
    utilisation of 0.
    """
    given = {
        "workflow.generate_data": "False",
        "workflow.train": "True",
        "dataset.data_folder": str(data.folder),
        "dataset.num_files_train": str(data.files),
        **({"dataset.num_subfolders_train": str(data.subfolders)} if data.subfolders else {}),
        **({"train.epochs": str(epochs)} if epochs != workload.epochs else {}),
        **parameters,
    }
    done = _run(start, workload, given, output, kept, ranks, scratch, limit, tell)
    if isinstance(done, Failure):
        return done
    batch = int(given.get("reader.batch_size", workload.batch))
    files = int(given["dataset.num_files_train"])
    steps = steps_of(workload, files, batch, ranks)
    total = given.get("train.total_training_steps", workload.total_steps)
    if total is not None:
        steps = min(steps, int(total))
    try:
        summary = read_summary(output / "summary.json")
        if why := _not_as_asked(summary, output, ranks, epochs):
            return Failure("wrong", why, _log(done), done.seconds)
        found = read_epochs(output, batch, ranks)
    except BadResult as error:
        return Failure("wrong", f"DLIO ended well and left no result that can be used: {error}", _log(done), done.seconds)
    other = [epoch for epoch in found if epoch.steps != steps]
    if other:
        why = f"epoch {other[0].number} made {other[0].steps} steps where {steps} were asked for"
        return Failure("wrong", why, _log(done), done.seconds)
    return Trained(summary, tuple(found), done.seconds, done.command)


def steps_of(workload: Workload, files: int, batch: int, ranks: int) -> int:
    """Steps of one epoch."""
    return files * workload.sample.per_file // batch // ranks


def _not_as_asked(summary: Summary, output: Path, ranks: int, epochs: int) -> str:
    told = output_ranks(output)
    if summary.accelerators != ranks or told != list(range(ranks)):
        return (
            f"{ranks} accelerators were started and DLIO tells of {summary.accelerators}: "
            "its mpi4py may use another MPI than the mpirun that started it"
        )
    if summary.training is None:
        return "DLIO only wrote checkpoints"
    if summary.training.failure:
        return f"the run failed: {summary.training.failure}"
    if summary.epochs != epochs:
        return f"{epochs} epochs were asked for and DLIO tells of {summary.epochs}"
    return ""


def _run(
    start: Start,
    workload: Workload,
    parameters: Parameters,
    output: Path,
    kept: str,
    ranks: int,
    scratch: Path,
    limit: float,
    tell: Tell | None,
) -> Finished | Failure:
    conf = scratch / "conf"
    write_configuration(conf, workload, start.dlio)
    # In every one of DLIO's versions this decides where it writes, whatever Hydra does with its own folder.
    given = {**parameters, "output.folder": str(output)} if start.dlio.knows("output.folder") else parameters
    argv = arguments(start.dlio, conf, workload, given, output, kept=kept)
    done = start.run(argv, ranks, scratch, limit, output / "dlio.log", tell)
    return _explained(done) if isinstance(done, Failure) else done


_KNOWN = (
    ("Not enough training dataset", "the data set has fewer files than the run asks for"),
    ("No space left on device", "the disk is full"),
    ("Disk quota exceeded", "the disk quota is used up"),
    ("Transport endpoint is not connected", "the mount went away while it was read"),
    ("DataLoader worker", "a reader process died; it may have run out of memory or of /dev/shm"),
)


def _explained(failure: Failure) -> Failure:
    """A failure of DLIO with what its log says in the user's words, where that is known."""
    for words, meaning in _KNOWN:
        if words in failure.log or words in failure.reason:
            kind = "environment" if meaning.startswith("the disk") else failure.kind
            return Failure(kind, f"{meaning} ({failure.reason})", failure.log, failure.seconds)
    return failure


def _log(done: Finished) -> str:
    ranks = "\n".join((rank.stderr or rank.stdout)[-2048:] for rank in done.ranks[:4])
    return f"{done.log}\n{ranks}".strip()
