"""Result folders of MLPerf Storage read by what they hold: which summaries are one run, and which runs belong together."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runners.mlperf.fields import BadResult
from runners.mlperf.summary import Summary, read_summary
from runners.mlperf.workloads import Version

SUMMARY = "summary.json"
# Where a run keeps how it was started: DLIO alone, v0.5 and v1.0, v2.0.
_CONFIGS = ("dlio_config", "configs", ".hydra")
_RUN = re.compile(r"run[-_ ]?\d+", re.IGNORECASE)
_DEEPEST, _MOST = 10, 5000
_LARGEST_YAML = 4 << 20
_ACCELERATOR = re.compile(r"(?P<model>.+?)_(?P<accelerator>[a-z]+\d+\w*)")


@dataclass(frozen=True, slots=True)
class Run:
    """One run: a summary a host in v0.5, where each host ran by itself, else one. ``folder`` is the run's own.

    ``overrides`` are the parameters that were given to DLIO, as text, without "workload."; ``parameters`` all that it ran
    with, as its config.yaml has them. Both are empty where the folder doesn't tell.
    """

    name: str
    folder: Path
    version: Version
    model: str
    accelerator: str
    summaries: tuple[Summary, ...]
    overrides: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def accelerators(self) -> int:
        return sum(each.accelerators for each in self.summaries)

    @property
    def start(self) -> str:
        return min(each.start for each in self.summaries)

    @property
    def hosts(self) -> int:
        return max(len(self.summaries), *(each.hosts for each in self.summaries))

    @property
    def samples_per_second(self) -> float:
        return sum(each.training.samples_per_second_mean for each in self.summaries if each.training)

    @property
    def io_rate(self) -> float:
        """MiB/s by the nominal record length."""
        return sum(each.training.io_mean for each in self.summaries if each.training)

    @property
    def au(self) -> float:
        """The accelerator utilisation in %; with several hosts that of the worst, as each must pass."""
        return min((each.training.au_mean for each in self.summaries if each.training), default=0.0)

    @property
    def files(self) -> int:
        return self.summaries[0].files_train

    @property
    def samples_per_file(self) -> int:
        return self.summaries[0].samples_per_file


@dataclass(frozen=True, slots=True)
class RunSet:
    """Runs of one workload, which make a report together. ``folder`` is where they lie."""

    folder: Path
    runs: tuple[Run, ...]

    @property
    def version(self) -> Version:
        return self.runs[0].version


def read_folder(folder: Path) -> list[RunSet]:
    """All sets of runs below ``folder``. Raises BadResult where there is none, or where a file of one can't be used."""
    if not folder.is_dir():
        raise BadResult(folder, "is no folder" if folder.exists() else "is not there")
    files = sorted(_summaries(folder))
    if not files:
        raise BadResult(folder, f"holds no {SUMMARY}, which DLIO writes when a run has ended")
    found: dict[tuple[Path, str, str], dict[str, list[Run]]] = {}
    for file in files:
        run = _run_of(folder, file)
        if run.summaries[0].training is None:
            continue  # checkpoints: another benchmark
        where = run.folder.parent if run.folder != folder else folder
        key = (where, run.model, run.accelerator) if run.version == "v2.0" else (where, "", "")
        found.setdefault(key, {}).setdefault(run.name, []).append(run)
    if not found:
        raise BadResult(folder, "holds runs that only wrote checkpoints, and no training")
    return [RunSet(where, tuple(_ordered(list(map(_joined, runs.values()))))) for (where, _, _), runs in found.items()]


def _summaries(folder: Path) -> Iterator[Path]:
    deep = len(folder.parts)
    seen = 0
    for name, folders, files in os.walk(folder):
        here = Path(name)
        folders.sort()
        if len(here.parts) - deep >= _DEEPEST:
            folders.clear()
        if SUMMARY in files:
            seen += 1
            if seen > _MOST:
                raise BadResult(folder, f"holds more than {_MOST} runs; name the folder of one workload")
            yield here / SUMMARY


def _run_of(root: Path, file: Path) -> Run:
    """The run that a summary tells of. v0.5 has a folder a host in the run's, and some submissions of v1.0 have too."""
    summary = read_summary(file)
    folder = file.parent
    version = _version(folder, summary)
    overrides, parameters = _told(folder)
    workload = overrides.pop("workload", "")
    model, accelerator = _workload(workload)
    # Without the folder of its configuration a run of v1.0 doesn't say what it was.
    model = summary.model or model or _named(parameters)
    named = replace(summary, version=version)
    own = folder.parent if version != "v2.0" and _by_host(root, folder, version) else folder
    return Run(own.name, own, version, model, accelerator, (named,), overrides, parameters)


def _by_host(root: Path, folder: Path, version: Version) -> bool:
    """Whether ``folder`` is a host's, in that of a run."""
    if folder == root or _RUN.fullmatch(folder.name):
        return False
    return bool(_RUN.fullmatch(folder.parent.name)) or (version == "v0.5" and folder.parent != root)


def _version(folder: Path, summary: Summary) -> Version:
    if (folder / "dlio_config").is_dir() or any(folder.glob("*_metadata.json")):
        return "v2.0"
    return summary.version


def _joined(runs: list[Run]) -> Run:
    """Hosts that ran at the same time, each by itself, as one run."""
    return replace(runs[0], summaries=tuple(summary for run in runs for summary in run.summaries))


def _ordered(runs: list[Run]) -> list[Run]:
    return sorted(runs, key=lambda run: (run.start, run.name))


def _workload(name: str) -> tuple[str, str]:
    match = _ACCELERATOR.fullmatch(name)
    return (match["model"], match["accelerator"]) if match else (name, "")


def _named(parameters: Mapping[str, Any]) -> str:
    model = parameters.get("model")
    name = model.get("name") if isinstance(model, Mapping) else model
    return name if isinstance(name, str) else ""


def _told(folder: Path) -> tuple[dict[str, str], Mapping[str, Any]]:
    """The parameters given, "workload" among them, and all parameters, from the files that Hydra leaves behind."""
    for name in _CONFIGS:
        if (folder / name / "overrides.yaml").is_file():
            return _overrides(folder / name / "overrides.yaml"), _parameters(folder / name / "config.yaml")
    return {}, {}


def _overrides(file: Path) -> dict[str, str]:
    found = {}
    words = _yaml(file)
    for word in words if isinstance(words, list) else ():
        name, sign, value = word.partition("=") if isinstance(word, str) else ("", "", "")
        name = name.lstrip("+~")
        if sign and (name == "workload" or name.startswith("workload.")):  # others are Hydra's own
            found[name.removeprefix("workload.")] = value
    return found


def _parameters(file: Path) -> Mapping[str, Any]:
    config = _yaml(file) if file.is_file() else None
    workload = config.get("workload") if isinstance(config, Mapping) else None
    return workload if isinstance(workload, Mapping) else {}


def _yaml(file: Path) -> Any:
    import yaml

    try:
        if file.stat().st_size > _LARGEST_YAML:
            raise BadResult(file, f"is larger than {_LARGEST_YAML >> 20} MiB, which no configuration of DLIO is")
        return yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadResult(file, f"can't be read: {error.strerror or error}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        raise BadResult(file, f"is not YAML{f' (line {mark.line + 1})' if mark is not None else ''}") from None
