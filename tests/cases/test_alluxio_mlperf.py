"""Cases of the public reports on MLPerf Storage and DLIO: figures to reproduce, and zeros and epochs not to be believed."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from runners.mlperf.bound import bound
from runners.mlperf.epochs import that_read
from runners.mlperf.reported import read_report
from runners.mlperf.size import io_rate
from runners.mlperf.summary import read_summary
from tuner.cli.app import build, run

DATA = Path(__file__).parents[1] / "data" / "mlperf"
SIZE = "mlperf size --model unet3d --mlperf-version v0.5 --accelerators 4 --memory 32G".split()  # noqa: SIM905


def test_datasize(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*SIZE, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["files"] == 1600
    assert int(told["storage_gb"]) == 218


def test_datasize_for_people() -> None:
    text = CliRunner().invoke(build(), SIZE).stdout
    assert "1600" in text
    assert "218 GB" in text


def test_io_mean() -> None:
    assert io_rate(56.90265822935148, 146600628) == 7955.518180172248


def test_accelerators_as_text(tmp_path: Path) -> None:
    file = tmp_path / "mlperf_storage_report.json"
    run_of = {
        "train_throughput_samples_per_second": 56.90265822935148,
        "train_throughput_MB_per_second": 7955.518180172248,
        "train_num_accelerators": "20",
        "model": "unet3d",
        "num_files_train": 27900,
        "num_samples_per_file": 1,
    }
    overall = {
        "model": "unet3d",
        "num_client_hosts": 1,
        "num_benchmark_runs": 1,
        "train_num_accelerators": "20",
        "num_files_train": 27900,
        "num_samples_per_file": 1,
        "train_throughput_mean_samples_per_second": 56.90265822935148,
        "train_throughput_stdev_samples_per_second": 0.0,
        "train_throughput_mean_MB_per_second": 7955.518180172248,
        "train_throughput_stdev_MB_per_second": 0.0,
    }
    file.write_text(json.dumps({"overall": overall, "runs": {"run-1": run_of}}))
    (report,) = read_report(file)
    assert report.accelerators == 20
    assert report.runs[0].accelerators == 20
    assert report.doubts == ()


def test_au_cliff(tmp_path: Path) -> None:
    summary = json.loads((DATA / "v1.0" / "run-1" / "summary.json").read_text())
    metric = summary["metric"]
    metric |= {"train_au_percentage": [0.0, 0.0], "train_au_mean_percentage": 0.0, "train_au_meet_expectation": "fail"}
    metric["train_throughput_samples_per_second"] = metric["train_throughput_samples_per_second"][:2]
    file = tmp_path / "summary.json"
    file.write_text(json.dumps({**summary, "num_accelerators": 13, "epochs": 2}))
    training = read_summary(file).training
    assert training is not None
    assert "is 0" in training.failure


def test_cached_epochs() -> None:
    read = that_read([2684354560, 12582912, 10485760])
    assert read.used == (1,)
    assert "came from memory" in read.why
    assert "drop the caches" in read.why


def test_already_there() -> None:
    """That the search ends and the exit code is 3 is in tests/tuner/test_already_there.py and tests/system/test_mlperf.py."""
    what = bound(99.2, 90)
    assert what.enough
    assert what.by == "accelerators"
    assert "not storage-bound" in what.sentence
    assert "99.2 %" in what.sentence
