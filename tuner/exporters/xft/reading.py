"""A user's env file or launch script as settings: read as the baseline to beat."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runners.hosts import hosts_for
from runners.runner import UsageError
from runners.topology import Topology, here, read_file
from runners.topology.record import BadRecord
from spaces.space import BadValue, Value
from spaces.xft import BINDING, CCL, HUGE_PAGES, PLACEMENT, SPACE
from spaces.xft.environment import PLAIN
from tuner.errors import WrongUsage
from tuner.exporters import format as contract
from tuner.exporters import oneccl
from tuner.exporters.shell import last
from tuner.exporters.xft.calls import Call, calls
from tuner.exporters.xft.known import DEAD
from tuner.exporters.xft.settle import settled

# Set to what it would be anyway, or to what a layout says.
ASIDE = {"OMP_NUM_THREADS", "FIRST_TOKEN_WEIGHT_LOCATION", "NEXT_TOKEN_WEIGHT_LOCATION", "XFT_FAKE_MODEL", "XFT_CLOUD_ENV"}
_NOT_READ = ("KMP_AFFINITY", "GOMP_CPU_AFFINITY", "OMP_PLACES", "OMP_PROC_BIND", "CCL_WORKER_AFFINITY")


OURS = (*PLACEMENT, "openmp")


def present(text: str, options: contract.Options) -> dict[str, Value]:
    """The setting that a job gets with this file. Raises WrongUsage for values or places of ranks that aren't measured."""
    refuse(text)
    values = {name: each.value for name, each in last(text).items()}
    now: dict[str, Value] = dict(SPACE.default)
    if set(values) & set(oneccl_names()):
        told = oneccl.present(text, options)
        now |= {name: told[name] for name in CCL}
    for knob, name, texts in PLAIN:
        if name in values:
            now[knob] = _plain(knob, name, values[name], texts)
    now["bind_threads"] = all(values.get(name, "").lower() == value for name, value in BINDING.items())
    now["huge_pages"] = any(values.get(name) == "1" for name in HUGE_PAGES.values())
    if values.get("ENABLE_TUNED_COMM") == "0":
        now["allreduce"] = "shm"
    if values.get("XFT_ONECCL") == "1":
        now["allreduce"] = "oneccl"
    now["openmp"] = _openmp(values, options)
    if len(_names(options)) > 1:
        now["allreduce"] = SPACE["allreduce"].default  # across hosts there is oneCCL alone
    found = calls(text)
    if found:
        now |= placement(found, text, topologies(options))
    elif (threads := values.get("OMP_NUM_THREADS", "")).isdecimal() and "CLUSTERTUNE_THREADS" not in values:
        now["threads"] = int(threads)
    for name in OURS:
        if (variable := f"CLUSTERTUNE_{name.upper()}") in values:
            try:
                now[name] = SPACE[name].parse(values[variable])
            except BadValue as error:
                raise WrongUsage(f"{variable} is {values[variable]!r}: it {error.why}.") from None
    return now


def oneccl_names() -> tuple[str, ...]:
    """Variables that `tune oneccl` reads for the knobs that we share with it."""
    return ("CCL_ALLREDUCE", "CCL_WORKER_COUNT", "CCL_WORKER_OFFLOAD", "CCL_YIELD", "FI_PROVIDER", "I_MPI_OFI_PROVIDER")


def _plain(knob: str, name: str, value: str, texts: Mapping[str, str] | None) -> Value:
    known = SPACE[knob]
    if known.domain.kind == "flag":
        if value not in ("0", "1"):
            raise WrongUsage(f"{name} is {value!r}; it is 0 or 1.")
        return value == "1"
    back = {text: each for each, text in (texts or {}).items()}
    plain = back.get(value, value.lower())
    if name == "FLASH_ATTN_THRESHOLD" and value == "8192":
        return known.default
    if plain not in known.domain.values:
        have = ", ".join((texts or {}).get(str(each), str(each)) for each in known.domain.values if each != "default")
        raise WrongUsage(f"{name} is {value!r}, which is not measured; one of {have} is.")
    return plain


def _openmp(values: Mapping[str, str], options: contract.Options) -> str:
    """libiomp5 where the file preloads it; xFT's scripts do so by default, and other engines have libgomp by themselves."""
    preloaded, engine = "libiomp5" in values.get("LD_PRELOAD", ""), options.get("engine")
    if engine == "xft":
        return "default" if preloaded else "gomp"
    return "iomp5" if preloaded and engine is not None else "default"


def _names(options: contract.Options) -> tuple[str, ...]:
    """The job's hosts, () where none is named. Raises WrongUsage."""
    try:
        return tuple(host.name for host in hosts_for(str(options.get("hosts") or ""), {}) or ())
    except UsageError as error:
        raise WrongUsage(f"{error}.") from None


def topologies(options: contract.Options) -> Mapping[str, Topology]:
    """The hosts that a script's cores are numbers of: recorded ones, or this one. Raises WrongUsage."""
    try:
        if options.get("topology"):
            return read_file(str(options["topology"]), _names(options) or ("localhost",))
        return {"localhost": here()}
    except (UsageError, BadRecord) as error:
        raise WrongUsage(f"{error}.") from None


def placement(found: list[Call], text: str, hosts: Mapping[str, Topology]) -> dict[str, Value]:
    """The placement knobs of a script's ranks; those of all hosts must be alike. Raises WrongUsage."""
    threads = last(text).get("OMP_NUM_THREADS")
    common = int(threads.value) if threads and threads.value.isdecimal() else None
    by_host: dict[str, list[Call]] = {}
    for call in found:
        by_host.setdefault(call.host, []).append(call)
    answers = []
    for name, mine in by_host.items():
        host = hosts.get(name) or next(iter(hosts.values()))
        answer = settled(mine, host, common)
        if isinstance(answer, str):
            raise WrongUsage(
                f"{f'{name}: ' if name else ''}{answer}.",
                "cores are read as those of the host that `tune` runs on: start it on one of the script's hosts",
            )
        answers.append(answer)
    if any(answer != answers[0] for answer in answers):
        raise WrongUsage("its hosts have ranks on different cores, and a setting here is one for all hosts.")
    return answers[0]


def present_notes(text: str, options: contract.Options) -> list[str]:
    """What the file sets and the baseline then doesn't have, or how it was read, a sentence each."""
    values = {name: each.value for name, each in last(text).items()}
    read_as = "its cores are read as this host's: start `tune` on one of the script's hosts if they are not like this one"
    assumed = bool(calls(text)) and bool(_names(options)) and not options.get("topology")
    return [*_notes(values), *([read_as] if assumed else [])]


def _notes(values: Mapping[str, str]) -> Iterator[str]:
    if dead := [name for name in values if name in DEAD]:
        yield f"{', '.join(dead)}: no release of xFT reads them, so that they are not part of the baseline"
    bound = all(values.get(name, "").lower() == value for name, value in BINDING.items())
    kept = set() if not bound else set(BINDING)
    if unread := [name for name in _NOT_READ if name in values and name not in kept]:
        yield f"{', '.join(unread)}: not tuned, and not part of the baseline"


def refuse(text: str) -> None:
    """Raises WrongUsage for text that is neither an env file nor a script."""
    if "\0" in text or text.lstrip("\ufeff \t\r\n").startswith(("{", "[", "<")):
        raise WrongUsage("this is neither an env file (KEY=VALUE lines) nor a shell script.")
