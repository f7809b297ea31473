"""A user's env file or launch script as settings: merged with a recommendation, and read as the baseline to beat."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set

from runners.oneccl import trace, variables
from runners.runner import Json, UsageError
from spaces import oneccl as space
from spaces.oneccl import (
    COLLECTIVES,
    PINNING,
    PROVIDER_NAMES,
    SIZE_CLASSES,
    SPACE,
    class_of,
    environment,
    interface_environment,
    variable_of,
)
from spaces.space import Value
from tuner.errors import WrongUsage
from tuner.exporters import format as contract
from tuner.exporters.format import Merged
from tuner.exporters.oneccl import options as file_options
from tuner.exporters.shell import assign, code_lines, last, without
from tuner.recommendation import Recommendation

_PLAIN = {
    "transport": "CCL_ATL_TRANSPORT",
    "shm": "CCL_ATL_SHM",
    "fabrics": "I_MPI_FABRICS",
    "worker_offload": "CCL_WORKER_OFFLOAD",
    "worker_count": "CCL_WORKER_COUNT",
    "yield": "CCL_YIELD",
    "spin_count": "CCL_SPIN_COUNT",
    "fusion": "CCL_FUSION",
    "mnic": "CCL_MNIC",
}
_CHUNKS = ("CCL_CHUNK_COUNT", "CCL_RS_CHUNK_COUNT", "CCL_ALLREDUCE_2D_CHUNK_COUNT")
_PROVIDER = ("FI_PROVIDER", "I_MPI_OFI_PROVIDER")
_PINS = ("I_MPI_PIN", "I_MPI_PIN_DOMAIN")
_NETWORK = {"CCL_KVS_IFACE", "FI_TCP_IFACE", "FI_VERBS_IFACE"}
# What doesn't change what is measured, or is the launcher's to set.
_ASIDE = _NETWORK | {
    "CCL_LOG_LEVEL", "CCL_ROOT", "CCL_CONFIGURATION", "CCL_CONFIGURATION_PATH", "CCL_PLUGIN", "I_MPI_ROOT", "I_MPI_DEBUG",
    "I_MPI_JOB_TIMEOUT", "I_MPI_PMI_LIBRARY", "FI_PROVIDER_PATH",
}  # fmt: skip
_OFF, _ON = {"0", "off", "no", "disable"}, {"1", "on", "yes", "enable"}


def merge(text: str, recommendation: Recommendation, options: contract.Options) -> Merged:
    """The recommendation's variables set in a user's file, and those of its knobs that are to be left alone taken out.

    Raises WrongUsage for text that is neither an env file nor a script.
    """
    refuse(text)
    job = file_options.launch(recommendation, options)
    wanted = environment(recommendation.config, job.collective, job.transport)
    notes = []
    for name in space.variables(job.collective):
        while name not in wanted and (each := last(text).get(name)) is not None:
            text = without(text, each)
            notes.append(f"removed {name}={each.value}: the recommendation leaves it to oneCCL and MPI")
    network = interface_environment(job.iface, recommendation.config)
    merged = assign(text, {**wanted, **network})
    if new := _not_handed_on(merged, {*wanted, *network} - set(last(text))):
        notes.append(
            f"Open MPI hands no variable on to other hosts: add {' '.join(f'-x {name}' for name in new)} to its mpirun"
        )
    return Merged(merged, tuple(notes))


def _not_handed_on(text: str, names: Set[str]) -> list[str]:
    """Of ``names`` those that a mpirun with Open MPI's option -x leaves behind."""
    calls = [line for _, _, line in code_lines(text) if re.search(r"(?:^|\s)-x\s+\w", line)]
    named = {match for line in calls for match in re.findall(r"(?:^|\s)-x\s+(\w+)", line)}
    return sorted(names - named) if calls else []


def present(text: str, options: contract.Options) -> dict[str, Value]:
    """The setting that a job gets with these variables. Raises WrongUsage for values that end the job or aren't tuned."""
    refuse(text)
    values = {name: each.value for name, each in last(text).items()}
    now: dict[str, Value] = dict(SPACE.default)
    for knob, name in _PLAIN.items():
        if name in values:
            now[knob] = _plain(knob, name, values[name])
    now["provider"] = _provider(values, str(now["transport"]))
    now["pinning"] = _pinning(values)
    chunks = {int(_checked(name, values[name])) for name in _CHUNKS if name in values}
    now["chunk_count"] = max(chunks, default=1)
    collective = _collective(values, options)
    if (name := variable_of(collective)) in values:
        now |= _algorithms(collective, _checked(name, values[name]), _sizes(options))
    return now


def present_notes(text: str, options: contract.Options) -> list[str]:
    """What the file sets and the baseline then doesn't have, a sentence each."""
    values = {name: each.value for name, each in last(text).items()}
    return list(_notes(values, options))


def _notes(values: Mapping[str, str], options: contract.Options) -> Iterator[str]:
    chunks = {name: values[name] for name in _CHUNKS if name in values}
    wanted = set(_CHUNKS[:2])
    if chunks and (len(set(chunks.values())) > 1 or not wanted <= set(chunks)):
        count = max((int(value) for value in chunks.values() if value.isdecimal()), default=1)
        yield f"{', '.join(chunks)}: all of {', '.join(_CHUNKS)} are taken as {count}"
    tuned = space.variables(_collective(values, options))
    others = [name for name in map(variable_of, COLLECTIVES) if name in values and name not in tuned]
    unread = [name for name in values if name.startswith(("CCL_", "I_MPI_", "FI_")) and name not in {*tuned, *_ASIDE, *others}]
    if not set(tuned) & set(values):
        yield "nothing that is tuned is set there: the baseline is what oneCCL does by itself"
    if unread:
        yield f"{', '.join(unread)}: not tuned, and not part of the baseline"
    if named := [name for name in values if name in _NETWORK]:
        yield f"{', '.join(named)}: not read from the file; name the interface with --iface"


def _checked(name: str, value: str) -> str:
    message = variables.check(name, value)
    if message is not None:
        raise WrongUsage(f"{message}.", "`tune lint` shows what to mend")
    return value.strip()


def _plain(knob: str, name: str, value: str) -> Value:
    value = _checked(name, value)
    if SPACE[knob].domain.kind == "flag":
        return value == "1"
    if SPACE[knob].domain.kind == "int":
        return int(value)
    return str(int(value)) if knob == "spin_count" else value.lower()


def _provider(values: Mapping[str, str], transport: str) -> str:
    named = {name: values[name] for name in _PROVIDER if name in values and (name == "FI_PROVIDER" or transport != "ofi")}
    if not named:
        return "default"
    name, value = list(named.items())[-1]  # MPI takes its own variable first
    plain = _checked(name, value).lower()
    short = {long: short for short, long in PROVIDER_NAMES.items()}.get(plain, plain)
    if short not in SPACE["provider"].domain.values:
        have = ", ".join(str(each) for each in SPACE["provider"].domain.values if each != "default")
        raise WrongUsage(f"{name} is {value!r}, which is not measured; one of {have} is.")
    return short


def _pinning(values: Mapping[str, str]) -> str:
    pin, domain = (values.get(name, "").strip().lower() for name in _PINS)
    if pin in _OFF:
        return "off"
    if pin and pin not in _ON:
        raise WrongUsage(f"I_MPI_PIN is {values['I_MPI_PIN']!r}; it is 0 or 1.")
    if domain in ("", "auto", "auto:compact"):
        return "default"
    known = {value: knob for knob, (name, value) in PINNING.items() if name == "I_MPI_PIN_DOMAIN"}
    if domain not in known:
        have = ", ".join(known)
        raise WrongUsage(f"I_MPI_PIN_DOMAIN is {values['I_MPI_PIN_DOMAIN']!r}, which is not measured; one of {have} is.")
    return known[domain]


def _collective(values: Mapping[str, str], options: contract.Options) -> str:
    """The one that is asked for as oneCCL selects by, else the only one in the file, else allreduce."""
    asked = options.get("collective")
    if isinstance(asked, str) and asked in COLLECTIVES:
        selected = {"allgather": "allgatherv", "bcast": "broadcast"}.get(asked, asked)
        return asked if variable_of(asked) in values and variable_of(selected) not in values else selected
    named = [each for each in COLLECTIVES if variable_of(each) in values]
    return named[0] if len(named) == 1 else "allreduce"


def _sizes(options: contract.Options) -> tuple[int, ...]:
    """The workload's sizes where they are in the options; a trace is not read for this."""
    given: Json = options.get("sizes")
    if not isinstance(given, str) or options.get("trace"):
        return ()
    try:
        return tuple(message.size for message in trace.parse_sizes(given))
    except UsageError:
        return ()


def _algorithms(collective: str, table: str, sizes: tuple[int, ...]) -> dict[str, Value]:
    """The algorithm of each class of sizes; where a class has several, that of the workload's sizes in it."""
    entries = variables.parse_algorithms(variable_of(collective), table)

    def at(size: int) -> str:
        fitting = [name for name, low, high in entries if low <= size and (high is None or size <= high)]
        return fitting[-1] if fitting else "default"

    found: dict[str, Value] = {}
    for knob, first, end in SIZE_CLASSES:
        borders = {edge for _, low, high in entries for edge in (low, -1 if high is None else high + 1)}
        places = {first, *(edge for edge in borders if first < edge and (end is None or edge <= end))}
        moved = {size for size in sizes if class_of(size) == knob}
        algorithms = {at(size) for size in moved or places}
        if len(algorithms) > 1:
            edges = ", ".join(str(edge - 1) for edge in sorted(places - {first}))
            raise WrongUsage(
                f"{variable_of(collective)} changes its algorithm at {edges} bytes, within a range that is tuned as one.",
                "name --sizes that lie in one range each, or move the borders to 16384 and 1048576",
            )
        found[knob] = algorithms.pop()
    return found


def refuse(text: str) -> None:
    """Raises WrongUsage for text that is neither an env file nor a script."""
    if "\0" in text or text.lstrip("\ufeff \t\r\n").startswith(("{", "[", "<")):
        raise WrongUsage("this is neither an env file (KEY=VALUE lines) nor a shell script.")
