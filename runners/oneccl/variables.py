"""Checks oneCCL's environment variables before a job starts with them: what ends it, and what is passed over in silence.

oneCCL ends a job for most wrong values, reads numbers and tables up to the first other letter, and says nothing about names
that it doesn't know.
"""

from __future__ import annotations

import difflib
import re

from runners.oneccl.variable_table import PROVIDERS, TABLE, Variable, known

__all__ = ["Entry", "Variable", "check", "known", "nearest", "parse_algorithms", "parse_cpus", "parse_flag", "providers"]

# Below this likeness a name is rather a stranger than a slip of the fingers.
_ALIKE = 0.8
_TRUE, _FALSE = {"true", "yes", "on", "y", "t", "enable", "enabled"}, {"false", "no", "off", "n", "f", "disable", "disabled"}
_MOST_CPUS = 1 << 16

Entry = tuple[str, int, int | None]  # algorithm, first and last size in bytes (None: no end)


def nearest(name: str) -> str | None:
    """The known CCL_ variable that ``name`` is a slip of, or None; for names that are not known themselves."""
    plain = re.sub(r"^(?:ONE)?CCL_", "", name.upper().replace("-", "_"))
    names = {each.removeprefix("CCL_"): each for each in TABLE if each.startswith("CCL_")}
    for candidate in (plain, f"ATL_{plain}"):
        if candidate in names and names[candidate] != name:
            return names[candidate]
    joined = {each.replace("_", ""): full for each, full in names.items()}
    if plain.replace("_", "") in joined:
        return joined[plain.replace("_", "")]
    close = difflib.get_close_matches(plain, list(names), n=1, cutoff=_ALIKE)
    return names[close[0]] if close else None


def check(name: str, value: str, ppn: int | None = None, cores: int | None = None) -> str | None:
    """What is wrong with ``name=value``, as a sentence; None where nothing is, or the variable is not known.

    ``ppn`` ranks run on a host and ``cores`` are those of one rank, where that is known. Variables that only together are
    wrong are for runners.oneccl.combinations.
    """
    variable = known(name)
    if variable is None:
        return None
    try:
        _parse(variable, value, ppn, cores)
    except ValueError as error:
        return f"{name} {error}"
    return None


def _parse(variable: Variable, value: str, ppn: int | None, cores: int | None) -> None:
    if variable.kind == "flag":
        parse_flag(value, strict=True)
    elif variable.kind == "choice":
        if value.lower() not in (each.lower() for each in variable.values):
            raise ValueError(f"is {value!r}; it is one of {', '.join(variable.values)}")
    elif variable.kind == "count":
        number = _number(value, variable.least)
        if variable.name == "CCL_WORKER_COUNT" and cores is not None and number > cores:
            own = f"{cores} {'core' if cores == 1 else 'cores'}"
            raise ValueError(f"is {number} and a rank is pinned to {own}: with CCL_WORKER_AFFINITY=auto oneCCL ends the job")
    elif variable.kind == "number":
        if not re.fullmatch(r"\d+(?:\.\d+)?|\.\d+", value.strip()):
            raise ValueError(f"is {value!r}; write a number like 0.2")
    elif variable.kind == "cpus":
        count = parse_cpus(value)
        if count is not None and ppn is not None and count < ppn:
            raise ValueError(f"names {count} and the {ppn} ranks of a host need at least {ppn}")
    elif variable.kind == "algorithms":
        parse_algorithms(variable.name, value)
    elif variable.kind == "provider":
        providers(value)


def _number(value: str, least: int) -> int:
    if not re.fullmatch(r"\s*\d{1,18}", value):
        raise ValueError(f"is {value!r}; write a whole number without a unit, it is read up to the first other letter")
    if int(value) < least:
        raise ValueError(f"is {int(value)}; it must be at least {least}")
    return int(value)


def parse_flag(value: str, *, strict: bool = False) -> bool:
    """A flag as oneCCL takes it, or as people write it where not ``strict``. Raises ValueError."""
    if value in ("0", "1"):
        return value == "1"
    meant = "1" if value.strip().lower() in _TRUE else "0" if value.strip().lower() in _FALSE else value.strip()
    if meant not in ("0", "1"):
        raise ValueError(f"is {value!r}: only 0 and 1 are valid, and anything else ends the job")
    if strict:
        raise ValueError(f"is {value!r}: only 0 and 1 are valid, and anything else ends the job; write {meant}")
    return meant == "1"


def parse_cpus(value: str) -> int | None:
    """How many cores (or NUMA nodes) a list like ``0,2-5`` names; None for "auto". Raises ValueError."""
    if value.strip().lower() == "auto":
        return None
    count = 0
    for part in value.split(","):
        match = re.fullmatch(r"\s*(\d{1,6})(?:-(\d{1,6}))?\s*", part)
        if match is None or (match[2] is not None and int(match[2]) < int(match[1])):
            raise ValueError(f"is {value!r}; write auto or a list like 2,3 or 4-7")
        count += int(match[2] or match[1]) - int(match[1]) + 1
    if count > _MOST_CPUS:
        raise ValueError(f"is {value!r}, which names {count} cores")
    return count


def parse_algorithms(name: str, value: str) -> tuple[Entry, ...]:
    """The entries of an algorithm table, ``ring`` or ``ring:0-16384;2d:16385-max``, for the variable ``name``.

    Raises ValueError with the end of a sentence.
    """
    variable = TABLE[name]
    if re.search(r"\s", value):
        raise ValueError("holds a blank, and oneCCL reads the table up to there; write it without")
    found: list[Entry] = []
    for part in value.removesuffix(";").split(";"):
        match = re.fullmatch(r"([^:]+)(?::(\d{1,18})-(\d{1,18}|max))?", part)
        if match is None:
            raise ValueError(
                f"holds {part!r}; write ALGORITHM, or ALGORITHM:FIRST-LAST in bytes without a unit, with max for no end"
            )
        algorithm, first, last = match[1], int(match[2] or 0), match[3]
        if algorithm == "topo":
            raise ValueError(f"names topo, which is for device buffers; on CPUs it has {', '.join(variable.values)}")
        if algorithm not in variable.values:
            spelled = f"; write {algorithm.lower()}" if algorithm.lower() in variable.values else ""
            have = ", ".join(variable.values)
            raise ValueError(f"names the algorithm {algorithm!r}{spelled or f'; it has {have}'}; any other ends the job")
        if last not in (None, "max") and int(last) < first:
            raise ValueError(f"has the range {match[2]}-{last}, which ends before it begins: that ends the job")
        found.append((algorithm, first, None if last in (None, "max") else int(last)))
    return tuple(found)


def providers(value: str) -> tuple[str, ...]:
    """The libfabric providers that ``value`` names, in lower case; "^" before one leaves it out. Raises ValueError."""
    names = tuple(part.strip().lower() for part in value.split(","))
    for name in names:
        plain = name.removeprefix("^")
        if plain == "tcp;ofi_rxm":
            raise ValueError(f"is {value!r}, which present Intel MPI refuses at its start; tcp is what works")
        if plain not in PROVIDERS:
            close = difflib.get_close_matches(plain, PROVIDERS, n=1)
            hint = f"; {close[0]} is one" if close else f"; {', '.join(PROVIDERS[:3])} and others are"
            raise ValueError(f"names {name!r}, which is no provider of libfabric{hint}, and one host alone does not notice")
    return names
