"""The runner of every target that mounts: a fresh mount for each measurement, a load on it, and the proof that its bytes
really came from where they should.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from runners.launch.marks import MARK
from runners.limits import available_memory
from runners.mount import generated, honest, leftovers
from runners.mount.backend import Backend, Session
from runners.mount.counters import processor_time, processors_busy
from runners.mount.guard import Guard
from runners.mount.loads import Load, Place, TunableLoad, create
from runners.mount.meter import Counters, Meter, Moved, by_epoch, moved_at_all, moving
from runners.mount.options import LoadOptions, work_of
from runners.mount.work import Bounds, Reading
from runners.runner import (
    EnvironmentProblem,
    Failure,
    Json,
    Measurement,
    Objective,
    Outcome,
    Problem,
    UsageError,
    WritesNothing,
)
from runners.scratch import Scratch
from spaces.space import Config, Space
from spaces.units import format_size

# For the first look at the data: a mount, a listing of a remote folder.
_LOOK = 60.0
# What the load may still need once its mount was killed: its own limit comes this much later.
_AFTER = 2.0
_BUSY = 0.95
# So many bytes fetched for one that is read are worth a word; where the store compresses, its bytes are others.
_WASTE, _COMPRESSED = 4.0, 0.5


class MountRunner(WritesNothing):
    """Measures what a load reads through mounts of a back end. ``message`` is called before something takes long."""

    def __init__(self, backend: Backend, load: Load, options: LoadOptions, narrowed: Space) -> None:
        self.backend, self.load = backend, load
        self.objective: Objective = load.objective
        self._narrowed = narrowed
        self._work = work_of(options)
        self._parent = Path(options.scratch or tempfile.gettempdir()).absolute()
        memory = self._work.memory if self._work.memory is not None else (available_memory() or 1 << 30) // 2
        self._bounds = Bounds(self._work, load.open_files, memory, system=options.system)
        self.message: Callable[[str], None] = lambda _text: None
        # Called between mounting and reading: hosts that read together wait for each other there.
        self.before_reading: Callable[[], None] = lambda: None
        self._scratch: Scratch | None = None
        self._chosen: dict[str, Json] = {}
        self._generated = generated.DataSet(self._work.generate, self._work.jobs)
        self._space: Space | None = None
        # The load, where knobs of its own are tuned with the mount's.
        self.reader = load if self._work.reader and isinstance(load, TunableLoad) else None

    @classmethod
    def of(cls, backend: Backend, options: LoadOptions, narrowed: Space) -> MountRunner:
        """With the load that the options name. Raises UsageError."""
        if options.scratch and not Path(options.scratch).is_dir():
            raise UsageError("scratch", options.scratch, "is no folder that exists")
        return cls(backend, create(options.load, work_of(options)), options, narrowed)

    # -- what is tuned here --------------------------------------------------------------------------------------------

    @property
    def engine(self) -> str:
        return self.load.name

    @property
    def engine_reason(self) -> str:
        return ""

    @property
    def space(self) -> Space:
        if self._space is None:
            own = self.backend.space(self._narrowed, replace(self._bounds, largest=self.load.largest))
            self._space = self.reader.extend(own, [self.reader.able()]) if self.reader is not None else own
        return self._space

    def limits(self) -> Any:
        """What is known by now of what the back end's settings must keep to; see Backend.limits."""
        return self.backend.limits(replace(self._bounds, largest=self.load.largest))

    def facts(self) -> Mapping[str, Json]:
        made: dict[str, Json] = {"generated": self._generated.size} if self._generated.size else {}
        return {**self.backend.facts(), **self.load.facts(), **made}

    def check(self) -> list[Problem]:
        """Also mounts once and looks at the data, where nothing stands in the way; clears what killed runs left."""
        leftovers.clear(self._parent)
        found = [*self.backend.problems(), *self.load.problems()]
        if not any(problem.severity == "error" for problem in found):
            self._open()
            if not self._chosen and not self._generated.size:
                self._look()
        return found

    def recover(self) -> None:
        """Clears what killed runs left, and puts back what they changed. Raises EnvironmentProblem."""
        leftovers.clear(self._parent)
        self.backend.problems()
        if self._generated.size:
            try:
                self._open()
                self._look(choose=False)
            finally:
                self.close()

    def _open(self) -> None:
        """The scratch folder. Raises EnvironmentProblem."""
        if self._scratch is not None:
            return
        self._scratch = Scratch.create(self._parent)
        try:
            for name in ("backend", "load"):
                (self._scratch.path / name).mkdir()
            self.backend.prepare(self._scratch.path / "backend", warm=self._work.warm)
        except BaseException:
            self.close()
            raise

    def _look(self, *, choose: bool = True) -> None:
        """Mounts with the defaults and lets the load choose its data, once what killed studies left is no longer there.

        Raises EnvironmentProblem and UsageError.
        """
        session = self.backend.mount(self._narrowed.default, _LOOK)
        if isinstance(session, Failure):
            raise EnvironmentProblem(f"it can't be mounted: {session.reason}", f"tune doctor {self.backend.name.lower()}")
        try:
            with Guard(_LOOK, session.kill) as guard:
                try:
                    left = generated.left_by_the_dead(session.folder)
                    if choose:
                        self._chosen = dict(self.load.choose(self._load_place(session)))
                except OSError as error:
                    late = f" within {_LOOK:.0f} s" if guard.expired else ""
                    raise EnvironmentProblem(f"the mount can't be listed{late}: {error.strerror or error}") from None
        finally:
            session.close()
        self._space = None
        if left:
            try:
                generated.discard(self.backend, self._narrowed.default, left)
            except EnvironmentProblem as problem:
                # Loads leave such folders out: they only take room.
                self.message(f"{', '.join(left)} of a study that was killed can't be removed: {problem.message}")

    def bytes_to_prepare(self) -> int:
        return self._generated.size

    @property
    def bytes_prepared(self) -> int:
        return self._generated.size if self._generated.name else 0

    def _load_place(self, session: Session, mark: Callable[[], object] = lambda: None) -> Place:
        assert self._scratch is not None
        environment = {**os.environ, MARK: f"{leftovers.mark_of(self._scratch.path)}.load"}
        folder = session.folder / self._generated.name if self._generated.name else session.folder
        return Place(folder, self._scratch.path / "load", mark, environment)

    def prepare(self) -> None:
        self._open()
        if self._generated.size and not self._generated.name:
            self.message(f"writing {format_size(self._generated.size)} into a folder of ours")
            self._generated.make(self.backend, self._narrowed.default)
        if not self._chosen:
            self._look()

    # -- measuring -----------------------------------------------------------------------------------------------------

    def measure(self, config: Config, limit: float) -> Outcome:
        """One reading through a fresh mount; ``limit`` seconds for mounting and reading together."""
        begun = time.monotonic()
        broken = self.space.broken(config)
        if broken:
            return Failure("infeasible", broken[0])
        outcome = self._measure(config, begun, limit)
        return replace(outcome, seconds=time.monotonic() - begun)

    def _measure(self, config: Config, begun: float, limit: float) -> Outcome:
        session = self.backend.mount({knob.name: config[knob.name] for knob in self._narrowed.knobs}, limit)
        if isinstance(session, Failure):
            return session
        try:
            if self.reader is not None:
                self.reader.read_with(config)
            self.before_reading()
            left = limit - (time.monotonic() - begun)
            busy = processor_time()
            with Guard(left, session.kill) as guard, Meter(session) as meter:
                reading = self.load.run(self._load_place(session, meter.take), left + _AFTER)
                meter.stop()
            share = processors_busy(busy, processor_time())
            # The mount's own end explains what the load then met.
            ended = None if guard.expired else session.ended()
        finally:
            session.close()
        if guard.expired:
            log = reading.log if isinstance(reading, Failure) else ""
            return Failure("timeout", self._late(meter.readings, guard.at, limit), log)
        if ended is not None:
            return Failure("crash", f"the mount broke while it was read: {ended.reason}", ended.log)
        if isinstance(reading, Failure):
            return reading
        moved = by_epoch(meter.readings, reading.epochs)
        verdict = honest.judge(reading.epochs, moved, warm=self._work.warm, share=session.share)
        if not verdict.counted:
            why = "; ".join(verdict.sentences) or "nothing was read that counts"
            return Failure("wrong", why, "")
        epochs = [reading.epochs[number] for number in verdict.counted]
        metrics, samples = self.load.figures(epochs)
        return Measurement(
            metrics,
            samples,
            0.0,
            self._written(moved),
            self._evidence(session, reading, moved, verdict, share),
        )

    def _late(self, readings: Sequence[Counters], ended: float, limit: float) -> str:
        if not moved_at_all(readings):
            why = "the mount stopped answering, or a measurement takes longer than that"
            return f"nothing was read within the limit of {limit:.1f} s: {why}"
        if not moving(readings, ended):
            return f"the mount stopped answering, and was ended at the limit of {limit:.1f} s"
        less = "; the first pass reads all of the data to fill the cache: name less with --data" if self._work.warm else ""
        return f"reading was not done within the limit of {limit:.1f} s{less}"

    def _written(self, moved: list[Moved]) -> int:
        """A warm mount's own cache lies on a disk: what came from the store was written there."""
        return sum(each.served for each in moved) if self._work.warm else 0

    def _evidence(
        self, session: Session, reading: Reading, moved: list[Moved], verdict: honest.Verdict, busy: float
    ) -> dict[str, Json]:
        read = sum(epoch.bytes_read for epoch in reading.epochs)
        served = sum(each.served for each in moved)
        epochs: list[Json] = [
            {
                "seconds": round(epoch.seconds, 3),
                "bytes_read": epoch.bytes_read,
                "bytes_from_store": each.served,
                "bytes_answered": each.answered,
                "counted": number in verdict.counted,
                **dict(epoch.metrics),
            }
            for number, (epoch, each) in enumerate(zip(reading.epochs, moved, strict=True))
        ]
        warnings = [*verdict.sentences, *reading.warnings, *([reading.keep] if reading.keep else [])]
        if read and served >= _WASTE * read and session.share > _COMPRESSED:
            warnings.append(
                f"{served / read:.0f} bytes left the store for each byte that was read: mind its load and its price"
            )
        if busy >= _BUSY:
            warnings.append(
                f"the processors of this machine were busy for {busy:.0%} of the time: the mount may be able to do more"
            )
        return {
            **reading.evidence,
            "live": dict(session.live),
            "data": dict(self._chosen),
            "bytes_read": read,
            "bytes_from_store": served,
            "fetched_for_each_byte_read": round(served / read, 3) if read else None,
            "processors_busy": round(busy, 3),
            "epochs": epochs,
            "warnings": list(warnings),
            **({"keep": reading.keep} if reading.keep else {}),
        }

    def cross_check(self, config: Config) -> None:
        """The bytes that left the store are the second opinion; there is no other program to ask."""

    def close(self) -> None:
        scratch, self._scratch = self._scratch, None
        try:
            self.load.close()
            self._generated.unmake(self.backend, self._narrowed.default)
        finally:
            try:
                self.backend.close()
            finally:
                if scratch is not None:
                    leftovers.empty(scratch.path)
                    scratch.close()

    def __enter__(self) -> MountRunner:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
