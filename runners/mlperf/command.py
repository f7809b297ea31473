"""DLIO's configuration and command lines, in the names that the installed version knows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runners.mlperf.installed import Dlio
from runners.mlperf.workloads import Workload
from runners.runner import UsageError

Parameters = Mapping[str, str]

_NAME = re.compile(r"[a-z_]+(\.[a-z_0-9]+)+")
# Hydra reads these as parts of its own grammar; none of DLIO's values needs them.
_UNQUOTED = re.compile(r"[A-Za-z0-9_./:@%+-]*")
_CONFIG = """\
defaults:
 - _self_
 - workload: {name}
 - override hydra/job_logging: disabled
 - override hydra/hydra_logging: disabled
"""
# What the figures are made with must be what the options say.
_OURS = frozenset(
    {
        *("train.epochs", "dataset.num_files_train", "dataset.num_subfolders_train", "dataset.data_folder"),
        *("dataset.num_samples_per_file", "dataset.format", "output.folder"),
    }
)
_WHOLE = frozenset(
    {
        *("reader.batch_size", "reader.read_threads", "reader.computation_threads", "reader.prefetch_size"),
        *("reader.transfer_size", "train.total_training_steps"),
    }
)
_NUMBERS = frozenset({"train.computation_time", "dataset.record_length", "dataset.record_length_bytes"})
_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?", re.ASCII)
_LONGEST = 16
# Records of length, in the names of v2.0.1 and later.
_LENGTHS = ("record_length_bytes", "record_length_bytes_stdev", "record_length_bytes_resize")


def workload_name(workload: Workload) -> str:
    """How MLPerf Storage calls a workload's configuration."""
    return f"{workload.model}_{workload.accelerator}"


def write_configuration(folder: Path, workload: Workload, dlio: Dlio) -> None:
    """Puts MLPerf's configuration of ``workload`` into ``folder``, so that DLIO's own copy, which may differ, isn't used."""
    import yaml

    (folder / "workload").mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(_CONFIG.format(name=workload_name(workload)), encoding="utf-8")
    text = yaml.safe_dump(configuration(workload, dlio), sort_keys=False)
    (folder / "workload" / f"{workload_name(workload)}.yaml").write_text(text, encoding="utf-8")


def configuration(workload: Workload, dlio: Dlio) -> dict[str, Any]:
    """MLPerf's own values. Checkpoints, which unet3d writes at the end of a run, are left out: they are another benchmark."""
    sample = workload.sample
    length = dlio.record_length
    train: dict[str, Any] = {"epochs": workload.epochs, "computation_time": workload.computation_time}
    if workload.total_steps is not None:
        train["total_training_steps"] = workload.total_steps
    return {
        "model": {"name": workload.model} if dlio.record_length == "record_length_bytes" else workload.model,
        "framework": sample.framework,
        "workflow": {"generate_data": False, "train": True, "checkpoint": False},
        "dataset": {
            "data_folder": f"data/{workload.model}/",
            "format": sample.format,
            "num_files_train": 1,
            "num_samples_per_file": sample.per_file,
            length: sample.length if sample.length % 1 else int(sample.length),
            f"{length}_stdev": sample.deviation,
            **({f"{length}_resize": sample.resize} if sample.resize else {}),
        },
        "reader": {
            "data_loader": sample.framework,
            "batch_size": workload.batch,
            "read_threads": workload.read_threads,
            "file_shuffle": "seed",
            "sample_shuffle": "seed",
        },
        "train": train,
        "metric": {"au": workload.threshold / 100},
    }


def parameter(text: str) -> tuple[str, str]:
    """NAME=VALUE as DLIO's parameters are written. Raises UsageError."""
    name, equals, value = text.partition("=")
    name = name.strip().removeprefix("++").removeprefix("workload.")
    if not equals or not _NAME.fullmatch(name):
        raise UsageError("param", text, "write it like reader.read_threads=8")
    if not value:
        raise UsageError("param", text, "the value is empty")
    if not value.isprintable():
        raise UsageError("param", text, "the value has a character that can't be printed")
    if name in _OURS or name.startswith("workflow."):
        raise UsageError("param", text, "is set by tune itself, from its own options")
    if name in _WHOLE and not (value.isascii() and value.isdigit() and len(value) < _LONGEST):
        raise UsageError("param", text, "must be a whole number")
    if name in _NUMBERS and not _NUMBER.fullmatch(value):
        raise UsageError("param", text, "must be a number, like 0.5")
    return name, value


def known(parameters: Parameters, dlio: Dlio, option: str = "param") -> dict[str, str]:
    """``parameters`` in the names of this DLIO. Raises UsageError for one that it would take and not use."""
    found = {}
    for name, value in parameters.items():
        own = _own_name(name, dlio)
        if not dlio.knows(own):
            raise UsageError(option, f"{name}={value}", f"DLIO {dlio.version} has no such parameter: it would do nothing")
        found[own] = value
    return found


def _own_name(name: str, dlio: Dlio) -> str:
    group, _, last = name.rpartition(".")
    spelled = last.replace("record_length_bytes", "record_length")
    if group == "dataset" and spelled.replace("record_length", "record_length_bytes") in _LENGTHS:
        return f"{group}.{spelled.replace('record_length', dlio.record_length)}"
    return name


def arguments(
    dlio: Dlio, configuration_folder: Path, workload: Workload, parameters: Parameters, output: Path, *, kept: str
) -> tuple[str, ...]:
    """The command of one rank. ``kept`` is the folder in ``output`` where DLIO keeps its configuration."""
    words = [f"++workload.{name}={_quoted(value)}" for name, value in parameters.items()]
    return (
        dlio.python,
        "-m",
        "dlio_benchmark.main",
        f"--config-path={configuration_folder}",
        f"workload={workload_name(workload)}",
        f"hydra.run.dir={_quoted(str(output))}",
        f"++hydra.output_subdir={kept}",
        *words,
    )


def _quoted(value: str) -> str:
    """A value in Hydra's grammar: as it is where that is plain, else between quotes."""
    if value and _UNQUOTED.fullmatch(value):
        return value
    escaped = re.sub(r"(\\+)(?='|$)", r"\1\1", value).replace("'", "\\'")
    return f"'{escaped}'"
