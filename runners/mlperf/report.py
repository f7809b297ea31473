"""The report over five runs of a workload: MLPerf Storage's figures, and its rules held against them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from runners.mlperf.divisions import Division, division_of
from runners.mlperf.epochs import from_memory_by_speed
from runners.mlperf.folders import Run, RunSet
from runners.mlperf.size import files_short
from runners.mlperf.workloads import Workload, find, threshold
from runners.runner import UsageError

RUNS = 5
_REPLICABLE = 0.05
_HOSTS_START = 10.0
_GIB = 1 << 30
Rule = Literal["runs", "failed", "utilisation", "equal", "replicable", "caching", "size", "hosts", "division", "epochs"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that the runs break (``invalid``), or something that a reader should know of them."""

    rule: Rule
    invalid: bool
    message: str


@dataclass(frozen=True, slots=True)
class Report:
    """``runs`` are those that count, without a warm-up. Throughputs in samples/s and, nominal, MiB/s; deviations of all runs.

    ``au`` is the lowest utilisation of a run in %, ``threshold`` what it must reach.
    """

    runs: tuple[Run, ...]
    warm_up: Run | None
    model: str
    accelerator: str
    samples_per_second: float
    samples_per_second_deviation: float
    io_rate: float
    io_rate_deviation: float
    au: float
    threshold: float
    division: Division
    findings: tuple[Finding, ...]

    @property
    def valid(self) -> bool:
        return not any(finding.invalid for finding in self.findings)


def report(runs: RunSet) -> Report:
    """Never raises: what is wrong with the runs is among the findings."""
    warm_up, counted = _warm_up(runs)
    first = counted[0]
    divided = [division_of(run.version, run.model, run.overrides) for run in counted]
    worst = next((each for each in divided if each.division == "none"), None)
    worst = worst or next((each for each in divided if each.division == "open"), divided[0])
    speeds, rates = [run.samples_per_second for run in counted], [run.io_rate for run in counted]
    findings = [
        *_count(runs, counted, warm_up),
        *(finding for run in counted for finding in _of_run(run)),
        *_equal(counted),
        *_replicable(counted),
        *([Finding("division", worst.division == "none", worst.why)] if worst.why else []),
    ]
    return Report(
        runs=tuple(counted),
        warm_up=warm_up,
        model=first.model,
        accelerator=first.accelerator,
        samples_per_second=statistics.fmean(speeds),
        samples_per_second_deviation=statistics.pstdev(speeds),
        io_rate=statistics.fmean(rates),
        io_rate_deviation=statistics.pstdev(rates),
        au=min(run.au for run in counted),
        threshold=threshold(first.model),
        division=worst.division,
        findings=tuple(findings),
    )


def _warm_up(runs: RunSet) -> tuple[Run | None, Sequence[Run]]:
    """v2.0 asks for a run before the five that isn't counted."""
    if runs.version == "v2.0" and len(runs.runs) == RUNS + 1:
        return runs.runs[0], runs.runs[1:]
    return None, runs.runs


def _count(runs: RunSet, counted: Sequence[Run], warm_up: Run | None) -> Iterator[Finding]:
    if len(counted) != RUNS:
        wanted = f"exactly {RUNS}" if runs.version != "v2.0" else f"a warm-up and then exactly {RUNS}"
        yield Finding("runs", True, f"{_plural(len(counted), 'run')} found, and {runs.version} asks for {wanted}")
    elif runs.version == "v2.0" and warm_up is None:
        yield Finding("runs", False, f"{RUNS} runs and no warm-up before them: v2.0 asks for one that isn't counted")


def _of_run(run: Run) -> Iterator[Finding]:
    wanted = threshold(run.model)
    for summary in run.summaries:
        where = run.name if len(run.summaries) == 1 else f"{run.name} on {summary.hostname or summary.file.parent.name}"
        training = summary.training
        assert training is not None
        if training.failure:
            yield Finding("failed", True, f"{where} failed: {training.failure}")
            continue
        if training.au_mean < wanted:
            reached = f"an accelerator utilisation of {training.au_mean:.1f} %"
            yield Finding("utilisation", True, f"{where} reached {reached} where {wanted:.0f} % is asked for")
        elif training.passed is False:
            yield Finding("utilisation", True, f"{where}: DLIO says that its own threshold was not reached")
        if from_memory := from_memory_by_speed(training.samples_per_second, caching=any(summary.potential_caching)):
            yield Finding("epochs", False, f"{where}: {from_memory}")
        if any(summary.potential_caching):
            told = ""
            if summary.data_per_host is not None and summary.host_memory:
                told = f" ({summary.data_per_host:.1f} GiB of data and {max(summary.host_memory):.1f} GiB of memory a host)"
            yield Finding("caching", True, f"{where}: the data set fits into a host's memory{told}: epochs may read nothing")
    yield from _size(run)
    yield from _hosts(run)


def _size(run: Run) -> Iterator[Finding]:
    workload = workload_of(run)
    memory = sum(sum(each.host_memory) for each in run.summaries)
    if workload is None or not memory:
        return
    short = files_short(workload, run.accelerators, int(memory * _GIB), run.files)
    if short:
        yield Finding("size", True, f"{run.name}: {short}")


def _hosts(run: Run) -> Iterator[Finding]:
    if len(run.summaries) < 2:
        return
    names = [each.hostname for each in run.summaries]
    if len(set(names)) < len(names):
        yield Finding("hosts", False, f"{run.name}: two of its hosts have one name")
    told: dict[str, set[object]] = {
        "accelerators": {each.accelerators for each in run.summaries},
        "files": {each.files_train for each in run.summaries},
        "model": {each.model for each in run.summaries},
    }
    for what, values in told.items():
        if len(values) > 1:
            yield Finding("hosts", True, f"{run.name}: its hosts differ in {what}")
    starts = [when for each in run.summaries if (when := _when(each.start)) is not None]
    if len(starts) > 1 and (gap := (max(starts) - min(starts)).total_seconds()) > _HOSTS_START:
        why = f"its hosts started {gap:.0f} s apart, and {_HOSTS_START:.0f} s are allowed"
        yield Finding("hosts", True, f"{run.name}: {why}")


def _equal(runs: Sequence[Run]) -> Iterator[Finding]:
    kinds: tuple[tuple[str, Callable[[Run], object]], ...] = (
        ("model", lambda run: run.model),
        ("accelerator", lambda run: run.accelerator),
        ("number of accelerators", lambda run: run.accelerators),
        ("number of hosts", lambda run: run.hosts),
        ("number of training files", lambda run: run.files),
        ("number of samples a file", lambda run: run.samples_per_file),
    )
    for what, get in kinds:
        values = dict.fromkeys(str(get(run)) for run in runs)
        if len(values) > 1:
            yield Finding("equal", True, f"the runs differ in the {what}: {', '.join(values)}")


def _replicable(runs: Sequence[Run]) -> Iterator[Finding]:
    mean = statistics.fmean(run.samples_per_second for run in runs)
    if mean <= 0:
        return
    furthest = max(runs, key=lambda run: abs(run.samples_per_second / mean - 1))
    away = furthest.samples_per_second / mean - 1
    if abs(away) > _REPLICABLE:
        far = f"{abs(away) * 100:.1f} % {'above' if away > 0 else 'below'} the mean of the runs"
        yield Finding("replicable", True, f"{furthest.name} is {far}, and {_REPLICABLE * 100:.0f} % is allowed")


def workload_of(run: Run) -> Workload | None:
    """What the rules say of the run's workload; None where it is none of theirs."""
    try:
        return find(run.model, run.version, run.accelerator)
    except UsageError:
        return None


def _when(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _plural(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
