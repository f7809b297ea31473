"""What a user may ask of every tuning run, whatever the target; the command line is made from these fields."""

from __future__ import annotations

from dataclasses import dataclass, field

from runners.options import option
from spaces.units import parse_duration, parse_size
from tuner.budget import Limits
from tuner.errors import WrongUsage

_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Request:
    """Text as typed; None means the target's own default."""

    time: str | None = field(
        default=None, metadata=option("Wall time that the study may take, over all its runs.", "DURATION")
    )
    trials: int | None = field(default=None, metadata=option("Measurements that the study may take, over all its runs.", "N"))
    max_write: str | None = field(
        default=None, metadata=option("Bytes that the study may write to the device, over all its runs.", "SIZE")
    )
    baseline: str | None = field(
        default=None, metadata=option("File with the settings to beat, instead of the system's defaults.", "FILE")
    )
    min_gain: float = field(default=0.02, metadata=option("Gain over the baseline below which a change isn't worth it.", "X"))
    confidence: float = field(default=0.9, metadata=option("How sure the answer must be, 0.5 to 0.99.", "X"))
    seed: int = field(default=0, metadata=option("Seed of the search's random choices.", "N"))
    study: str | None = field(default=None, metadata=option("Name of the new study.", "NAME"))
    storage: str | None = field(
        default=None, metadata=option("SQLite file, or postgresql:// or mysql:// URL, that keeps the studies.", "WHERE")
    )


def limits(request: Request) -> Limits:
    """The budget in seconds, measurements and bytes; raises WrongUsage naming the option."""
    return Limits(
        None if request.time is None else _read("time", request.time, parse_duration),
        request.trials,
        None if request.max_write is None else int(_read("max-write", request.max_write, parse_size)),
    )


def check(request: Request) -> None:
    """Raises WrongUsage for the first value that can't be used."""
    limits(request)
    if request.trials is not None and request.trials < 1:
        raise WrongUsage(f"--trials {request.trials}: must be at least 1")
    if not 0 <= request.min_gain < 1:
        raise WrongUsage(f"--min-gain {request.min_gain}: must be from 0 to below 1 (0.02 is 2 %)")
    if not 0.5 <= request.confidence <= 0.99:
        raise WrongUsage(f"--confidence {request.confidence}: must be from 0.5 to 0.99")
    if request.seed < 0:
        raise WrongUsage(f"--seed {request.seed}: must be a whole number of at least 0")
    if request.study is not None and not _is_name(request.study):
        raise WrongUsage(
            f"--study {request.study[:_LONGEST_NAME]!r}: must be a name of at most {_LONGEST_NAME} printable characters that "
            "does not begin with a dash"
        )


def _is_name(text: str) -> bool:
    return bool(text.strip()) and len(text) <= _LONGEST_NAME and text.isprintable() and not text.startswith("-")


def _read(name: str, text: str, parse: object) -> float:
    assert callable(parse)
    try:
        return float(parse(text))
    except ValueError as error:
        raise WrongUsage(f"--{name} {text}: {error}") from None
