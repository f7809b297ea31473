"""Finds, in launch scripts and env files of CPU inference, what does nothing, is misspelt, or costs a rank its cores."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from runners.runner import UsageError
from runners.topology import Topology, format_list, read_file
from tuner.errors import WrongUsage
from tuner.exporters import format as contract
from tuner.exporters import oneccl, shell
from tuner.exporters.format import Finding, mended
from tuner.exporters.issue import Issue
from tuner.exporters.xft.calls import Call, calls, hosts, launches
from tuner.exporters.xft.known import DEAD, meant
from tuner.exporters.xft.on_host import on_hosts

_OTHER_FILES = (".json", ".yaml", ".yml", ".properties", ".py", ".md", ".c", ".cpp", ".csv", ".ini", ".cfg")
_SIGNS = re.compile(
    r"\b(?:XFT_[A-Z_]+|ENABLE_TUNED_COMM|ENABLE_CAT_MLP|ENABLE_KV_TRANS|FLASH_ATTN_THRESHOLD|xfastertransformer|xFasterTransformer|"
    r"(?:FIRST|NEXT)_TOKEN_WEIGHT_LOCATION|CLUSTERTUNE_(?:RANKS|THREADS|SPARE_CORES|SIBLINGS|SOCKETS|MEMORY|OPENMP))\b"
)
_PINNED = re.compile(r"\b(?:numactl|taskset)\b")
_MODEL = re.compile(r"\b(?:benchmark\.py|run_benchmark\.sh|vllm|torchrun|OMP_NUM_THREADS?)\b")
_BEAM = re.compile(r"[ \t]+--beam_width(?:[= ][ \t]*(?:\$\{?\w+\}?|\"[^\"\n]*\"|[0-9]+))?(?=[\s\"']|$)")
_VALUES = {
    "OMP_WAIT_POLICY": ("active", "passive"),
    "XFT_MOE_ENGINE": ("0", "1"),
    "XFT_MOE_SPLIT_BALANCE_DIM": ("0", "1"),
    "ENABLE_THP": ("0", "1"),
    "XFT_ONECCL": ("0", "1"),
    "ENABLE_TUNED_COMM": ("0", "1"),
}


def matches(filename: str, text: str) -> bool:
    """An env file or script with variables of xFT, or one that pins a model's ranks with numactl or taskset."""
    lowered = filename.lower()
    if lowered.endswith(_OTHER_FILES) or "\0" in text or text.lstrip("\ufeff \t\r\n").startswith(("{", "[", "<")):
        return False
    if lowered.endswith(("xft.env", "run_xft.sh", "run_xft.sbatch")):
        return True
    code = [line for _, _, line in shell.code_lines(text)]
    if any(_SIGNS.search(line) for line in code):
        return True
    return any(_PINNED.search(line) for line in code) and any(_MODEL.search(line) for line in code)


def lint(text: str, options: contract.Options) -> list[Finding]:
    """Every finding, oneCCL's own among them, in line order."""
    hosts = _recorded(text, options)
    found = [issue.finding for issue in (*_issues(text), *on_hosts(calls(text), hosts))] + list(
        oneccl.lint(text, _for_oneccl(options))
    )
    return sorted(found, key=lambda finding: finding.line)


def fix(text: str, options: contract.Options) -> str:
    """``text`` with the safe mends made, one after the other, each judged on what the one before left."""
    own = mended(text, lambda now: next((issue.edit for issue in _issues(now) if issue.edit), None))
    return oneccl.fix(own, _for_oneccl(options))


def _recorded(text: str, options: contract.Options) -> dict[str, Topology]:
    """The hosts of a script's ranks, from a file of recorded topologies. Raises WrongUsage."""
    path = options.get("topology")
    if not path:
        return {}
    names = dict.fromkeys(call.host or "localhost" for call in calls(text))
    try:
        return read_file(str(path), tuple(names) or ("localhost",))
    except UsageError as error:
        raise WrongUsage(f"{error}.") from None


def _for_oneccl(options: contract.Options) -> contract.Options:
    return {name: value for name, value in options.items() if name in ("hosts", "ppn", "cores") and isinstance(value, int)}


def _issues(text: str) -> list[Issue]:
    found = calls(text)
    every = [*_names(text), *_values(text), *_runtime(text, found), *_cores(text, found), *_across(text), *_options(text)]
    return sorted(every, key=lambda issue: issue.line)


def _names(text: str) -> Iterator[Issue]:
    present = shell.last(text)
    for each in shell.assignments(text):
        if each.name in DEAD:
            yield Issue(
                each.line,
                each.name,
                f"nothing in xFT reads {each.name}: {DEAD[each.name]}",
                "remove it",
                partial(_removed, name=each.name),
            )
        elif (right := meant(each.name)) is not None:
            taken = right in present
            yield Issue(
                each.line,
                each.name,
                f"no program reads {each.name}; {right} is what they read",
                f"remove it, {right} is set too" if taken else f"call it {right}",
                None if taken else partial(_renamed, name=each.name, right=right),
            )


def _removed(text: str, name: str) -> str:
    return shell.without(text, next(each for each in shell.assignments(text) if each.name == name))


def _renamed(text: str, name: str, right: str) -> str:
    return shell.renamed(text, next(each for each in shell.assignments(text) if each.name == name), right)


def _values(text: str) -> Iterator[Issue]:
    for each in shell.assignments(text):
        value = each.value.strip()
        if each.name == "LD_PRELOAD" and "3rdparty/mklml" in value:
            yield _mklml(each)
        if "$" in value or "`" in value:
            continue
        if each.name == "OMP_NUM_THREADS" and not re.fullmatch(r"[1-9][0-9]{0,4}(?:,[1-9][0-9]{0,4})*", value):
            yield Issue(
                each.line, each.name, f"{value[:40]!r} is no number of threads: the runtime takes its default", "like 48"
            )
        elif each.name in _VALUES and value.lower() not in _VALUES[each.name]:
            have = " or ".join(_VALUES[each.name])
            yield Issue(
                each.line, each.name, f"{each.name} is {value[:40]!r} and is read as {have} only", f"{each.name}={have}"
            )


def _mklml(each: shell.Assignment) -> Issue:
    where = 'print(u.find_spec("xfastertransformer").submodule_search_locations[0])'
    return Issue(
        each.line,
        each.name,
        "3rdparty/mklml/lib is there only after xFT was built from source: without it ranks have libgomp",
        f"libiomp5.so is in the package's own folder: python -c 'import importlib.util as u; {where}'",
    )


def _runtime(text: str, found: list[Call]) -> Iterator[Issue]:
    """Variables of the OpenMP runtime that the ranks don't have."""
    if not found and not launches(text):
        return
    values = shell.last(text)
    preload = values.get("LD_PRELOAD")
    if preload is not None and "$" in preload.value and "iomp5" not in preload.value:
        return
    intel = preload is not None and "iomp5" in preload.value
    for name, each in values.items():
        if name.startswith("GOMP_") and intel:
            yield Issue(
                each.line, name, f"{name} is libgomp's, and LD_PRELOAD gives the ranks libiomp5", "KMP_BLOCKTIME is the like"
            )
        elif name.startswith("KMP_") and not intel:
            yield Issue(
                each.line, name, f"{name} is libiomp5's, and nothing here preloads that: torch and xFT bring libgomp",
                "export LD_PRELOAD=…/libiomp5.so, or remove it",
            )  # fmt: skip


def _cores(text: str, found: list[Call]) -> Iterator[Issue]:
    """Threads that have no core, cores that have two ranks."""
    threads = shell.last(text).get("OMP_NUM_THREADS")
    common = int(threads.value) if threads and threads.value.isdecimal() else None
    taken: dict[str, dict[int, int]] = {}
    for call in found:
        count = call.threads or common
        if call.cpus is not None and count is not None and count > len(call.cpus):
            yield Issue(
                call.line,
                "OMP_NUM_THREADS",
                f"{count} threads share {len(call.cpus)} CPUs ({format_list(call.cpus)}): they wait for each other's turn",
                f"OMP_NUM_THREADS={len(call.cpus)} for this rank",
            )
        if call.cpus is None:
            continue
        if call.count > 1:
            message = (
                f"{call.count} ranks are started on the same CPUs {format_list(call.cpus)}, and each spins while it waits"
            )
            yield Issue(call.line, call.tool, message, "a segment for each rank, with cores of its own")
        own = taken.setdefault(call.host, {})
        both = [cpu for cpu in call.cpus if cpu in own]
        if both:
            where = f" of {call.host}" if call.host else ""
            serve = f"CPU {both[0]}{where} serves" if len(both) == 1 else f"CPUs {format_list(both)}{where} serve"
            message = f"{serve} the rank of line {own[both[0]]} already, and both spin while they wait"
            yield Issue(call.line, call.tool, message, "give each rank cores of its own")
        own |= {cpu: call.line for cpu in call.cpus if cpu not in own}
    if found and threads is None and launches(text) and all(call.threads is None and not call.unclear for call in found):
        message = "no rank is told its number of threads: several mpiruns set OMP_NUM_THREADS=1 then"
        yield Issue(found[0].line, "OMP_NUM_THREADS", message, "env OMP_NUM_THREADS=N in every segment, N its number of cores")


def _across(text: str) -> Iterator[Issue]:
    """Ranks of several hosts without the variable that keeps them from meeting in shared memory."""
    value = shell.last(text).get("XFT_ONECCL")
    if value is not None or not any(_SIGNS.search(line) or "benchmark.py" in line for _, _, line in shell.code_lines(text)):
        return
    for line, words in launches(text):
        named = list(dict.fromkeys(hosts(words)))
        if len(named) > 1:
            yield Issue(
                line,
                "XFT_ONECCL",
                f"ranks run on {len(named)} hosts without XFT_ONECCL=1: where hosts share a name, xFT takes them for one and "
                "waits for shared memory that isn't",
                "export XFT_ONECCL=1",
                partial(shell.assign, values={"XFT_ONECCL": "1"}),
            )
            return


def _options(text: str) -> Iterator[Issue]:
    if not any("benchmark.py" in line or "BENCHMARK" in line for _, _, line in shell.code_lines(text)):
        return
    for number, _, line in shell.code_lines(text):
        if _BEAM.search(f" {line}"):
            yield Issue(
                number,
                "--beam_width",
                "benchmark.py has no option --beam_width since xFT 2.0: every rank ends with status 2",
                "remove it",
                _without_beam,
            )


def _without_beam(text: str) -> str:
    for _, offset, line in shell.code_lines(text):
        match = _BEAM.search(line)
        if match:
            return text[: offset + match.start()] + text[offset + match.end() :]
        if line.startswith("--beam_width"):
            return text[:offset] + _BEAM.sub("", f" {line}", count=1).lstrip() + text[offset + len(line) :]
    raise AssertionError("the option is gone")
