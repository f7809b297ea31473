"""The runner of `tune aio`: devices, ranks and work files around the measuring of one setting."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from runners.aio import engines, figures
from runners.aio.doctor import preflight
from runners.aio.engine import Setting
from runners.aio.job import devices_of, job_of, volume_of
from runners.aio.measuring import Measuring
from runners.aio.options import Options
from runners.aio.plan import Job, Plan, Turns, Volume, files_per_size, plan
from runners.aio.plausible import implausible
from runners.aio.ranks import Rank, Ranks
from runners.aio.storage import HEADROOM
from runners.device import Device, inspect
from runners.limits import aio_events, available_memory
from runners.lock import lock_device
from runners.runner import EnvironmentProblem, Failure, Json, Measurement, Objective, Outcome, Problem
from runners.scratch import Scratch, clear
from spaces.aio import Limits, for_machine
from spaces.space import Config, Space
from spaces.units import format_duration, format_size

_LOAD_LIMIT = 180.0


class AioRunner:
    """Moves real tensors between memory and the device. ``volume`` may be changed between measurements.

    ``engine`` and ``engine_reason`` say what does the I/O and why; ``message`` is called with a sentence before something
    takes long.
    """

    objective = Objective("effective_gbs", "GB/s")

    def __init__(
        self, options: Options, job: Job, devices: Sequence[Device], choice: engines.Choice, space: Space, volume: Volume
    ) -> None:
        self._options, self._job, self._devices, self._choice = options, job, devices, choice
        self.space = space
        self.volume = volume
        self.message: Callable[[str], None] = lambda _text: None
        self._held = ExitStack()
        self._ranks: Ranks | None = None
        self._turns = Turns({})
        self._prepared = 0
        self._seen: set[tuple[object, ...]] = set()

    @classmethod
    def create(cls, options: Options, space: Space) -> AioRunner:
        devices = devices_of(options)
        job = job_of(options, max(device.sector for device in devices), len(devices))
        events = aio_events()
        if events is None:
            raise EnvironmentProblem("this kernel has no asynchronous I/O (/proc/sys/fs/aio-max-nr is missing)")
        sector = max(device.sector for device in devices)
        limits = Limits(job.sizes, sector, job.ranks, options.handles, events.free)
        volume = volume_of(job)
        choice = engines.choose(options.engine, sum(plan(job, volume).slots))
        return cls(options, job, devices, choice, for_machine(space, limits), volume)

    @property
    def engine(self) -> str:
        return self._choice.name

    @property
    def engine_reason(self) -> str:
        return self._choice.reason

    def facts(self) -> Mapping[str, Json]:
        from runners.aio.software import version

        devices: list[Json] = [
            {
                "model": device.model,
                "transport": device.transport,
                "fs_type": device.fs_type,
                "mount_point": device.mount_point,
                "mount_options": list(device.mount_options),
                "sector": device.sector,
            }
            for device in self._devices
        ]
        deepspeed = self.engine == "deepspeed"
        return {
            "devices": devices,
            "engine": self.engine,
            "deepspeed": version("deepspeed") if deepspeed else None,
            "torch": version("torch") if deepspeed else None,
            "kernel": os.uname().release,
            "workload": self._options.workload,
            "read_share": self._job.read_share,
            "tensor_sizes": list(self._job.sizes),
            "ranks": self._job.ranks,
        }

    def check(self) -> list[Problem]:
        """Raises EnvironmentProblem where another run holds a device; clears what killed ones left, which takes space."""
        with ExitStack() as held:
            self._lock(held)
            for device in self._devices:
                clear(device.folder)
        return preflight(self._options)

    @property
    def _plan(self) -> Plan:
        return plan(self._job, self.volume)

    def bytes_per_measurement(self) -> int:
        return self._plan.written * self._job.ranks

    def bytes_to_prepare(self) -> int:
        if not self._job.work_files:
            return 0
        counts = self._files([inspect(device.folder) for device in self._devices])
        return sum(size * count for size, count in counts.items()) * self._job.ranks

    @property
    def bytes_prepared(self) -> int:
        return self._prepared

    def prepare(self) -> None:
        if self._ranks is not None:
            return
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        self._check_memory()
        places = [self._devices[number % len(self._devices)] for number in range(self._job.ranks)]
        self._ranks = Ranks([Rank(number, device) for number, device in enumerate(places)], self._choice.environment)
        if self._choice.build:
            self._start()  # minutes of compiling are no reason to keep others from the device
        self._lock(self._held)
        scratch = {device: self._held.enter_context(Scratch.create(device.folder)).path for device in self._devices}
        # Measured after the leftovers of killed runs were cleared.
        counts = self._files([inspect(device.folder) for device in self._devices])
        for rank in self._ranks.ranks:
            rank.folder = scratch[rank.device] / f"rank{rank.number}"
            rank.folder.mkdir()
        self._start()
        self._turns = Turns(counts)
        if self._job.work_files:
            self._prepared, failed = self._ranks.fill(list(self._turns.files()))
            if failed is not None:
                raise EnvironmentProblem(f"the work files can't be written: {failed.reason}", _where(self._devices))

    def _lock(self, held: ExitStack) -> None:
        locked: set[str] = set()
        for device in self._devices:
            if not locked.issuperset(device.disk_ids):
                lock = lock_device(device.device_id, f"tune aio --device {device.folder}")
                held.callback(lock.release)
                locked.update(device.disk_ids)

    def _check_memory(self) -> None:
        need, room = sum(self._plan.slots) * self._job.ranks, available_memory()
        if room is not None and need > room // 10 * 8:
            raise EnvironmentProblem(
                f"{self._job.ranks} ranks need {format_size(need)} of memory for their buffers and {room} bytes are available",
                "--tensor-size or --ranks smaller",
            )

    def _files(self, devices: Sequence[Device]) -> dict[int, int]:
        """Work files of each size and rank that fit every device, with headroom left."""
        share: dict[int, int] = {}
        for number in range(self._job.ranks):
            share[number % len(devices)] = share.get(number % len(devices), 0) + 1
        fresh = sum(self._plan.write) if self._job.fresh else 0
        room = [(devices[place].free_bytes - HEADROOM) // count - fresh for place, count in share.items()]
        job = self._job
        counts = files_per_size(job, room) if job.work_files else (dict.fromkeys(job.sizes, 1) if min(room) >= 0 else {})
        if counts:
            return counts
        tightest = min(share, key=lambda place: devices[place].free_bytes // share[place])
        need = ((sum(job.sizes) if job.work_files else 0) + fresh) * share[tightest] + HEADROOM
        raise EnvironmentProblem(
            f"{devices[tightest].folder}: {devices[tightest].free_bytes} bytes are free and the smallest run needs {need}",
            f"df -h {devices[tightest].mount_point}",
        )

    def _start(self) -> None:
        assert self._ranks is not None
        build = self._choice.build
        if build:
            self.message(f"building DeepSpeed's async_io op (about {format_duration(build)}, once)")
        limit = _LOAD_LIMIT + 10 * build
        failed = self._ranks.start(self.engine, limit, one_first=build > 0)
        if failed is not None and self.engine == "deepspeed" and self._options.engine == "auto":
            self._choice = engines.Choice("native", f"DeepSpeed's op did not load: {failed.reason}")
            self._ranks.close()
            failed = self._ranks.start("native", limit)
        if failed is not None:
            raise EnvironmentProblem(
                f"the {self.engine} engine did not start: {failed.reason}", "tune doctor aio, or --engine native"
            )
        self._choice = replace(self._choice, build=0.0)

    def measure(self, config: Config, limit: float) -> Outcome:
        """One measurement; ``limit`` counts from where the workers are ready and the work files whole."""
        begun = time.monotonic()
        broken = self.space.broken(config)
        if broken:
            return Failure("infeasible", broken[0])
        assert self._ranks is not None, "prepare comes first"
        restored, failed = self._restore()
        if failed is not None:
            return Failure(failed.kind, failed.reason, failed.log, time.monotonic() - begun, restored)
        measuring = Measuring(self._ranks, self._job, self._plan, self._turns, limit)
        key = self.space.key(config)
        setting = Setting(
            block_size=int(config["block_size"]),
            queue_depth=int(config["queue_depth"]),
            threads=int(config["intra_op_parallelism"]),
            single_submit=bool(config["single_submit"]),
            overlap_events=bool(config["overlap_events"]),
        )
        try:
            failed = measuring.run(setting, thorough=key not in self._seen)
        finally:
            self._ranks.release()
        readings = measuring.readings
        seconds, written = time.monotonic() - begun, readings.written + restored
        if failed is not None:
            return Failure(failed.kind, failed.reason, failed.log, seconds, written)
        self._seen.add(key)
        metrics = figures.metrics(self._job, readings)
        doubt = implausible(metrics, figures.ceiling(self._devices))
        if doubt is not None:
            return Failure("wrong", doubt, "", seconds, written)
        return Measurement(
            metrics,
            figures.samples(self._job, readings),
            seconds,
            written,
            figures.evidence(self._job, self._devices, self.engine, readings),
        )

    def _restore(self) -> tuple[int, Failure | None]:
        """Workers that died are started, files that a failure left torn are written anew. Bytes written, what failed."""
        assert self._ranks is not None
        if any(rank.worker is None or not rank.worker.alive for rank in self._ranks.ranks):
            self._seen.clear()
            failed = self._ranks.start(self.engine, _LOAD_LIMIT)
            if failed is not None:
                return 0, Failure("environment", f"the {self.engine} engine does not start again: {failed.reason}", failed.log)
        return self._ranks.fill(list(self._turns.files())) if self._job.work_files else (0, None)

    def cross_check(self, config: Config) -> Mapping[str, Mapping[str, float]] | Failure:
        """fio's figures beside ours, on the first device."""
        from runners.aio.crosscheck import cross_check

        assert self._ranks is not None, "prepare comes first"
        return cross_check(config, self._ranks.ranks[0].folder, self._job)

    def close(self) -> None:
        ranks, self._ranks = self._ranks, None
        try:
            if ranks is not None:
                ranks.close()
        finally:
            self._held.close()

    def __enter__(self) -> AioRunner:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _where(devices: Sequence[Device]) -> str:
    return "df -h " + " ".join(device.mount_point for device in devices)
