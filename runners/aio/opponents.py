"""Other people's ways to an aio setting, run for real: DeepSpeed's own ds_nvme_tune, and fio over a grid by hand."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from runners.aio.options import Options
from runners.opponent import Allowance, Opponent, Pick
from runners.options import option
from runners.runner import Failure, Problem, UsageError
from spaces.space import Config
from spaces.units import parse_size

# What is swept by hand where somebody sweeps at all: three block sizes, three depths, one job and four.
_FIO_GRID: list[Config] = [
    {
        "block_size": block,
        "queue_depth": depth,
        "intra_op_parallelism": jobs,
        "single_submit": False,
        "overlap_events": True,
    }
    for block, depth, jobs in itertools.product((128 << 10, 1 << 20, 4 << 20), (4, 32, 128), (1, 4))
]
_FIO_FILE = 512 << 20
_FIO_READ_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class OpponentOptions:
    """What may be changed about the opponents; None leaves their own defaults."""

    ds_io_size: str | None = field(
        default=None, metadata=option("Bytes that ds_nvme_tune moves in each run, instead of its own 400M.", "SIZE")
    )
    ds_sweep_config: str | None = field(
        default=None, metadata=option("Sweep that ds_nvme_tune is to run, instead of its own 64 settings.", "FILE")
    )


OPTIONS = OpponentOptions


def check(_options: Options, more: OpponentOptions) -> None:
    """Raises UsageError for a value that can't be used."""
    if more.ds_io_size is not None:
        io_size(more.ds_io_size)
    if more.ds_sweep_config is not None and not Path(more.ds_sweep_config).expanduser().is_file():
        raise UsageError("ds-sweep-config", more.ds_sweep_config, "is not a file")


def io_size(text: str) -> int:
    """Bytes; raises UsageError."""
    try:
        size = parse_size(text)
    except ValueError as error:
        raise UsageError("ds-io-size", text, str(error)) from None
    if size < 1 << 20 or size % (1 << 20):
        raise UsageError("ds-io-size", text, "must be whole megabytes, like 64M")
    return size


def ds_nvme_tune(options: Options, more: OpponentOptions, allowance: Allowance, tell: Callable[[str], None]) -> Pick | Problem:
    from runners.aio.ds_nvme_tune import compete
    from runners.device import check_folder

    size = None if more.ds_io_size is None else io_size(more.ds_io_size)
    sweep = None if more.ds_sweep_config is None else Path(more.ds_sweep_config).expanduser()
    return compete(list(dict.fromkeys(map(check_folder, options.device))), size, sweep, allowance, tell)


def fio_grid(options: Options, _more: OpponentOptions, allowance: Allowance, tell: Callable[[str], None]) -> Pick | Problem:
    """Each setting read for two seconds and its file written once; the largest sum of the two single readings wins."""
    from runners.aio.fio import find_fio, run_fio
    from runners.device import check_folder
    from runners.packages import install
    from runners.scratch import Scratch

    if find_fio() is None:
        return Problem("fio", "error", "fio is not installed", install("fio"))
    begun, written, tried = time.monotonic(), 0, 0
    best: tuple[float, Config, dict[str, float]] | None = None
    failed: list[str] = []
    full = False

    def left() -> float:
        return allowance.seconds - (time.monotonic() - begun)

    with Scratch.create(check_folder(options.device[0])) as scratch:
        for config in _FIO_GRID:
            if full or left() < 1 or written + 2 * _FIO_FILE > allowance.bytes_written:
                break
            tell(f"{tried} of {len(_FIO_GRID)} settings")
            figures: dict[str, float] = {}
            for read in (False, True):
                seconds = _FIO_READ_SECONDS if read else None
                outcome = run_fio(config, scratch.path, read=read, size=_FIO_FILE, seconds=seconds, limit=max(1.0, left()))
                written += outcome.bytes_written
                if isinstance(outcome, Failure):
                    failed.append(outcome.reason)
                    full = outcome.kind == "environment"
                    break
                figures.update(outcome.metrics)
            tried += 1
            total = sum(figures.values())
            if len(figures) == 2 and (best is None or total > best[0]):
                best = (total, config, figures)
    note = f"{tried} of {len(_FIO_GRID)} settings measured once, the largest sum of read and write taken"
    if failed:
        note += f"; {len(failed)} failed, the first: {failed[0]}"
    return Pick(
        config=best[1] if best else None,
        seconds=time.monotonic() - begun,
        bytes_written=written,
        settings_tried=tried,
        finished=tried == len(_FIO_GRID),
        note=note,
        claimed=best[2] if best else {},
    )


OPPONENTS: dict[str, Opponent] = {"ds-nvme-tune": ds_nvme_tune, "fio-grid": fio_grid}
