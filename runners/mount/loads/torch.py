"""A DataLoader reads: whole files, by worker processes, as the input pipeline of a training job does."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

from runners.mount.files import File, find
from runners.mount.loads import Place, rate
from runners.mount.work import Epoch, Reading, Work
from runners.runner import Failure, Json, Objective, Problem
from runners.worker import Worker

_START = 120.0  # importing torch on a busy machine
_MOST_FILES = 10_000


class TorchLoad:
    """One warm process that imports torch once and runs a DataLoader a measurement; its workers read whole files.

    An epoch goes over all files; it is cut where the time is over. The files are put out of the page cache between epochs.
    """

    objective = Objective("read_mib_s", "MiB/s")
    name = "torch"

    def __init__(self, work: Work) -> None:
        self._work = work
        self.open_files = work.jobs
        self.largest: int | None = None
        self._files: list[File] = []
        self._worker: Worker | None = None

    def facts(self) -> Mapping[str, Json]:
        work = self._work
        return {
            "load": "torch",
            "torch": _version(),
            "pattern": work.pattern,
            "block_size": work.block_size,
            "jobs": work.jobs,
            "direct": work.direct,
            "cache": "warm" if work.warm else "cold",
            "data": work.data,
        }

    def problems(self) -> list[Problem]:
        if _version():
            return []
        return [Problem("torch", "error", "PyTorch is not installed", "pip install torch, or --load fio")]

    def choose(self, place: Place) -> Mapping[str, Json]:
        files = find(place.folder, self._work.data)
        self._files = sorted(files, key=lambda file: (-file.size, file.path))[:_MOST_FILES]
        self._files.sort(key=lambda file: file.path)
        self.largest = max(file.size for file in self._files)
        return {"files": len(self._files), "bytes": sum(file.size for file in self._files), "largest_file": self.largest}

    def run(self, place: Place, limit: float) -> Reading | Failure:
        begun = time.monotonic()
        worker = self._ready(place)
        if isinstance(worker, Failure):
            return worker
        work = self._work
        request: dict[str, Json] = {
            "folder": str(place.folder),
            "files": [[file.path, file.size] for file in self._files],
            "workers": work.jobs,
            "seconds": work.seconds,
            "block": work.block_size,
            "shuffle": work.pattern == "random",
            "direct": work.direct,
            "fill": work.warm,
        }
        answer = worker.call(request, max(0.1, limit - (time.monotonic() - begun)))
        if isinstance(answer, Failure):
            return answer
        if "error" in answer:
            return Failure("crash", f"a file can't be read: {answer['error']}")
        epochs = tuple(_epoch(each) for each in cast("list[dict[str, Any]]", answer["epochs"]))
        warnings = []
        if len(self._files) < work.jobs:
            warnings.append(f"{work.jobs} workers were asked for and there are {len(self._files)} files: the others idle")
        return Reading(epochs, {"workers": work.jobs}, tuple(warnings))

    def _ready(self, place: Place) -> Worker | Failure:
        if self._worker is not None and self._worker.alive:
            return self._worker
        self._worker = Worker("runners.mount.loads.torch_child", env=place.environment)
        answer = self._worker.call({"hello": True}, _START)
        return answer if isinstance(answer, Failure) else self._worker

    def figures(self, epochs: Sequence[Epoch]) -> tuple[Mapping[str, float], tuple[float, ...]]:
        metrics, samples = rate(epochs)
        read = sum(epoch.metrics["files"] for epoch in epochs) / max(1e-6, sum(epoch.seconds for epoch in epochs))
        return {**metrics, "files_s": read}, samples

    def close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()


def _epoch(record: Mapping[str, Any]) -> Epoch:
    return Epoch(
        float(record["began"]),
        float(record["ended"]),
        int(record["bytes"]),
        {"files": float(record["files"])},
        bool(record["filling"]),
    )


def _version() -> str | None:
    if importlib.util.find_spec("torch") is None:
        return None
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def create(name: str, work: Work) -> TorchLoad:  # noqa: ARG001  the protocol's name, here always torch
    return TorchLoad(work)
