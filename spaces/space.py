"""A search space: knobs with finite domains, rules that say why a setting is illegal, and cost."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from spaces.units import format_size, parse_count, parse_flag, parse_size

Value = bool | int | str
Config = Mapping[str, Value]
Key = tuple[Value, ...]
Kind = Literal["choice", "flag", "log2", "int"]

# Above this many combinations a space is sampled, not enumerated: the search ranks every candidate at every step, and
# 20,000 rows keep that step in tens of milliseconds.
ENUMERABLE = 20_000


class BadValue(ValueError):
    """A value that a user gave for a knob and that the knob can't take; the message is for the user."""

    def __init__(self, knob: Knob, text: str, why: str) -> None:
        self.knob, self.text, self.why = knob, text, why
        super().__init__(f"--{knob.option} {text}: {why}")


@dataclass(frozen=True, slots=True)
class Domain:
    """The finite, ordered set of values that a knob may take. ``log2`` and ``int`` are ordinal."""

    kind: Kind
    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError("a domain needs at least one value")
        if len(set(self.values)) != len(self.values):
            raise ValueError(f"a domain names a value twice: {self.values}")

    @property
    def ordinal(self) -> bool:
        return self.kind in ("log2", "int")


def choice(*values: str) -> Domain:
    return Domain("choice", values)


def flag() -> Domain:
    return Domain("flag", (False, True))


def log2(low: int, high: int) -> Domain:
    """Powers of two times ``low``, up to ``high``, both included: log2(1, 8) is 1, 2, 4, 8."""
    return Domain("log2", tuple(_doublings(low, high)))


def off_or_log2(low: int, high: int) -> Domain:
    """0, for a thing that is switched off, and then as log2: off_or_log2(1, 8) is 0, 1, 2, 4, 8."""
    return Domain("log2", (0, *_doublings(low, high)))


def integers(low: int, high: int, step: int = 1) -> Domain:
    return Domain("int", tuple(range(low, high + 1, step)))


def _doublings(low: int, high: int) -> Iterator[int]:
    while low <= high:
        yield low
        low *= 2


@dataclass(frozen=True, slots=True)
class Knob:
    """One setting of the tuned system.

    ``unit`` is "bytes", "count" or "" and decides how a value is read and printed; ``source`` says where the meaning and the
    default were taken from; ``limit`` is the largest number that the system's own type holds.
    """

    name: str
    domain: Domain
    default: Value
    help: str
    source: str
    unit: str = ""
    option: str = ""
    limit: int = 2**31 - 1
    lowest: int = 1

    def __post_init__(self) -> None:
        if not self.option:
            object.__setattr__(self, "option", self.name.replace("_", "-"))

    def show(self, value: Value) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if self.unit == "bytes" and isinstance(value, int):
            return format_size(value)
        return str(value)

    def parse(self, text: str) -> Value:
        """One value from ``text``; raises BadValue."""
        try:
            if self.domain.kind == "flag":
                return parse_flag(text)
            if self.domain.kind == "choice":
                if text not in self.domain.values:
                    raise ValueError(f"is none of {', '.join(map(str, self.domain.values))}")
                return text
            number = parse_size(text) if self.unit == "bytes" else parse_count(text)
        except ValueError as error:
            raise BadValue(self, text, str(error)) from None
        if not self.lowest <= number <= self.limit:
            raise BadValue(self, text, f"must be from {self.lowest} to {self.show(self.limit)}")
        return number

    def narrow(self, text: str) -> Domain:
        """The domain that ``text`` asks for: a list ``1,2,4``, a range ``128K:8M[:step]`` or one value; raises BadValue.

        A range doubles unless it names a step. Numbers outside the knob's usual domain are allowed up to ``limit``: the user
        may know a machine that the domain's author did not, and the rules still hold.
        """
        values: list[Value] = []
        for part in text.split(","):
            if not part.strip():
                raise BadValue(self, text, "holds an empty value; write a list like 1,2,4")
            if ":" in part and self.domain.ordinal:
                values.extend(self._range(part.strip()))
            else:
                values.append(self.parse(part.strip()))
        unique: tuple[Value, ...] = tuple(dict.fromkeys(values))
        if self.domain.ordinal:
            unique = tuple(sorted(unique, key=int))
        return Domain(self.domain.kind, unique)

    def _range(self, text: str) -> list[Value]:
        low_text, _, rest = text.partition(":")
        high_text, _, step_text = rest.partition(":")
        low, high = int(self.parse(low_text)), int(self.parse(high_text))
        if low > high:
            raise BadValue(self, text, "the range ends before it begins")
        if not step_text:
            if low:
                return list(_doublings(low, high))
            first = next((int(value) for value in self.domain.values if int(value) > 0), 1)
            return [0, *_doublings(first, high)]
        values: list[Value] = list(range(low, high + 1, int(self.parse(step_text))))
        if len(values) > ENUMERABLE:
            raise BadValue(self, text, f"names {len(values)} values; take a larger step")
        return values


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition that every measured setting must meet; ``broken`` gives the reason, or None when it is met."""

    name: str
    broken: Callable[[Config], str | None]


def _same(config: Config) -> Config:
    return config


def _free(_config: Config) -> float:
    return 0.0


@dataclass(frozen=True)
class Space:
    """Knobs, the rules between them, and two judgements that only the target can make.

    ``canonical`` maps settings that are the same thing in effect to one of them; ``cost`` ranks settings that perform alike
    by what they take from the machine (lower is cheaper). ``live`` are knobs that a running job can change: settings that
    differ in nothing else are quick to measure one after the other, and so is all of the last ``warm`` jobs, which stay.
    ``minor`` are knobs that mostly decide little once the others are right: a search of few measurements leaves them at their
    defaults for a while.
    """

    knobs: tuple[Knob, ...]
    rules: tuple[Rule, ...] = ()
    canonical: Callable[[Config], Config] = field(default=_same)
    cost: Callable[[Config], float] = field(default=_free)
    live: frozenset[str] = frozenset()
    warm: int = 1
    minor: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        names = [knob.name for knob in self.knobs]
        if len(set(names)) != len(names):
            raise ValueError(f"a space names a knob twice: {names}")

    def __getitem__(self, name: str) -> Knob:
        for knob in self.knobs:
            if knob.name == name:
                return knob
        raise KeyError(name)

    @property
    def default(self) -> dict[str, Value]:
        """The system's own defaults, legal or not, inside a narrowed domain or not: what users have without tuning."""
        return {knob.name: knob.default for knob in self.knobs}

    @cached_property
    def size(self) -> int:
        """Combinations before rules and folding."""
        return math.prod(len(knob.domain.values) for knob in self.knobs)

    @cached_property
    def core(self) -> Space:
        """This space with its minor knobs at their defaults; itself where none can vary."""
        fixed = tuple(
            replace(knob, domain=Domain(knob.domain.kind, (knob.default,)))
            if knob.name in self.minor and knob.default in knob.domain.values
            else knob
            for knob in self.knobs
        )
        return self if fixed == self.knobs else replace(self, knobs=fixed)

    @cached_property
    def fingerprint(self) -> str:
        """Changes when a knob, a domain or a rule's name changes: an old study's settings may then mean something else."""
        shape = [[knob.name, knob.domain.kind, list(knob.domain.values)] for knob in self.knobs]
        text = json.dumps([shape, [rule.name for rule in self.rules]])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def key(self, config: Config) -> Key:
        """Hashable identity of a setting, values in knob order."""
        return tuple(config[knob.name] for knob in self.knobs)

    def start(self, config: Config) -> Key:
        """What of a setting is decided when a job starts: the values of all knobs that are not live."""
        return tuple(config[knob.name] for knob in self.knobs if knob.name not in self.live)

    def config(self, key: Key) -> dict[str, Value]:
        return {knob.name: value for knob, value in zip(self.knobs, key, strict=True)}

    def show(self, config: Config) -> str:
        return " ".join(f"{knob.name}={knob.show(config[knob.name])}" for knob in self.knobs)

    def broken(self, config: Config) -> list[str]:
        """The reasons why ``config`` must not be measured; empty when it may."""
        reasons = (rule.broken(config) for rule in self.rules)
        return [reason for reason in reasons if reason is not None]

    def legal(self, config: Config) -> bool:
        return all(rule.broken(config) is None for rule in self.rules)

    def contains(self, config: Config) -> bool:
        return all(config.get(knob.name) in knob.domain.values for knob in self.knobs)

    @cached_property
    def _enumerated(self) -> list[dict[str, Value]]:
        combinations = itertools.product(*(knob.domain.values for knob in self.knobs))
        return self._fold(self.config(values) for values in combinations)

    def configs(self) -> list[dict[str, Value]]:
        """Every legal setting once, equal ones folded; raises OverflowError above ENUMERABLE combinations (use pool)."""
        if self.size > ENUMERABLE:
            raise OverflowError(f"{self.size} combinations are too many to list; use pool()")
        return list(self._enumerated)

    def pool(self, rng: random.Random, limit: int = 4096) -> list[dict[str, Value]]:
        """The legal settings where they can be listed, else about ``limit`` random ones."""
        if self.size <= ENUMERABLE:
            return list(self._enumerated)
        drawn = ({k.name: rng.choice(k.domain.values) for k in self.knobs} for _ in range(limit))
        return self._fold(drawn)

    def _fold(self, configs: Iterator[dict[str, Value]]) -> list[dict[str, Value]]:
        seen: dict[Key, dict[str, Value]] = {}
        for config in configs:
            folded = dict(self.canonical(config))
            key = self.key(folded)
            if key not in seen and self.legal(folded):
                seen[key] = folded
        return list(seen.values())

    def neighbours(self, config: Config) -> list[dict[str, Value]]:
        """Legal settings one step away in one knob: the next value of an ordinal one, any other value of a choice."""
        found: dict[Key, dict[str, Value]] = {}
        own = self.key(self.canonical(config))
        for knob in self.knobs:
            for value in _steps(knob.domain, config[knob.name]):
                stepped = dict(self.canonical({**config, knob.name: value}))
                key = self.key(stepped)
                if key != own and self.legal(stepped):
                    found.setdefault(key, stepped)
        return list(found.values())

    def narrow(self, options: Mapping[str, str]) -> Space:
        """This space with the domains of some knobs (by name) replaced by what a user wrote; raises BadValue."""
        knobs = [
            replace(knob, domain=knob.narrow(options[knob.name])) if knob.name in options else knob for knob in self.knobs
        ]
        return replace(self, knobs=tuple(knobs))

    def with_rules(self, rules: Sequence[Rule]) -> Space:
        return replace(self, rules=(*self.rules, *rules))


def _steps(domain: Domain, value: Value) -> Sequence[Value]:
    if not domain.ordinal:
        return [other for other in domain.values if other != value]
    below = [other for other in domain.values if int(other) < int(value)]
    above = [other for other in domain.values if int(other) > int(value)]
    return below[-1:] + above[:1]
