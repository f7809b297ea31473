"""summary.json, which DLIO writes after a run: that of MLPerf Storage v0.5, v1.0 and v2.0, told apart by what it holds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from runners.mlperf.fields import BadResult, Fields, read_json
from runners.mlperf.workloads import Version


@dataclass(frozen=True, slots=True)
class Training:
    """The training part of a summary: one figure an epoch, utilisations in %, throughputs in samples/s, I/O in MiB/s.

    ``passed`` is what DLIO said of its own threshold; None where it said nothing.
    """

    au: tuple[float, ...]
    au_mean: float
    passed: bool | None
    samples_per_second: tuple[float, ...]
    samples_per_second_mean: float
    io_mean: float

    @property
    def failure(self) -> str:
        """Why these figures are those of a failed run, in a clause; "" where they may be believed.

        DLIO ends with status 0 and a utilisation of 0 when its readers gave up: a failure, not a measurement of 0.
        """
        if not self.au:
            return "no epoch was finished"
        dead = [str(number) for number, value in enumerate(self.au, 1) if value <= 0]
        if dead:
            return f"the accelerator utilisation of epoch {', '.join(dead)} is 0: nothing was computed"
        if self.au_mean <= 0:
            return "the mean accelerator utilisation is 0: nothing was computed"
        if self.samples_per_second_mean <= 0 or any(value <= 0 for value in self.samples_per_second):
            return "its throughput is 0: nothing was read"
        if any(value > 101 for value in (*self.au, self.au_mean)):
            return f"an accelerator utilisation of {max(*self.au, self.au_mean):.1f} % can't be"
        return ""


@dataclass(frozen=True, slots=True)
class Summary:
    """``training`` is None for a run that only wrote checkpoints. ``model`` is "" where the file doesn't say (v1.0, v2.0).

    ``host_memory`` are GiB a host, ``data_per_host`` GiB of the data set that a host reads; empty and None where not told.
    """

    file: Path
    version: Version
    model: str
    accelerators: int
    hosts: int
    hostname: str
    start: str
    end: str
    files_train: int
    samples_per_file: int
    epochs: int
    training: Training | None
    host_memory: tuple[float, ...] = ()
    host_cpus: tuple[int, ...] = ()
    potential_caching: tuple[bool, ...] = ()
    data_per_host: float | None = None


def read_summary(file: Path) -> Summary:
    """A summary.json. Raises BadResult that names the file, the field and what is wrong with it."""
    return parse_summary(Fields(file, read_json(file)))


def parse_summary(fields: Fields) -> Summary:
    if "metric" not in fields or "num_accelerators" not in fields:
        raise BadResult(fields.file, "is no summary of DLIO: it has no field metric and num_accelerators")
    metric = fields.object("metric")
    epochs = fields.count("epochs") if "epochs" in fields else None
    training = _training(metric)
    if training is not None and epochs is not None and epochs != len(training.au):
        why = f"says {epochs} and {metric.full('train_au_percentage')} holds {len(training.au)}"
        raise BadResult(fields.file, why, fields.full("epochs"))
    optional = {
        "host_memory": fields.numbers("host_memory_GB") if "host_memory_GB" in fields else (),
        "potential_caching": fields.flags("potential_caching") if "potential_caching" in fields else (),
        "data_per_host": fields.number("data_size_per_host_GB") if "data_size_per_host_GB" in fields else None,
    }
    cpus = fields.numbers("host_cpu_count") if "host_cpu_count" in fields else ()
    return Summary(
        file=fields.file,
        version=_version(fields, metric),
        model=_model(fields),
        accelerators=fields.count("num_accelerators", 1),
        hosts=fields.count("num_hosts", 1) if "num_hosts" in fields else 1,
        hostname=fields.text("hostname", ""),
        start=fields.text("start", ""),
        end=fields.text("end", ""),
        files_train=fields.count("num_files_train") if "num_files_train" in fields else 0,
        samples_per_file=fields.count("num_samples_per_file") if "num_samples_per_file" in fields else 1,
        epochs=epochs or 0,
        training=training,
        host_cpus=tuple(int(each) for each in cpus),
        **optional,  # type: ignore[arg-type]  # each has the type of its field
    )


def _training(metric: Fields) -> Training | None:
    """None for a run that only wrote or read checkpoints."""
    if not any(name.startswith("train_") for name in metric.names()):
        if any("checkpoint" in name for name in metric.names()):
            return None
        raise BadResult(metric.file, "is missing; the run may not have ended", metric.full("train_au_percentage"))
    verdict = metric.text("train_au_meet_expectation", "")
    return Training(
        au=metric.numbers("train_au_percentage"),
        au_mean=metric.number("train_au_mean_percentage"),
        passed={"success": True, "fail": False}.get(verdict),
        samples_per_second=metric.numbers("train_throughput_samples_per_second"),
        samples_per_second_mean=metric.number("train_throughput_mean_samples_per_second"),
        io_mean=metric.number("train_io_mean_MB_per_second"),
    )


def _version(fields: Fields, metric: Fields) -> Version:
    """v2.0 differs from v1.0 only where checkpoints were measured; the folder tells the rest (runners.mlperf.folders)."""
    if any("checkpoint_io" in name or "checkpoint_duration" in name or "checkpoint_size" in name for name in metric.names()):
        return "v2.0"
    return "v1.0" if "num_hosts" in fields or "host_memory_GB" in fields else "v0.5"


def _model(fields: Fields) -> str:
    """The model that v0.5 names; later versions leave it out."""
    return fields.text("model", "").lower()
