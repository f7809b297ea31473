"""fio reads: sequential or random blocks, by several jobs at once, each in files or a part of a file of its own."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runners.aio.fio import parse
from runners.mount.files import File, find
from runners.mount.loads import Place, rate
from runners.mount.work import Epoch, Reading, Work
from runners.packages import install
from runners.process import Completed, run
from runners.runner import Failure, Json, Objective, Problem

# One job reads its files one after the other; the command line holds this many names of them.
_NAMES = 64
_ENOUGH_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Part:
    """What one job reads: files, whole, or of a single one ``size`` bytes from ``offset``."""

    files: tuple[str, ...]
    offset: int = 0
    size: int = 0


def parts(files: Sequence[File], jobs: int, block: int) -> list[Part]:
    """Shares ``files`` out to ``jobs``, the largest files first; where there are fewer, jobs share a file between them.

    No byte is read by two jobs. Fewer parts than jobs come out where a part would hold less than a block.
    """
    ordered = sorted(files, key=lambda file: (-file.size, file.path))
    if len(ordered) >= jobs:
        return [Part(tuple(file.path for file in ordered[job::jobs][:_NAMES])) for job in range(jobs)]
    found = []
    for place, file in enumerate(ordered):
        readers = len(range(place, jobs, len(ordered)))
        readers = max(1, min(readers, file.size // block))
        step = file.size // readers // block * block if readers > 1 else file.size
        found += [Part((file.path,), step * number, step) for number in range(readers)]
    return found


def command(folder: Path, parts: Sequence[Part], work: Work, *, timed: bool) -> list[str]:
    """fio's arguments: a section a job. Not ``timed``, each reads its part once to the end."""
    arguments = [
        "fio",
        "--output-format=json",
        "--ioengine=psync",
        f"--rw={'read' if work.pattern == 'sequential' else 'randread'}",
        f"--bs={work.block_size}",
        f"--direct={int(work.direct)}",
        "--readonly",
        "--allow_file_create=0",
        # Without advice to the kernel: applications give none.
        "--fadvise_hint=0",
        "--invalidate=1",
        "--file_service_type=sequential",
        "--openfiles=1",
        "--group_reporting=1",
    ]
    if timed:
        arguments.append(f"--runtime={round(work.seconds * 1000)}ms")
    for number, part in enumerate(parts):
        names = ":".join(str(folder / name).replace("\\", "\\\\").replace(":", "\\:") for name in part.files)
        arguments += [f"--name=job{number}", f"--filename={names}"]
        if part.size:
            arguments += [f"--offset={part.offset}", f"--size={part.size}"]
    return arguments


class FioLoad:
    """A fio process a measurement. With ``work.warm`` a first one reads all of the parts and is not counted."""

    objective = Objective("read_mib_s", "MiB/s")
    name = "fio"

    def __init__(self, work: Work) -> None:
        self._work = work
        self.open_files = work.jobs
        self.largest: int | None = None
        self._parts: list[Part] = []

    def facts(self) -> Mapping[str, Json]:
        work = self._work
        return {
            "load": "fio",
            "pattern": work.pattern,
            "block_size": work.block_size,
            "jobs": work.jobs,
            "direct": work.direct,
            "cache": "warm" if work.warm else "cold",
            "data": work.data,
        }

    def problems(self) -> list[Problem]:
        if shutil.which("fio"):
            return []
        return [Problem("fio", "error", "fio is not installed", install("fio"))]

    def choose(self, place: Place) -> Mapping[str, Json]:
        files = find(place.folder, self._work.data)
        self._parts = parts(files, self._work.jobs, self._work.block_size)
        named = {name for part in self._parts for name in part.files}
        sizes = [file.size for file in files if file.path in named]
        self.largest = max(sizes)
        return {"files": len(sizes), "bytes": sum(sizes), "largest_file": self.largest}

    def run(self, place: Place, limit: float) -> Reading | Failure:
        begun, epochs, warnings = time.monotonic(), [], []
        for filling in (True, False) if self._work.warm else (False,):
            epoch = self._epoch(place, limit - (time.monotonic() - begun), filling=filling)
            if isinstance(epoch, Failure):
                return epoch
            epochs.append(epoch)
            place.mark()
        if epochs[-1].seconds < min(_ENOUGH_SECONDS, 0.5 * self._work.seconds):
            warnings.append(f"all of the data were read in {epochs[-1].seconds:.1f} s, too short for a sure figure: name more")
        if len(self._parts) < self._work.jobs:
            warnings.append(f"{self._work.jobs} jobs were asked for and the data are enough for {len(self._parts)}")
        return Reading(tuple(epochs), {"jobs": len(self._parts)}, tuple(warnings))

    def _epoch(self, place: Place, limit: float, *, filling: bool) -> Epoch | Failure:
        if limit <= 0:
            return Failure("timeout", "no time was left for reading")
        argv = command(place.folder, self._parts, self._work, timed=not filling)
        done = run(argv, limit=limit, env=place.environment, cwd=place.scratch, grace=0.0)
        if isinstance(done, Failure):
            return done
        figures = parse(done.stdout)
        if isinstance(figures, Failure):
            return Failure(figures.kind, f"{figures.reason}{_complaint(done)}", (done.stderr or done.stdout)[-4000:])
        if done.returncode != 0:
            return Failure("crash", f"fio ended with exit code {done.returncode}{_complaint(done)}", done.stderr[-4000:])
        if figures.read_gbs <= 0:
            return Failure("wrong", "fio reports that it read nothing", done.stdout[-4000:])
        seconds, ended = figures.bytes_read / figures.read_gbs / 1e9, time.time()
        return Epoch(ended - seconds, ended, figures.bytes_read, filling=filling)

    def figures(self, epochs: Sequence[Epoch]) -> tuple[Mapping[str, float], tuple[float, ...]]:
        metrics, samples = rate(epochs)
        return {**metrics, "reads_s": metrics["read_mib_s"] * 2**20 / self._work.block_size}, samples

    def close(self) -> None:
        """Each process has ended already."""


def _complaint(done: Completed) -> str:
    lines = [line for line in done.stderr.splitlines() if line.startswith("fio:")]
    return f" ({lines[-1].removeprefix('fio:').strip()[:200]})" if lines else ""


def create(name: str, work: Work) -> FioLoad:  # noqa: ARG001  the protocol's name, here always fio
    return FioLoad(work)
