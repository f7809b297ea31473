"""DeepSpeed's `aio` block: how NVMe offload cuts, queues and reaps its reads and writes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from spaces.space import Config, Knob, Rule, Space, Value, flag, log2

SUMMARY = "DeepSpeed NVMe offload: the aio block of ds_config.json."

_CODE = "deepspeed/runtime/swap_tensor/constants.py"
_OP = "deepspeed csrc/aio/common/deepspeed_aio_common.cpp"

SPACE = Space(
    knobs=(
        Knob(
            "block_size",
            log2(64 << 10, 16 << 20),
            1 << 20,
            "Bytes of one I/O request. Partitions smaller than max(1M, block_size) are not swapped at all.",
            _CODE,
            unit="bytes",
        ),
        Knob("queue_depth", log2(1, 256), 8, "Requests that one thread keeps in flight.", _CODE, unit="count"),
        Knob(
            "intra_op_parallelism",
            log2(1, 16),
            1,
            "Threads that share one tensor, a contiguous slice each.",
            _CODE,
            unit="count",
            option="threads",
        ),
        Knob("single_submit", flag(), False, "One io_submit call a request instead of one a batch.", _OP),
        Knob("overlap_events", flag(), True, "Refill the queue after each completion instead of after the last.", _OP),
    )
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What this job and machine allow. Sizes in bytes; ``aio_free`` is fs.aio-max-nr less what is reserved now."""

    tensor_sizes: tuple[int, ...]
    sector: int
    ranks: int
    handles: int
    aio_free: int


def padded(size: int, unit: int) -> int:
    """The next multiple of ``unit`` bytes at or above ``size``."""
    return -(-size // unit) * unit


def reserved_events(config: Config, ranks: int, handles: int) -> int:
    """Kernel aio events that the job reserves: a context of ``queue_depth`` a thread and one for the main thread, a handle."""
    return (int(config["intra_op_parallelism"]) + 1) * int(config["queue_depth"]) * handles * ranks


def rules(limits: Limits) -> tuple[Rule, ...]:
    """What must hold before anything is measured; the op itself reports success when the first three do not."""
    sector = limits.sector

    def divisible(config: Config) -> str | None:
        threads = int(config["intra_op_parallelism"])
        for size in limits.tensor_sizes:
            if size % threads:
                return f"a tensor of {size} bytes does not divide by {threads} threads"
        return None

    def slices(config: Config) -> str | None:
        threads = int(config["intra_op_parallelism"])
        for size in limits.tensor_sizes:
            if size % threads == 0 and (size // threads) % sector:
                works = padded(size, sector * threads)
                return (
                    f"the slice of {size // threads} bytes ({size} / {threads} threads) is not a whole number of "
                    f"{sector}-byte sectors; a tensor of {works} bytes would be"
                )
        return None

    def blocks(config: Config) -> str | None:
        block = int(config["block_size"])
        return f"block_size {block} is not a whole number of {sector}-byte sectors" if block % sector else None

    def events(config: Config) -> str | None:
        threads, depth = int(config["intra_op_parallelism"]), int(config["queue_depth"])
        need = reserved_events(config, limits.ranks, limits.handles)
        if need <= limits.aio_free:
            return None
        return (
            f"needs ({threads} threads + 1) x {depth} deep x {limits.handles} handles x {limits.ranks} ranks = {need} "
            f"aio events and {limits.aio_free} are free (fs.aio-max-nr)"
        )

    return (
        Rule("threads divide the tensor", divisible),
        Rule("slices end on a sector", slices),
        Rule("blocks are whole sectors", blocks),
        Rule("aio events are free", events),
    )


def for_machine(space: Space, limits: Limits) -> Space:
    """``space`` (narrowed or not) with the rules of ``limits``, equal settings folded, and the cost that breaks ties."""

    def least(name: str, enough: int, value: Value) -> Value:
        """The smallest value of the knob's domain that is at least ``enough``, or ``value`` where none is smaller."""
        fitting = [v for v in space[name].domain.values if enough <= int(v) < int(value)]
        return min(fitting, key=int, default=value)

    def preferred(name: str) -> Value:
        knob = space[name]
        return knob.default if knob.default in knob.domain.values else knob.domain.values[0]

    def canonical(config: Config) -> Config:
        threads = int(config["intra_op_parallelism"])
        longest = max(limits.tensor_sizes) // threads
        folded = dict(config)
        if int(config["block_size"]) > longest:
            folded["block_size"] = least("block_size", longest, config["block_size"])
        requests = max(1, math.ceil(longest / int(folded["block_size"])))
        folded["queue_depth"] = least("queue_depth", requests, config["queue_depth"])
        if requests == 1:
            # One request a thread: nothing to batch and nothing to overlap.
            folded["single_submit"] = preferred("single_submit")
            folded["overlap_events"] = preferred("overlap_events")
        elif int(folded["queue_depth"]) == 1:
            folded["single_submit"] = preferred("single_submit")
            folded["overlap_events"] = preferred("overlap_events")
        return folded

    return replace(space, rules=rules(limits), canonical=canonical, cost=cost)


def cost(config: Config) -> float:
    """Bytes in flight, with threads and unusual flags as the tie-breakers."""
    threads, depth = int(config["intra_op_parallelism"]), int(config["queue_depth"])
    flags = (config["single_submit"] is True) + (config["overlap_events"] is False)
    return threads * depth * int(config["block_size"]) * (1 + 0.01 * threads + 0.001 * flags)
