"""Finished reports read in: mlperf_storage_report.json of v0.5 and v1.0, results.json of v2.0."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from runners.mlperf.fields import BadResult, Fields, read_json
from runners.mlperf.formats import JSON_NAME, OLD_NAME
from runners.mlperf.size import io_rate
from runners.mlperf.workloads import WORKLOADS

_CLOSE = 1e-6


@dataclass(frozen=True, slots=True)
class ReportedRun:
    """``io_rate`` is nominal, in MiB/s."""

    name: str
    model: str
    accelerator: str
    accelerators: int
    files: int | None
    samples_per_second: float
    io_rate: float


@dataclass(frozen=True, slots=True)
class Reported:
    """What a report says of one workload, and ``doubts``: sentences on figures in it that don't go together."""

    file: Path
    model: str
    accelerator: str
    accelerators: int
    runs: tuple[ReportedRun, ...]
    samples_per_second: float
    io_rate: float
    doubts: tuple[str, ...]


def find_reports(where: Path) -> list[Path]:
    """``where`` itself if it is a file, else the report files that lie in it."""
    if where.is_file():
        return [where]
    return [where / name for name in (OLD_NAME, JSON_NAME) if (where / name).is_file()]


def read_report(file: Path) -> list[Reported]:
    """What a report file says, a workload each. Raises BadResult."""
    if file.name == JSON_NAME or _is_list(file):
        return _new(file)
    fields = Fields(file, read_json(file))
    if "overall" not in fields or "runs" not in fields:
        raise BadResult(file, "is no report of MLPerf Storage: it has no field overall and runs")
    return [_old(fields)]


def _old(fields: Fields) -> Reported:
    overall, all_runs = fields.object("overall"), fields.object("runs")
    runs = tuple(_old_run(name, all_runs.object(name)) for name in all_runs.names())
    found = Reported(
        file=fields.file,
        model=overall.text("model"),
        accelerator=overall.text("accelerator", ""),
        accelerators=overall.count("train_num_accelerators", 1),
        runs=runs,
        samples_per_second=overall.number("train_throughput_mean_samples_per_second"),
        io_rate=overall.number("train_throughput_mean_MB_per_second"),
        doubts=(),
    )
    return _doubted(found)


def _old_run(name: str, run: Fields) -> ReportedRun:
    return ReportedRun(
        name=name,
        model=run.text("model"),
        accelerator=run.text("accelerator", ""),
        accelerators=run.count("train_num_accelerators", 1),
        files=run.count("num_files_train") if "num_files_train" in run else None,
        samples_per_second=run.number("train_throughput_samples_per_second"),
        io_rate=run.number("train_throughput_MB_per_second"),
    )


def _is_list(file: Path) -> bool:
    try:
        with file.open(encoding="utf-8", errors="replace") as text:
            return text.read(64).lstrip().startswith("[")
    except OSError as error:
        raise BadResult(file, f"can't be read: {error.strerror or error}") from None


def _new(file: Path) -> list[Reported]:
    try:
        records = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadResult(file, f"can't be read: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise BadResult(file, "is not JSON") from None
    if not isinstance(records, list):
        raise BadResult(file, "is no report of MLPerf Storage v2.0: a list of runs is expected")
    found: dict[tuple[str, str], list[ReportedRun]] = {}
    for index, record in enumerate(records):
        run = _new_run(file, index, record)
        if run is not None:
            found.setdefault((run.model, run.accelerator), []).append(run)
    if not found:
        raise BadResult(file, "holds no run of a training")
    return [_doubted(_joined(file, runs)) for runs in found.values()]


def _new_run(file: Path, index: int, record: Any) -> ReportedRun | None:
    if not isinstance(record, Mapping):
        raise BadResult(file, "is no object", f"[{index}]")
    fields = Fields(file, record, f"[{index}]")
    if fields.text("benchmark_type", "") != "training":
        return None
    metrics = fields.object("metrics")
    parameters = fields.object("parameters") if isinstance(record.get("parameters"), Mapping) else None
    dataset = parameters.object("dataset") if parameters is not None and "dataset" in parameters else None
    return ReportedRun(
        name=fields.text("run_id"),
        model=fields.text("model", ""),
        accelerator=fields.text("accelerator", ""),
        accelerators=fields.count("num_processes", 1),
        files=dataset.count("num_files_train") if dataset is not None and "num_files_train" in dataset else None,
        samples_per_second=metrics.number("train_throughput_mean_samples_per_second"),
        io_rate=metrics.number("train_io_mean_MB_per_second"),
    )


def _joined(file: Path, runs: list[ReportedRun]) -> Reported:
    first = runs[0]
    speed, rate = (statistics.fmean(values) for values in zip(*((r.samples_per_second, r.io_rate) for r in runs), strict=True))
    return Reported(file, first.model, first.accelerator, first.accelerators, tuple(runs), speed, rate, ())


def _doubted(report: Reported) -> Reported:
    doubts = []
    if report.runs:
        mean = statistics.fmean(run.samples_per_second for run in report.runs)
        if not math.isclose(mean, report.samples_per_second, rel_tol=_CLOSE):
            doubts.append(f"the mean of its runs is {mean:.4f} samples/s, and it says {report.samples_per_second:.4f}")
        other = [run.name for run in report.runs if run.accelerators != report.accelerators]
        if other:
            doubts.append(f"it says {report.accelerators} accelerators, and {', '.join(other)} had another number")
    length = next((each.sample.length for each in WORKLOADS if each.model == report.model), None)
    if length is not None and report.samples_per_second > 0:
        nominal = io_rate(report.samples_per_second, length)
        if not math.isclose(nominal, report.io_rate, rel_tol=1e-3):
            doubts.append(
                f"{report.samples_per_second:.4f} samples/s of {report.model} are {nominal:.1f} MiB/s, "
                f"and it says {report.io_rate:.1f}"
            )
    return replace(report, doubts=tuple(doubts))
