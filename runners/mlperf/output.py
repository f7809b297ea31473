"""What DLIO leaves behind after a training: each rank's times a step, and when each epoch began and ended."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from runners.mlperf.fields import BadResult, Fields, read_json

_RANK = re.compile(r"(\d+)_output\.json")
_EPOCH_FILES = ("per_epoch_stats.json", "0_per_epoch_stats.json")


@dataclass(frozen=True, slots=True)
class Steps:
    """One epoch of one rank: seconds of each step to load, to compute, and in all."""

    load: tuple[float, ...]
    compute: tuple[float, ...]
    whole: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class EpochFigures:
    """One epoch over all ranks, its first step left out, since that one waits for the readers to start.

    ``au`` is the accelerators' utilisation in %, ``samples_per_second`` of all of them together, times in seconds.
    ``began`` and ``ended`` are seconds since 1970.
    """

    number: int
    steps: int
    samples: int
    au: float
    samples_per_second: float
    median_step: float
    first_step: float
    began: float
    ended: float


def read_epochs(folder: Path, batch: int, ranks: int) -> list[EpochFigures]:
    """The epochs of a run whose output is in ``folder``. Raises BadResult for what is missing or makes no sense.

    Every step ends for all ranks together, at a barrier: a step takes as long as its slowest rank.
    """
    by_rank = [_steps(folder, rank) for rank in range(ranks)]
    times = _times(folder)
    epochs = sorted(by_rank[0])
    for rank, steps in enumerate(by_rank):
        if sorted(steps) != epochs:
            raise BadResult(folder, f"rank 0 tells of epochs {_list(epochs)} and rank {rank} of {_list(sorted(steps))}")
    found = []
    for number in epochs:
        if number not in times:
            raise BadResult(folder, f"no file tells when epoch {number} began and ended")
        found.append(_figures(folder, number, [steps[number] for steps in by_rank], batch, times[number]))
    return found


def output_ranks(folder: Path) -> list[int]:
    """The ranks that have left an output."""
    return sorted(int(match[1]) for entry in folder.glob("*_output.json") if (match := _RANK.fullmatch(entry.name)))


def _figures(folder: Path, number: int, ranks: Sequence[Steps], batch: int, times: tuple[float, float]) -> EpochFigures:
    counts = {len(each.whole) for each in ranks}
    if len(counts) > 1:
        raise BadResult(folder, f"in epoch {number} ranks made different numbers of steps: {_list(sorted(counts))}")
    (steps,) = counts
    if steps < 2:
        raise BadResult(folder, f"epoch {number} has {steps} steps: at least 2 are needed, since the first isn't counted")
    slowest = [max(each.whole[step] for each in ranks) for step in range(steps)]
    counted = sum(slowest[1:])
    if counted <= 0:
        raise BadResult(folder, f"the steps of epoch {number} took no time")
    computing = statistics.fmean(sum(each.compute[1:]) for each in ranks)
    return EpochFigures(
        number=number,
        steps=steps,
        samples=steps * batch * len(ranks),
        au=100 * computing / counted,
        samples_per_second=(steps - 1) * batch * len(ranks) / counted,
        median_step=statistics.median(slowest[1:]),
        first_step=slowest[0],
        began=times[0],
        ended=times[1],
    )


def _steps(folder: Path, rank: int) -> dict[int, Steps]:
    file = folder / f"{rank}_output.json"
    fields = Fields(file, read_json(file))
    found = {int(key): _epoch(fields.object(key)) for key in fields.names() if key.isascii() and key.isdigit()}
    if not found:
        raise BadResult(file, "tells of no epoch: the training did not run")
    return found


def _epoch(epoch: Fields) -> Steps:
    """The blocks of an epoch, which checkpoints part, one after the other."""
    load, whole, compute = ([], [], [])  # type: tuple[list[float], list[float], list[float]]
    for name, into in (("load", load), ("proc", whole), ("compute", compute)):
        blocks = epoch.object(name)
        for block in sorted((key for key in blocks.names() if key.startswith("block")), key=lambda key: (len(key), key)):
            into += blocks.numbers(block)
    if not len(load) == len(whole) == len(compute):
        why = f"{len(load)} loads, {len(whole)} steps and {len(compute)} computations are told of"
        raise BadResult(epoch.file, why, epoch.full("proc"))
    if any(value < 0 for value in (*load, *whole, *compute)):
        raise BadResult(epoch.file, "holds a time below 0", epoch.full("proc"))
    return Steps(tuple(load), tuple(compute), tuple(whole))


def _times(folder: Path) -> Mapping[int, tuple[float, float]]:
    file = next((folder / name for name in _EPOCH_FILES if (folder / name).exists()), None)
    if file is None:
        raise BadResult(folder, f"holds no {_EPOCH_FILES[0]}")
    fields = Fields(file, read_json(file))
    found = {}
    for key in fields.names():
        epoch = fields.object(key)
        blocks = [epoch.object(name) for name in epoch.names() if name.startswith("block")]
        ends = [(_when(block, "start"), _when(block, "end")) for block in blocks if "end" in block]
        if key.isascii() and key.isdigit() and ends:
            found[int(key)] = (min(begun for begun, _ in ends), max(ended for _, ended in ends))
    return found


def _when(fields: Fields, key: str) -> float:
    """Seconds since 1970; DLIO writes the host's local time without its zone."""
    text = fields.text(key)
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        raise BadResult(fields.file, f"is {text[:40]!r} where a time is expected", fields.full(key)) from None


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"
