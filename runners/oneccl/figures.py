"""From the times of calls to what decides: the time to move the workload once, and what lies behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any

from runners.runner import Failure, Json
from spaces.units import format_size

# Of each call the slowest rank's nanoseconds, by round.
Rounds = Sequence[Sequence[int]]


def typical(rounds: Rounds) -> float:
    """Microseconds of a call: the median over all of them, which a few held-up calls don't move."""
    return median(time for times in rounds for time in times) / 1e3


def metrics(found: Mapping[int, Rounds], weights: Mapping[int, float]) -> dict[str, float]:
    """``time_us`` to move each size as often as it occurs, and per size microseconds and GB/s (bytes of the message)."""
    times = {size: typical(rounds) for size, rounds in found.items()}
    named: dict[str, float] = {"time_us": sum(weights[size] * time for size, time in times.items())}
    for size, time in times.items():
        name = format_size(size)
        named[f"us_{name}"] = time
        named[f"gbs_{name}"] = size / time / 1e3
    return named


def samples(found: Mapping[int, Rounds], weights: Mapping[int, float]) -> tuple[float, ...]:
    """``time_us`` from each round alone."""
    count = min(len(rounds) for rounds in found.values())
    return tuple(sum(weights[size] * median(rounds[index]) / 1e3 for size, rounds in found.items()) for index in range(count))


def quantiles(found: Mapping[int, Rounds]) -> dict[str, Json]:
    """Microseconds at the tenth, half, nine tenths and 99 hundredths of all calls of a size, their mean and number."""
    told: dict[str, Json] = {}
    for size, rounds in found.items():
        times = sorted(time / 1e3 for part in rounds for time in part)

        def at(share: float, times: list[float] = times) -> float:
            return round(times[min(len(times) - 1, int(share * len(times)))], 2)

        told[format_size(size)] = {
            "p10": at(0.1),
            "p50": at(0.5),
            "p90": at(0.9),
            "p99": at(0.99),
            "mean": round(fmean(times), 2),
            "calls": len(times),
        }
    return told


def impossible(found: Mapping[int, Rounds], collective: str, hosts: int, speed: int | None) -> str:
    """Why the figures can't be true, "" when they can: bytes that must cross, over what can carry them.

    ``speed`` is the link's in Mbit/s, full duplex. Of a reduction over h hosts at least (h-1)/h of the message leaves each
    host, and for allreduce as much comes back reduced; within a host nothing copies a terabyte a second.
    """
    for size, rounds in found.items():
        seconds = typical(rounds) / 1e6
        if seconds <= 0 or size / seconds > 1e12:
            return f"{format_size(size)} in {seconds * 1e6:.3f} us is more than memory can move"
        if hosts > 1 and speed:
            crossing = size * (hosts - 1) / hosts * (2 if collective == "allreduce" else 1)
            gbits = crossing * 8 / seconds / 1e9
            if gbits > 1.2 * speed / 1e3:
                return f"{format_size(size)} at {gbits:.1f} Gbit/s is more than the link's {speed / 1e3:g} Gbit/s can carry"
    return ""


def sorted_out(answers: Sequence[Mapping[str, Any]], sizes: Sequence[int]) -> dict[int, Rounds] | Failure:
    """The rounds of each size, or what happened to the first that has none."""
    found: dict[int, Rounds] = {}
    for size, answer in zip(sizes, answers, strict=True):
        if "wrong" in answer:
            return Failure("wrong", str(answer["wrong"]))
        if "failed" in answer:
            return Failure("infeasible", f"oneCCL reports an error: {answer['failed']}")
        found[size] = answer["rounds"]
    return found
