"""fio on the same block size, depth and threads: other people's engine, to check the winner and find a ceiling."""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from runners.process import Completed, run
from runners.runner import Failure, Measurement
from spaces.space import Config

_DECODER = json.JSONDecoder()


def find_fio() -> str | None:
    return shutil.which("fio")


def command(config: Config, *, read: bool, size: int, ranks: int, passes: int, seconds: float | None) -> list[str]:
    """fio's arguments: a section a rank, a job a thread, each on its own slice of the rank's file.

    Files are named relative to the working folder: a colon in a path would make two files of it.
    """
    threads = int(config["intra_op_parallelism"])
    part = size // threads
    arguments = [
        "fio",
        "--output-format=json",
        "--ioengine=libaio",
        "--direct=1",
        "--thread=1",
        "--group_reporting=1",
        "--invalidate=0",
        # Blocks that are reserved and never written read at memory speed.
        "--fallocate=none",
        f"--bs={min(int(config['block_size']), part)}",
        f"--iodepth={int(config['queue_depth'])}",
        f"--rw={'read' if read else 'write'}",
        # Written once before it is timed, as DeepSpeed's swap files are: the first write also allocates.
        f"--overwrite={0 if read else 1}",
        f"--numjobs={threads}",
        f"--size={part}",
        f"--offset_increment={part}",
        f"--filesize={size}",
    ]
    if seconds is not None:
        arguments.append(f"--runtime={max(1, round(seconds * 1000))}ms")
    if read and seconds is not None:
        arguments.append("--time_based=1")
    else:
        # io_size bounds what is written, whatever the time.
        arguments.append(f"--io_size={part * passes}")
    for rank in range(ranks):
        arguments += [f"--name=rank{rank}", f"--filename={file_name(rank)}"]
    return arguments


def file_name(rank: int) -> str:
    return f"fio-rank{rank}.dat"


def run_fio(
    config: Config,
    folder: Path,
    *,
    read: bool,
    size: int,
    ranks: int = 1,
    passes: int = 1,
    seconds: float | None = None,
    limit: float = 120.0,
) -> Measurement | Failure:
    """Bandwidth of ``config`` by fio in ``folder`` (our scratch), as ``read_gbs`` or ``write_gbs`` in 10^9 bytes a second.

    ``size`` is the bytes of each rank's file, divisible by the threads. Each rank moves its file ``passes`` times; reads
    repeat for ``seconds`` where given, writes stop after ``seconds`` or ``passes``, what comes first. ``limit`` is the wall
    time after which fio is killed, laying out the files included. The files stay for the next call.
    """
    program = find_fio()
    if program is None:
        return Failure("infeasible", "fio is not installed; the package is named fio")
    threads = int(config["intra_op_parallelism"])
    if size % threads:
        return Failure("infeasible", f"a file of {size} bytes does not divide by {threads} threads")
    files = [folder / file_name(rank) for rank in range(ranks)]
    laid_out = sum(max(0, size - _size(file)) for file in files)
    arguments = command(config, read=read, size=size, ranks=ranks, passes=passes, seconds=seconds)
    begun = time.monotonic()
    outcome = _judge(run([program, *arguments[1:]], limit=limit, cwd=folder, grace=0.0), read)
    spent = time.monotonic() - begun
    if isinstance(outcome, Failure):
        # Files of the right size but half written would be taken for whole ones, and read faster than any disk.
        for file in files:
            with suppress(OSError):
                file.unlink()
        # What fio wrote before it failed is not known; it was this at most.
        return replace(outcome, seconds=spent, bytes_written=laid_out + (0 if read else size * ranks * passes))
    gbs = outcome.read_gbs if read else outcome.write_gbs
    return Measurement(
        metrics={"read_gbs" if read else "write_gbs": gbs},
        samples=(gbs,),
        seconds=spent,
        bytes_written=laid_out + outcome.bytes_written,
        evidence={"engine": "fio", "version": outcome.version, "processes": ranks, "threads": threads},
    )


def _judge(done: Completed | Failure, read: bool) -> Figures | Failure:
    if isinstance(done, Failure):
        return done
    log = (done.stderr or done.stdout)[-4000:]
    if os.strerror(errno.ENOSPC) in done.stderr + done.stdout:
        return Failure("environment", "the disk is full", log)
    figures = parse(done.stdout)
    if isinstance(figures, Failure):
        return figures
    if done.returncode != 0:
        return Failure("crash", f"fio ended with exit code {done.returncode}", log)
    if (figures.read_gbs if read else figures.write_gbs) <= 0:
        return Failure("wrong", "fio reports that it moved nothing", log)
    return figures


@dataclass(frozen=True, slots=True)
class Figures:
    """What fio measured: 10^9 bytes a second, and bytes."""

    version: str
    read_gbs: float
    write_gbs: float
    bytes_read: int
    bytes_written: int


def parse(text: str) -> Figures | Failure:
    """The figures in fio's JSON output, or what is wrong with it.

    Bandwidth is all bytes of all jobs over the time of the longest. Lines before the JSON (fio's notes and warnings) are
    skipped.
    """
    document = _document(text)
    if document is None:
        return Failure("crash", "fio printed no result", text[-4000:])
    jobs = document.get("jobs")
    if not isinstance(jobs, list) or not jobs or not all(isinstance(job, dict) for job in jobs):
        return Failure("crash", "fio's result holds no jobs", text[-4000:])
    failed = next((job["error"] for job in jobs if job.get("error")), None)
    if failed is not None:
        known = isinstance(failed, int) and not isinstance(failed, bool) and failed in errno.errorcode
        return Failure("crash", f"fio's I/O failed: {os.strerror(failed) if known else failed}", text[-4000:])
    (read_gbs, bytes_read), (write_gbs, bytes_written) = (_bandwidth(jobs, way) for way in ("read", "write"))
    version = document.get("fio version")
    return Figures(version[:40] if isinstance(version, str) else "", read_gbs, write_gbs, bytes_read, bytes_written)


def _bandwidth(jobs: list[dict[str, object]], way: str) -> tuple[float, int]:
    moved = sum(_number(job.get(way), "io_bytes") for job in jobs)
    milliseconds = max(_number(job.get(way), "runtime") for job in jobs)
    # fio counts whole milliseconds; what takes less than one is shown as 0.
    return moved / max(milliseconds, 1.0) / 1e6, int(moved)


def _document(text: str) -> dict[str, object] | None:
    position = 0
    for line in text.splitlines(keepends=True):
        if line.startswith("{"):
            try:
                value, _end = _DECODER.raw_decode(text, position)
            except (ValueError, RecursionError):
                value = None
            if isinstance(value, dict):
                return value
        position += len(line)
    return None


def _number(side: object, key: str) -> float:
    value = side.get(key) if isinstance(side, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if 0 <= value < 1e18 else 0.0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
