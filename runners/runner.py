"""What every target's runner speaks: measurements, failures, problems, and the protocol that the tuner drives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from spaces.space import Config, Space

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
FailureKind = Literal["infeasible", "timeout", "crash", "wrong", "environment"]
Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Objective:
    """The figure that decides, by its name in ``Measurement.metrics``."""

    metric: str
    unit: str
    maximise: bool = True


@dataclass(frozen=True, slots=True)
class Measurement:
    """One setting, measured and found right.

    ``metrics`` holds the objective and its parts; ``samples`` the single readings that the objective was made from, in its
    unit; ``seconds`` the wall time that the measurement took, its checks included; ``evidence`` what shows that the number
    is real (bytes verified, engine, processes).
    """

    metrics: Mapping[str, float]
    samples: tuple[float, ...]
    seconds: float
    bytes_written: int = 0
    evidence: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failure:
    """One setting that could not be measured: an expected outcome, hence a value.

    infeasible: this machine or program can't run the setting. timeout: over its limit. crash: the program died. wrong: the
    program said success and the data say no. environment: no setting can run any more (disk full, device gone).
    """

    kind: FailureKind
    reason: str
    log: str = ""
    seconds: float = 0.0
    bytes_written: int = 0


Outcome = Measurement | Failure


@dataclass(frozen=True, slots=True)
class Problem:
    """Something about this machine that a user should know before tuning, with the command that mends it.

    ``severity`` "error" means that nothing can be measured.
    """

    id: str
    severity: Severity
    message: str
    mend: str = ""


class UsageError(ValueError):
    """An option of a runner has a value that can't be used; ``option`` is its name on the command line, without dashes."""

    def __init__(self, option: str, value: object, why: str) -> None:
        self.option, self.value, self.why = option, value, why
        super().__init__(f"--{option} {value}: {why}")


class EnvironmentProblem(RuntimeError):
    """This machine can't measure what was asked; ``mend`` is what the user can do about it."""

    def __init__(self, message: str, mend: str = "") -> None:
        self.message, self.mend = message, mend
        super().__init__(message)


@runtime_checkable
class Runner(Protocol):
    """Measures settings of one target. A context manager that owns nothing global; ``close`` leaves nothing behind.

    ``space`` is the target's space with this machine's rules added. ``facts`` describes what the numbers hold for (device,
    engine, versions) and goes into the study's fingerprint: values that change what a measurement means, no readings of the
    moment. ``message`` is set by the tuner and is called with a sentence before something takes long. ``engine`` does the
    measuring, ``engine_reason`` says why that one ("" where there is no choice).
    """

    objective: Objective

    @property
    def space(self) -> Space: ...

    @property
    def engine(self) -> str: ...

    @property
    def engine_reason(self) -> str: ...

    message: Callable[[str], None]

    def facts(self) -> Mapping[str, Json]: ...

    def check(self) -> list[Problem]:
        """Problems of this machine, cheap to find; an "error" among them means that prepare would fail."""

    def prepare(self) -> None:
        """Makes scratch, starts workers. Raises EnvironmentProblem."""

    def bytes_per_measurement(self) -> int:
        """Bytes that one measurement writes to the user's device, at most; 0 when it writes nothing."""

    def bytes_to_prepare(self) -> int:
        """Bytes that prepare will write to the user's device, at most; 0 when it writes nothing."""

    @property
    def bytes_prepared(self) -> int:
        """Bytes that prepare wrote."""

    def measure(self, config: Config, limit: float) -> Outcome:
        """Measures ``config`` within ``limit`` seconds; over it, a Failure "timeout" with nothing left running."""

    def cross_check(self, config: Config) -> Mapping[str, Mapping[str, float]] | Failure | None:
        """Metrics of ``config`` by an independent program, under a name for each way it was run; None where there is none."""

    def close(self) -> None: ...

    def __enter__(self) -> Runner: ...

    def __exit__(self, *exc: object) -> None: ...


class WritesNothing:
    """The part of a Runner whose measurements write nothing to a device of the user's."""

    def bytes_per_measurement(self) -> int:
        return 0

    def bytes_to_prepare(self) -> int:
        return 0

    @property
    def bytes_prepared(self) -> int:
        return 0
