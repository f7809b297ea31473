"""The training workloads of MLPerf Storage by version and accelerator: what a step reads and how long it computes.

Sources: the workload files of mlcommons/storage at tags v0.5, v1.0 and v2.0-rc0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from runners.runner import UsageError

Version = Literal["v0.5", "v1.0", "v2.0"]
VERSIONS: tuple[Version, ...] = get_args(Version)
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Sample:
    """What a model reads: ``length`` and ``deviation`` are a record's mean size and its spread in bytes.

    ``resize`` is the size in bytes that DLIO gives a record in memory. ``per_file`` records lie in one file.
    """

    length: float
    deviation: int
    resize: int
    per_file: int
    format: str
    framework: str


@dataclass(frozen=True, slots=True)
class Workload:
    """A model on an accelerator. ``computation_time`` is in seconds a step, ``threshold`` the utilisation that passes, in %.

    ``steps`` is what an epoch must have at least; ``total_steps`` a fixed number for the whole run, where there is one.
    """

    version: Version
    model: str
    accelerator: str
    batch: int
    computation_time: float
    sample: Sample
    read_threads: int
    epochs: int
    steps: int
    threshold: float
    total_steps: int | None = None

    @property
    def name(self) -> str:
        return f"{self.model} on {self.accelerator}"

    @property
    def demand(self) -> float:
        """MiB/s that one accelerator reads when it never waits: more than that no storage can give to it."""
        return self.batch * self.sample.length / self.computation_time / MIB

    @property
    def most_samples(self) -> float:
        """Samples/s of one accelerator that never waits."""
        return self.batch / self.computation_time


UNET3D = Sample(146600628, 68341808, 2097152, 1, "npz", "pytorch")
BERT = Sample(2500, 0, 0, 313532, "tfrecord", "tensorflow")
RESNET50 = Sample(114660.07, 0, 150528, 1251, "tfrecord", "tensorflow")
COSMOFLOW = Sample(2828486, 71311, 0, 1, "tfrecord", "tensorflow")

# batch, seconds a step
_SPEEDS: dict[str, tuple[Sample, int, float, dict[str, tuple[int, float]]]] = {
    # sample, read threads, threshold, accelerators
    "unet3d": (UNET3D, 4, 90.0, {"a100": (7, 0.636), "h100": (7, 0.323)}),
    "resnet50": (RESNET50, 8, 90.0, {"a100": (400, 0.435), "h100": (400, 0.224)}),
    "cosmoflow": (COSMOFLOW, 4, 70.0, {"a100": (1, 0.00551), "h100": (1, 0.0035)}),
}


def _all() -> tuple[Workload, ...]:
    found = [
        Workload("v0.5", "unet3d", "v100", 4, 1.3604, UNET3D, 4, 5, 100, 90.0),
        Workload("v0.5", "bert", "v100", 48, 0.968, BERT, 1, 1, 1000, 90.0, total_steps=1000),
    ]
    for version in VERSIONS[1:]:
        for model, (sample, threads, threshold, accelerators) in _SPEEDS.items():
            for accelerator, (batch, seconds) in accelerators.items():
                found.append(Workload(version, model, accelerator, batch, seconds, sample, threads, 5, 500, threshold))
    return tuple(found)


WORKLOADS: tuple[Workload, ...] = _all()
# What the tools of v0.5 call their only accelerator.
_ALIASES = {"v100-32gb": "v100"}


def models() -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.model for each in WORKLOADS))


def accelerators(version: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.accelerator for each in WORKLOADS if each.version == version))


def newest(model: str) -> Version:
    """The newest version that has ``model``. Raises UsageError."""
    found = [each.version for each in WORKLOADS if each.model == model]
    if not found:
        raise UsageError("model", model, f"is none of {', '.join(models())}")
    return found[-1]


def find(model: str, version: str = "", accelerator: str = "") -> Workload:
    """The workload of that name; the newest version that has it and its first accelerator where none is named.

    Raises UsageError that names what there is.
    """
    version = version or newest(model)
    if version not in VERSIONS:
        raise UsageError("mlperf-version", version, f"is none of {', '.join(VERSIONS)}")
    there = [each for each in WORKLOADS if each.version == version]
    same = [each for each in there if each.model == model]
    if not same:
        names = ", ".join(dict.fromkeys(each.model for each in there))
        raise UsageError("model", model, f"{version} has {names}")
    if not accelerator:
        return same[0] if len(same) == 1 else next(each for each in same if each.accelerator == "h100")
    wanted = _ALIASES.get(accelerator.lower(), accelerator.lower())
    for each in same:
        if each.accelerator == wanted:
            return each
    raise UsageError("accelerator", accelerator, f"{version} has {', '.join(each.accelerator for each in same)}")


def threshold(model: str) -> float:
    """The accelerator utilisation in % that passes; the usual 90 for a model that is not known."""
    return next((each.threshold for each in WORKLOADS if each.model == model), 90.0)
