"""A row of training runs as a user asked for it: each started afresh, judged, and kept where reports find it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path

from runners.mlperf.benchmark import DataSet, Trained, train
from runners.mlperf.bound import bound
from runners.mlperf.epochs import from_memory_by_speed, that_read
from runners.mlperf.launching import HERE, Start, Tell
from runners.mlperf.sampling import Samples, busy_between, from_device, processor_time
from runners.mlperf.workloads import Workload
from runners.runner import EnvironmentProblem, Failure, Json

_SHOWN_LOG = 400


@dataclass(frozen=True, slots=True)
class Run:
    """One run. Its utilisation is DLIO's own count, which is what MLPerf judges by.

    ``busy`` is the share of processor time that was not idle, ``from_device`` the bytes that each epoch got from the block
    device under the data; None where that isn't known.
    """

    name: str
    folder: Path
    trained: Trained
    busy: float | None
    from_device: tuple[int, ...] | None
    warnings: tuple[str, ...]

    @property
    def au(self) -> float:
        assert self.trained.summary.training is not None
        return self.trained.summary.training.au_mean

    @property
    def samples_per_second(self) -> float:
        assert self.trained.summary.training is not None
        return self.trained.summary.training.samples_per_second_mean


@dataclass(slots=True)
class Session:
    """``folder`` is where the runs' folders are, ``notes`` what a user should know before they start."""

    workload: Workload
    start: Start
    data: DataSet
    parameters: dict[str, str]
    ranks: int
    epochs: int
    folder: Path
    limit: float
    scratch: Path
    tell: Tell
    notes: list[str] = field(default_factory=list)

    def run(self, number: int) -> Run:
        """Raises EnvironmentProblem where a run fails: the next would too."""
        new = self.workload.version == "v2.0"
        name = datetime.now().strftime("%Y%m%d_%H%M%S") if new else f"run-{number}"
        folder = self.folder / name
        forget(self.data)
        # Only where this host alone reads can its device be asked.
        count = from_device(self.data.folder) if self.start.hosts == (HERE,) else None
        device = Samples(count) if count is not None else None
        with Samples(processor_time) as busy, device or nullcontext():
            done = train(
                self.start,
                self.workload,
                self.data,
                self.parameters,
                ranks=self.ranks,
                epochs=self.epochs,
                output=folder,
                kept="dlio_config" if new else "configs",
                scratch=self.scratch,
                limit=self.limit,
                tell=lambda text: self.tell(f"{name}: {text}"),
            )
        if isinstance(done, Failure):
            raise EnvironmentProblem(f"{name} failed ({done.kind}): {done.reason}", _mend(done, folder))
        share = busy_between(busy, done.epochs[0].began, done.epochs[-1].ended)
        read = _by_epoch(device, done) if device is not None else None
        return Run(name, folder, done, share, read, tuple(self._warnings(done, read)))

    def _warnings(self, done: Trained, read: Sequence[int] | None) -> Iterator[str]:
        caching = any(done.summary.potential_caching)
        if read is not None:
            record = self.data.file_size / self.workload.sample.per_file
            if why := that_read(read, int(done.epochs[0].samples * record)).why:
                yield why
        elif said := from_memory_by_speed([epoch.samples_per_second for epoch in done.epochs], caching=caching):
            yield said
        elif caching and len(done.epochs) > 1:
            yield "the data set fits into this host's memory: epochs after the first may have come from there"

    def passed(self, run: Run) -> bool:
        return run.au >= self.workload.threshold

    def io_rate(self, run: Run) -> float:
        """MiB/s by the files' real sizes, where DLIO counts nominal records."""
        return run.samples_per_second * self.data.file_size / self.workload.sample.per_file / (1 << 20)

    def bound(self, runs: Sequence[Run]) -> str:
        """What bounds the runs, in a sentence: the slowest of them."""
        worst = min(runs, key=lambda run: run.au)
        return bound(worst.au, self.workload.threshold, worst.busy).sentence

    def record(self, runs: Sequence[Run]) -> dict[str, Json]:
        """For programs."""
        return {
            "model": self.workload.model,
            "accelerator": self.workload.accelerator,
            "version": self.workload.version,
            "accelerators": self.ranks,
            "threshold_percent": self.workload.threshold,
            "data": {"folder": str(self.data.folder), "files": self.data.files, "bytes": self.data.bytes},
            "dlio": dict(self.start.facts()),
            "results": str(self.folder),
            "notes": list(self.notes),
            "passed": all(self.passed(run) for run in runs),
            "bound": asdict(bound(min(run.au for run in runs), self.workload.threshold, runs[0].busy)),
            "runs": [
                {
                    "name": run.name,
                    "au_percent": run.au,
                    "samples_per_second": run.samples_per_second,
                    "io_mib_s": self.io_rate(run),
                    "passed": self.passed(run),
                    "processors_busy": run.busy,
                    "bytes_from_device": None if run.from_device is None else list(run.from_device),
                    "seconds": run.trained.seconds,
                    "epochs": [asdict(epoch) for epoch in run.trained.epochs],
                    "warnings": list(run.warnings),
                }
                for run in runs
            ],
        }


def _by_epoch(device: Samples[int], done: Trained) -> tuple[int, ...] | None:
    """Bytes that the device gave in each epoch."""
    around = [device.around(epoch.began, epoch.ended) for epoch in done.epochs]
    return tuple(max(0, found[1] - found[0]) for found in around if found is not None) or None


def forget(data: DataSet) -> None:
    """Asks the kernel to drop the data set from its page cache; what others hold open may stay."""
    for file in (data.folder / "train").rglob("*"):
        with suppress(OSError):
            handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
            try:
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(handle)


def _mend(failure: Failure, folder: Path) -> str:
    if failure.kind == "timeout":
        return "a longer --limit, or fewer --files"
    log = folder / "dlio.log"
    return f"{words_of(failure)}{f' (see {log})' if log.exists() else ''}".strip()


def words_of(failure: Failure) -> str:
    """The end of what the program said, in a line."""
    lines = [line.strip() for line in failure.log.splitlines() if line.strip()]
    return " | ".join(lines[-3:])[-_SHOWN_LOG:]
