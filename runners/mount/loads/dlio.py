"""A training by DLIO reads: MLPerf Storage's workloads, 1 to N emulated accelerators, samples/s and their utilisation."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from runners.mlperf import reader
from runners.mlperf.benchmark import DataSet, look, train
from runners.mlperf.bound import bound
from runners.mlperf.command import known, parameter
from runners.mlperf.divisions import division_of
from runners.mlperf.installed import find_dlio
from runners.mlperf.launching import Start, find_launcher
from runners.mlperf.output import EpochFigures
from runners.mlperf.sampling import Samples, busy_between, processor_time
from runners.mlperf.workloads import Workload, find
from runners.mount.loads import Place
from runners.mount.work import Able, Epoch, Reading, Work
from runners.runner import EnvironmentProblem, Failure, Json, Objective, Problem, UsageError
from spaces.space import Config, Knob, Space

# Below this start-up and the last steps weigh more than settings do, and versions of DLIO count differently.
LEAST_STEPS = 50
# What --load-option may name besides DLIO's own parameters, which have a dot in them.
_OWN = {
    "model": "the workload",
    "accelerator": "h100, a100 or v100",
    "mlperf_version": "v0.5, v1.0 or v2.0",
    "steps": "steps an epoch",
    "mpi": "the mpirun to use",
    "dlio_python": "the Python that has DLIO",
}


class DlioLoad:
    """One DLIO job a measurement, on as many files as its steps take.

    An epoch is one pass over these files on a fresh mount. A second one would come from the kernel's page cache, so there is
    only one where DLIO can't read past that; where it can, two.
    """

    objective = Objective("samples_s", "samples/s")

    def __init__(self, name: str, work: Work) -> None:
        self.name = name
        self._work = work
        own, given = _split(work.extra)
        model = own.get("model", "unet3d" if name == "dlio" else name)
        self.workload: Workload = find(model, own.get("mlperf_version", ""), own.get("accelerator", ""))
        self._given = given
        self._steps = _count("steps", own.get("steps", str(LEAST_STEPS)), 2)
        self._mpi, self._python = own.get("mpi", ""), own.get("dlio_python", "")
        self.batch = _count("reader.batch_size", given.get("reader.batch_size", str(self.workload.batch)), 1)
        threads = _count("reader.read_threads", given.get("reader.read_threads", str(self.workload.read_threads)), 0)
        if work.reader and "reader.read_threads" not in given:
            threads = reader.most_threads()
        self.open_files = work.accelerators * max(1, threads)
        self.largest: int | None = None
        self._data = ""
        self._set: DataSet | None = None
        self._start: Start | None = None
        self._parameters: dict[str, str] = {}
        self._read_with: dict[str, str] = {}

    def facts(self) -> Mapping[str, Json]:
        work, workload = self._work, self.workload
        try:
            versions = self._ready().facts()
        except EnvironmentProblem:  # which problems() tells
            versions = {}
        return {
            "load": "dlio",
            "model": workload.model,
            "accelerator": workload.accelerator,
            "mlperf_version": workload.version,
            "accelerators": work.accelerators,
            "steps": self._steps,
            "parameters": dict(sorted(self._given.items())),
            "tune_reader": work.reader,
            "direct": work.direct,
            "cache": "warm" if work.warm else "cold",
            "data": work.data,
            **versions,
        }

    def problems(self) -> list[Problem]:
        try:
            start = self._ready()
        except EnvironmentProblem as problem:
            return [Problem("dlio", "error", problem.message, problem.mend)]
        found = []
        if self._work.direct and not self._direct():
            can = "only files of npz and npy" if start.dlio.direct else "nothing"
            why = f"DLIO {start.dlio.version} reads {can} past the page cache"
            mend = (
                "leave --direct out: each measurement is one epoch on a fresh mount, which reads from the store all the same"
            )
            found.append(Problem("dlio-direct", "error", why, mend))
        if self._work.reader and not self._knobs(self.able()):
            why = f"{self.workload.version} lets nothing of the reader be tuned in {self._work.reader.upper()}"
            found.append(Problem("dlio-reader", "error", why, "leave --tune-reader out, or add --open"))
        division = division_of(self.workload.version, self.workload.model, self._given)
        if division.division != "closed":
            found.append(Problem("dlio-division", "note", f"this is no CLOSED run of MLPerf Storage: {division.why}"))
        return found

    def _ready(self) -> Start:
        """Raises EnvironmentProblem, and UsageError for a parameter that this DLIO doesn't have."""
        if self._start is None:
            dlio = find_dlio(self._python)
            dlio.refuse(self.workload)
            self._parameters = known(self._given, dlio, "load-option")
            self._start = Start(dlio, find_launcher(dlio, self._mpi))
        return self._start

    def _direct(self) -> bool:
        return reader.can_read_directly(self.able(), self.workload)

    def able(self) -> Able:
        """Raises EnvironmentProblem."""
        return reader.able(self._ready().dlio)

    def extend(self, space: Space, able: Sequence[Able]) -> Space:
        """Raises BadValue for a parameter that a knob can't take."""
        return reader.extended(space, self._knobs(Able.of_all(able)), self._given)

    def _knobs(self, able: Able) -> tuple[Knob, ...]:
        return reader.knobs(self.workload, able, beyond_closed=self._work.reader == "open")

    def read_with(self, config: Config) -> None:
        self._read_with = reader.parameters(config)

    def choose(self, place: Place) -> Mapping[str, Json]:
        found = self._find(place.folder)
        per_step = self.batch * self._work.accelerators
        steps = found.files * self.workload.sample.per_file // per_step
        if steps < self._steps:
            need = -(-self._steps * per_step // self.workload.sample.per_file)
            raise EnvironmentProblem(
                f"the data set has {found.files} files, which give {steps} steps an epoch, and {self._steps} are needed to "
                f"tell settings apart: that takes {need} files",
                "generate more with tune mlperf run --files, or take --load-option steps=N",
            )
        used = -(-self._steps * per_step // self.workload.sample.per_file)
        self._data = str(found.folder.relative_to(place.folder))
        self._set = DataSet(found.folder, used, found.file_size, found.subfolders)
        self.largest = found.largest
        return {"files": used, "bytes": self._set.bytes, "largest_file": found.largest, "data_set": self._data}

    def _find(self, folder: Path) -> DataSet:
        """The data set that --data names, or the only one in the folder and in those right below it."""
        if self._work.data:
            found = look(folder / self._work.data, self.workload)
            if found is None:
                ending = self.workload.sample.format
                why = f"names no data set of DLIO: there are no files *.{ending} in a folder train in it"
                raise UsageError("data", self._work.data, why)
            return found
        below = [folder, *sorted(entry for entry in folder.iterdir() if entry.is_dir())]
        sets = [there for entry in below if (there := look(entry, self.workload)) is not None]
        if len(sets) > 1:
            names = ", ".join(str(each.folder.relative_to(folder)) for each in sets[:5])
            raise UsageError("data", "''", f"there are several data sets for {self.workload.model}: {names}; name one")
        if not sets:
            raise EnvironmentProblem(
                f"the mount holds no data set of DLIO for {self.workload.model} (files in a folder train)",
                f"generate one where the store takes it: tune mlperf run --model {self.workload.model} --data DIR --files N",
            )
        return sets[0]

    def run(self, place: Place, limit: float) -> Reading | Failure:
        start, chosen = self._ready(), self._set
        assert chosen is not None
        work = self._work
        direct = (work.direct or self._read_with.get("reader.odirect") == "True") and self._direct()
        epochs = 2 if direct or work.warm else 1
        data = DataSet(place.folder / self._data, chosen.files, chosen.file_size, chosen.subfolders)
        parameters = {**self._parameters, **self._read_with, **({"reader.odirect": "True"} if direct else {})}
        if self.workload.sample.per_file > 1:
            parameters["train.total_training_steps"] = str(self._steps)
        output = place.scratch / "output"
        try:
            with Samples(processor_time) as busy:
                done = train(
                    start,
                    self.workload,
                    data,
                    parameters,
                    ranks=work.accelerators,
                    epochs=epochs,
                    output=output,
                    kept=".hydra",
                    scratch=place.scratch,
                    limit=limit,
                )
        finally:
            shutil.rmtree(output, ignore_errors=True)
        if isinstance(done, Failure):
            return done
        found = tuple(self._epoch(epoch, filling=work.warm and epoch.number == 1) for epoch in done.epochs)
        counted = done.epochs[-1]
        what = bound(counted.au, self.workload.threshold, busy_between(busy, counted.began, counted.ended))
        evidence: dict[str, Json] = {
            "steps": counted.steps,
            "utilisation_by_epoch": [round(epoch.au, 2) for epoch in done.epochs],
            "threshold": self.workload.threshold,
            "bound": what.by,
            "demand_mib_s": round(self._demand(), 1),
            "seconds_of_job": round(done.seconds, 2),
        }
        warnings = [] if what.enough else [what.sentence]
        if self._read_with:
            words = " ".join(f"{name}={value}" for name, value in sorted(self._read_with.items()))
            evidence["reader"] = dict(self._read_with)
            warnings.append(f"the reader's part is DLIO's own and in no file of the mount: --params {words}")
        return Reading(found, evidence, tuple(warnings), what.sentence if what.enough else "")

    def _epoch(self, epoch: EpochFigures, *, filling: bool) -> Epoch:
        assert self._set is not None
        read = int(epoch.samples * self._set.file_size / self.workload.sample.per_file)
        metrics = {
            "samples_s": epoch.samples_per_second,
            "utilisation": epoch.au,
            "step_ms": epoch.median_step * 1000,
            "first_step_s": epoch.first_step,
        }
        return Epoch(epoch.began, epoch.ended, read, metrics, filling)

    def _demand(self) -> float:
        """MiB/s that keep all accelerators busy, by the files' real size."""
        assert self._set is not None
        seconds = float(self._parameters.get("train.computation_time", self.workload.computation_time))
        record = self._set.file_size / self.workload.sample.per_file
        return self._work.accelerators * self.batch * record / seconds / (1 << 20) if seconds > 0 else 0.0

    def figures(self, epochs: Sequence[Epoch]) -> tuple[Mapping[str, float], tuple[float, ...]]:
        """Means over the epochs; a reading an epoch."""
        samples = tuple(epoch.metrics["samples_s"] for epoch in epochs)
        metrics = {name: sum(epoch.metrics[name] for epoch in epochs) / len(epochs) for name in epochs[0].metrics}
        if len(epochs) > 1:
            metrics["first_epoch_samples_s"] = samples[0]
        return metrics, samples

    def close(self) -> None:
        """A measurement's job ends with it."""


def _split(extra: Sequence[tuple[str, str]]) -> tuple[dict[str, str], dict[str, str]]:
    """The load's own options, and DLIO's parameters. Raises UsageError."""
    own: dict[str, str] = {}
    given: dict[str, str] = {}
    for name, value in extra:
        if "." in name:
            try:
                key, text = parameter(f"{name}={value}")
            except UsageError as error:
                raise UsageError("load-option", f"{name}={value}", error.why) from None
            given[key] = text
        elif name in _OWN:
            own[name] = value
        else:
            names = ", ".join(f"{key} ({meaning})" for key, meaning in _OWN.items())
            raise UsageError(
                "load-option", f"{name}={value}", f"is a parameter of DLIO like reader.read_threads=8, or {names}"
            )
    return own, given


def _count(name: str, text: str, lowest: int) -> int:
    if not (text.isascii() and text.isdigit()) or not lowest <= int(text) <= 10**6:
        raise UsageError("load-option", f"{name}={text}", f"must be a whole number from {lowest} to 1000000")
    return int(text)


def create(name: str, work: Work) -> DlioLoad:
    """Raises UsageError for options that can't be used; starts nothing."""
    return DlioLoad(name, work)
