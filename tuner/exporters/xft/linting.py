"""Finds, in launch scripts and env files of CPU inference, what does nothing, is misspelt, or costs a rank its cores."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from runners.runner import UsageError
from runners.topology import Topology, read_file
from tuner.errors import WrongUsage
from tuner.exporters import format as contract
from tuner.exporters import oneccl, shell
from tuner.exporters.format import Finding, mended
from tuner.exporters.issue import Issue
from tuner.exporters.xft import rank_lint
from tuner.exporters.xft.calls import Call, calls, launches
from tuner.exporters.xft.known import DEAD, DEAD_EVERYWHERE, SIGNS, meant
from tuner.exporters.xft.on_host import on_hosts

_OTHER_FILES = (".json", ".yaml", ".yml", ".properties", ".py", ".md", ".c", ".cpp", ".csv", ".ini", ".cfg")
_PINNED = re.compile(r"\b(?:numactl|taskset)\b")
_MODEL = re.compile(r"\b(?:benchmark\.py|run_benchmark\.sh|vllm|torchrun|OMP_NUM_THREADS?)\b")
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
    if any(SIGNS.search(line) for line in code):
        return True
    return any(_PINNED.search(line) for line in code) and any(_MODEL.search(line) for line in code)


def lint(text: str, options: contract.Options) -> list[Finding]:
    """Every finding, oneCCL's own among them, in line order."""
    own = (*_issues(text), *on_hosts(calls(text), _recorded(text, options)))
    every = [*(issue.finding for issue in own), *oneccl.lint(text, _for_oneccl(options))]
    return sorted(every, key=lambda finding: finding.line)


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
    every = [*_names(text), *_values(text), *_runtime(text, found), *rank_lint.issues(text, found)]
    return sorted(every, key=lambda issue: issue.line)


def _names(text: str) -> Iterator[Issue]:
    present = shell.last(text)
    for each in shell.assignments(text):
        if each.name in DEAD:
            safe = each.name in DEAD_EVERYWHERE
            yield Issue(
                each.line,
                each.name,
                f"no release of xFT reads {each.name}; {DEAD[each.name]}",
                "remove it" if safe else "remove it, unless that branch is what you run",
                partial(_removed, name=each.name) if safe else None,
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
