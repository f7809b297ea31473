"""DLIO that ends well is not believed: its files, ranks, epochs and steps are looked at. What it leaves is recorded."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from runners.launch.job import Ended, Finished
from runners.mlperf.benchmark import DataSet, Trained, generate, look, train
from runners.mlperf.installed import Dlio
from runners.mlperf.launching import Start
from runners.mlperf.workloads import find
from runners.runner import Failure

UNET3D = find("unet3d", "v1.0", "h100")
NAMES = frozenset({"record_length", "record_length_stdev", "batch_size", "folder"})
OLD = Dlio("/opt/bin/python", Path("/opt/dlio"), "2.0.0", NAMES, True, False, True)
Leave = Callable[[Path, dict[str, str]], None]


@dataclass
class Recorded:
    """Stands in for a start: keeps the command, and leaves behind what a DLIO did."""

    leave: Leave
    ends: Failure | None = None
    dlio: Dlio = OLD
    given: dict[str, str] = field(default_factory=dict)

    def run(self, argv: tuple[str, ...], ranks: int, scratch: Path, limit: float, log: Any = None, tell: Any = None) -> Any:
        words = [word.removeprefix("++workload.") for word in argv if word.startswith("++workload.")]
        self.given = dict(word.split("=", 1) for word in words)
        if self.ends is not None:
            return self.ends
        self.leave(Path(self.given["output.folder"]), self.given)
        ended = tuple(Ended(rank, "here", "here", "", "said by DLIO", 1.0) for rank in range(ranks))
        return Finished(ended, 1.0, "", ("mpirun",))


def trained(ranks: int = 2, accelerators: int = 2, epochs: int = 2, steps: int = 5, au: float = 90.0, **metric: Any) -> Leave:
    """What a run leaves."""

    def leave(output: Path, _given: dict[str, str]) -> None:
        output.mkdir(parents=True)
        figures = {
            "train_au_percentage": [au] * epochs,
            "train_au_mean_percentage": au,
            "train_au_meet_expectation": "success" if au >= 90 else "fail",
            "train_throughput_samples_per_second": [10.0 if au else 0.0] * epochs,
            "train_throughput_mean_samples_per_second": 10.0 if au else 0.0,
            "train_io_mean_MB_per_second": 1.0,
            **metric,
        }
        summary = {
            "num_accelerators": accelerators,
            "num_hosts": 1,
            "metric": figures,
            "num_files_train": 20,
            "epochs": epochs,
        }
        (output / "summary.json").write_text(json.dumps(summary))
        numbers = range(1, epochs + 1)
        for rank in range(ranks):
            one = {"block1": [0.1] * steps}
            record = {str(n): {"load": one, "proc": one, "compute": {"block1": [0.09] * steps}} for n in numbers}
            (output / f"{rank}_output.json").write_text(json.dumps(record))
        block = {"start": "2026-01-01T10:00:00", "end": "2026-01-01T10:00:05"}
        (output / "per_epoch_stats.json").write_text(json.dumps({str(n): {"block1": block} for n in numbers}))

    return leave


def run(tmp_path: Path, start: Recorded, **more: str) -> Trained | Failure:
    data = DataSet(tmp_path / "data", 20, 1000.0)
    return train(
        cast(Start, start),
        UNET3D,
        data,
        {"reader.batch_size": "2", **more},
        ranks=2,
        epochs=2,
        output=tmp_path / "out",
        kept="configs",
        scratch=tmp_path,
        limit=10,
    )


def test_a_run_as_asked_is_believed(tmp_path: Path) -> None:
    start = Recorded(trained())
    done = run(tmp_path, start)
    assert isinstance(done, Trained)
    assert [epoch.steps for epoch in done.epochs] == [5, 5]
    assert done.epochs[0].au == pytest.approx(90)
    assert start.given["workflow.train"] == "True"
    assert start.given["dataset.num_files_train"] == "20"
    assert start.given["train.epochs"] == "2"


def test_a_number_of_steps_that_is_asked_for_counts(tmp_path: Path) -> None:
    done = run(tmp_path, Recorded(trained(steps=3)), **{"train.total_training_steps": "3"})
    assert isinstance(done, Trained)


@pytest.mark.parametrize(
    ("leave", "words"),
    [
        (trained(au=0.0), "the run failed: the accelerator utilisation of epoch 1, 2 is 0"),
        (trained(accelerators=1, ranks=1), "2 accelerators were started and DLIO tells of 1"),
        (trained(ranks=1), "its mpi4py may use another MPI"),
        (trained(epochs=1), "2 epochs were asked for and DLIO tells of 1"),
        (trained(steps=4), "epoch 1 made 4 steps where 5 were asked for"),
        (trained(train_au_mean_percentage="none"), "left no result that can be used"),
        (lambda output, given: output.mkdir(), "summary.json: can't be read"),
    ],
)
def test_a_run_that_did_something_else_is_wrong_and_keeps_what_it_said(tmp_path: Path, leave: Leave, words: str) -> None:
    done = run(tmp_path, Recorded(leave))
    assert isinstance(done, Failure)
    assert done.kind == "wrong"
    assert words in done.reason
    assert "said by DLIO" in done.log


@pytest.mark.parametrize(
    ("log", "kind", "words"),
    [
        ("Exception: Not enough training dataset is found;", "crash", "the data set has fewer files than the run asks for"),
        ("OSError: [Errno 28] No space left on device", "environment", "the disk is full"),
        ("OSError: [Errno 107] Transport endpoint is not connected", "crash", "the mount went away"),
        ("RuntimeError: DataLoader worker (pid 7) is killed", "crash", "a reader process died"),
        ("something else", "crash", "rank 1 on here ended with status 1"),
    ],
)
def test_failures_of_dlio_are_said_in_our_words(tmp_path: Path, log: str, kind: str, words: str) -> None:
    done = run(tmp_path, Recorded(trained(), Failure("crash", "rank 1 on here ended with status 1", log)))
    assert isinstance(done, Failure)
    assert done.kind == kind
    assert words in done.reason
    assert "rank 1 on here" in done.reason


def files(number: int, size: int) -> Leave:
    def leave(_output: Path, given: dict[str, str]) -> None:
        folder = Path(given["dataset.data_folder"]) / "train"
        folder.mkdir(parents=True)
        for index in range(number):
            (folder / f"img_{index}.npz").write_bytes(b"x" * size)

    return leave


def made(tmp_path: Path, leave: Leave) -> DataSet | Failure:
    parameters = {"dataset.record_length": "1000", "dataset.record_length_stdev": "0"}
    start = cast(Start, Recorded(leave))
    return generate(start, UNET3D, tmp_path / "d", 30, parameters, ranks=1, scratch=tmp_path, limit=10)


def test_data_of_the_right_number_and_size_are_taken(tmp_path: Path) -> None:
    assert made(tmp_path, files(30, 1250)) == DataSet(tmp_path / "d", 30, 1250, 0, 1250)


@pytest.mark.parametrize(
    ("leave", "words"),
    [
        (files(29, 1000), "said that it made 30 files, and 29 are in"),
        (files(30, 140000), "files of 140000 bytes where 1000 were asked for: it may not know a parameter"),
        (files(30, 0), "files of 0 bytes"),
        (lambda output, given: None, "and 0 are in"),
    ],
)
def test_data_that_were_not_asked_for_are_wrong(tmp_path: Path, leave: Leave, words: str) -> None:
    done = made(tmp_path, leave)
    assert isinstance(done, Failure)
    assert done.kind == "wrong"
    assert words in done.reason


def test_data_in_subfolders_are_found(tmp_path: Path) -> None:
    for name in ("0", "1"):
        (tmp_path / "train" / name).mkdir(parents=True)
        for index in range(3):
            (tmp_path / "train" / name / f"img_{index}.npz").write_bytes(b"xx")
    assert look(tmp_path, UNET3D) == DataSet(tmp_path, 6, 2.0, 2, 2)
    assert look(tmp_path / "train", UNET3D) is None
