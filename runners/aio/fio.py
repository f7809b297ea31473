"""fio on the same block size, depth and threads: other people's engine, to check the winner and find a ceiling."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

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
    laid_out = sum(max(0, size - _size(folder / file_name(rank))) for rank in range(ranks))
    arguments = command(config, read=read, size=size, ranks=ranks, passes=passes, seconds=seconds)
    start = time.monotonic()
    # What was written when fio did not live to say: at most this.
    most = laid_out + (0 if read else size * ranks * passes)
    code, out, error = _run([program, *arguments[1:]], folder, limit)
    spent = time.monotonic() - start
    if code is None:
        return Failure("timeout", f"fio was stopped after {limit:g} s", error[-4000:], spent, most)
    figures = parse(out)
    if code != 0 or isinstance(figures, Failure):
        reason = figures.reason if isinstance(figures, Failure) else f"fio ended with exit code {code}"
        log = (error or out)[-4000:]
        disk_full = "No space left" in error or "No space left" in out
        return Failure(
            "environment" if disk_full else "crash", "the disk is full" if disk_full else reason, log, spent, laid_out
        )
    gbs = float(figures["read_gbs" if read else "write_gbs"])
    if gbs <= 0:
        return Failure("wrong", "fio reports that it moved nothing", out[-4000:], spent, laid_out)
    return Measurement(
        metrics={"read_gbs" if read else "write_gbs": gbs},
        samples=(gbs,),
        seconds=spent,
        bytes_written=laid_out + int(figures["bytes_written"]),
        evidence={"engine": "fio", "version": str(figures["version"]), "processes": ranks, "threads": threads},
    )


def parse(text: str) -> dict[str, float | str] | Failure:
    """``read_gbs``, ``write_gbs``, ``bytes_read``, ``bytes_written`` and ``version`` from fio's JSON output.

    Bandwidth is all bytes of all jobs over the time of the longest. Lines before the JSON (fio's notes and warnings) are
    skipped. A Failure says what is wrong with it.
    """
    document = _document(text)
    if document is None:
        return Failure("crash", "fio printed no result", text[-4000:])
    jobs = document.get("jobs")
    if not isinstance(jobs, list) or not jobs or not all(isinstance(job, dict) for job in jobs):
        return Failure("crash", "fio's result holds no jobs", text[-4000:])
    failed = next((job["error"] for job in jobs if job.get("error")), None)
    if failed is not None:
        number = failed if isinstance(failed, int) and not isinstance(failed, bool) and 0 < failed < 4096 else 0
        return Failure("crash", f"fio's I/O failed: {os.strerror(number) if number else failed!r}", text[-4000:])
    figures: dict[str, float | str] = {"version": str(document.get("fio version", ""))[:40]}
    for way, gbs, moved in (("read", "read_gbs", "bytes_read"), ("write", "write_gbs", "bytes_written")):
        bytes_moved = [_number(job.get(way), "io_bytes") for job in jobs]
        milliseconds = max(_number(job.get(way), "runtime") for job in jobs)
        figures[moved] = sum(bytes_moved)
        # fio counts whole milliseconds; what takes less than one is shown as 0.
        figures[gbs] = sum(bytes_moved) / max(milliseconds, 1.0) / 1e6
    return figures


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


def _run(arguments: list[str], folder: Path, limit: float) -> tuple[int | None, str, str]:
    """Exit code (None when killed at ``limit`` seconds), standard output and error."""
    with subprocess.Popen(
        arguments,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            out, error = process.communicate(timeout=limit)
        except BaseException as stop:
            os.killpg(process.pid, signal.SIGKILL)
            out, error = process.communicate()
            if not isinstance(stop, subprocess.TimeoutExpired):
                raise
            return None, out.decode(errors="replace"), error.decode(errors="replace")
    return process.returncode, out.decode(errors="replace"), error.decode(errors="replace")
