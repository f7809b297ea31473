"""A report in MLPerf Storage's own files: mlperf_storage_report.json (v0.5, v1.0), results.json and results.csv (v2.0)."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from runners.mlperf.fields import read_json
from runners.mlperf.folders import Run
from runners.mlperf.report import Report

OLD_NAME, JSON_NAME, CSV_NAME = "mlperf_storage_report.json", "results.json", "results.csv"
_GIB = 1 << 30


def render(reports: Sequence[Report]) -> dict[str, str]:
    """File name to text: one old report, or the two files of v2.0 over all reports."""
    if reports[0].runs[0].version == "v2.0":
        runs = [run for report in reports for run in (report.warm_up, *report.runs) if run is not None]
        records = [_record(run) for run in runs]
        return {JSON_NAME: json.dumps(records, indent=2) + "\n", CSV_NAME: _table(records)}
    (only,) = reports
    return {OLD_NAME: json.dumps(_old(only), indent=4) + "\n"}


def _old(report: Report) -> dict[str, Any]:
    """Keys and their order as report.py of v0.5 and v1.0 writes them; that one writes counts of accelerators as text."""
    first = report.runs[0]
    v1 = first.version != "v0.5"
    accelerator = {"accelerator": report.accelerator} if v1 else {}
    hosts = {} if v1 else {"num_client_hosts": len(first.summaries)}
    overall = {
        "model": report.model,
        **accelerator,
        **hosts,
        "num_benchmark_runs": len(report.runs),
        "train_num_accelerators": str(first.accelerators),
        "num_files_train": first.files,
        "num_samples_per_file": first.samples_per_file,
        "train_throughput_mean_samples_per_second": report.samples_per_second,
        "train_throughput_stdev_samples_per_second": report.samples_per_second_deviation,
        "train_throughput_mean_MB_per_second": report.io_rate,
        "train_throughput_stdev_MB_per_second": report.io_rate_deviation,
    }
    runs = {
        run.name: {
            "train_throughput_samples_per_second": run.samples_per_second,
            "train_throughput_MB_per_second": run.io_rate,
            "train_num_accelerators": str(run.accelerators),
            "model": run.model,
            **({"accelerator": run.accelerator} if v1 else {}),
            "num_files_train": run.files,
            "num_samples_per_file": run.samples_per_file,
        }
        for run in report.runs
    }
    return {"overall": overall, "runs": runs}


def _record(run: Run) -> dict[str, Any]:
    """A run as mlpstorage v2.0 writes it into results.json."""
    (summary,) = run.summaries
    memory = {"total_memory_bytes": int(sum(summary.host_memory) * _GIB), "total_cores": sum(summary.host_cpus)}
    record: dict[str, Any] = {
        "run_id": f"training_run_benchmark_{run.model}_{summary.start}",
        "benchmark_type": "training",
        "model": run.model,
        "command": "run_benchmark",
        "num_processes": run.accelerators,
        "parameters": dict(run.parameters),
        "system_info": memory if summary.host_memory else None,
        "metrics": read_json(summary.file)["metric"],
    }
    return {**record, "accelerator": run.accelerator} if run.accelerator else record


def _table(records: Sequence[Mapping[str, Any]]) -> str:
    rows = [dict(_flat(record)) for record in records]
    names = sorted({name for row in rows for name in row})
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _flat(record: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    """Nested keys joined by dots; figures that are none are left out, as mlpstorage does it."""
    found: list[tuple[str, Any]] = []
    for key, value in record.items():
        name = f"{before}{key}"
        if isinstance(value, Mapping):
            found += _flat(value, f"{name}.")
        elif not (isinstance(value, float) and math.isnan(value)):
            found.append((name, value))
    return found
