"""What a user may ask of `tune aio` besides its knobs; the command line is made from these fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from runners.options import option

Workload = Literal["optimizer", "param", "inference", "checkpoint"]
EngineName = Literal["auto", "deepspeed", "native"]

# Share of bytes that are read. Optimizer states go both ways each step; parameters and inference weights are only read; a
# checkpoint is only written, each time to fresh files.
READ_SHARE: dict[str, float] = {"optimizer": 0.5, "param": 1.0, "inference": 1.0, "checkpoint": 0.0}


@dataclass(frozen=True, slots=True)
class Options:
    """Options of one `tune aio` run; sizes are text as typed, checked where they are used."""

    device: list[str] = field(
        default_factory=list,
        metadata=option("Folder on the device to tune; repeat it to spread the ranks over several devices.", "DIR"),
    )
    workload: Workload = field(default="optimizer", metadata=option("What the training job moves."))
    read_share: float | None = field(
        default=None, metadata=option("Share of the bytes that are read, 0 to 1, instead of the workload's own.", "X")
    )
    tensor_size: str = field(default="64M", metadata=option("Sizes of the tensors that are moved.", "SIZE[,SIZE]"))
    ranks: int = field(default=1, metadata=option("Processes that do I/O at once, as the ranks on one node do.", "N"))
    handles: int = field(
        default=4,
        metadata=option("aio handles of each training process, for the aio-max-nr rule (ZeRO-3 opens up to 4).", "N"),
    )
    engine: EngineName = field(
        default="auto", metadata=option("What does the I/O; auto takes DeepSpeed's own op where it loads.")
    )
