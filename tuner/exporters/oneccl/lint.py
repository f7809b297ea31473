"""Finds variables of oneCCL, Intel MPI and libfabric in files that are misspelt or dead, or that end or hang a job."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from runners.oneccl import variables
from runners.oneccl.combinations import Job, conflicts, mend, unknown
from runners.oneccl.variable_table import known
from tuner.exporters import format as contract
from tuner.exporters import shell
from tuner.exporters.format import Finding, mended
from tuner.exporters.issue import Issue
from tuner.exporters.oneccl.options import read
from tuner.exporters.shell import Assignment

_OTHER_FILES = (".json", ".yaml", ".yml", ".properties", ".py", ".md", ".c", ".cpp", ".csv")
_RANKS = re.compile(r"(?<!\S)(?:-ppn|-perhost|--ntasks-per-node|--npernode|-npernode|-grr)[ =](?P<n>\d{1,6})(?!\S)")
_HOSTS = re.compile(r"(?<!\S)(?:--?hosts?|-H)[ =](?P<list>[\w.,:-]+)(?!\S)")
_NODES = re.compile(r"(?<!\S)(?:--nodes|-N)[ =](?P<n>\d{1,6})(?!\S)")
_LAUNCHER = re.compile(r"(?:^|[\s;&|(/])(?:mpirun|mpiexec(?:\.hydra)?|srun)(?=\s|$)")
_CUT = re.compile(r";(?:[a-z0-9_]+(?::\d+-(?:\d+|max))?;?)+(?=\s|$)")


def matches(filename: str, text: str) -> bool:
    """An env file or script that sets variables of oneCCL or Intel MPI, or one of libfabric's where mpirun is called."""
    lowered = filename.lower()
    if lowered.endswith(_OTHER_FILES) or "\0" in text or text.lstrip("\ufeff \t\r\n").startswith(("{", "[", "<")):
        return False
    if lowered.endswith("oneccl.env"):
        return True
    names = {each.name for each in shell.assignments(text)}
    if any(name.startswith("XFT_") for name in names):
        return False  # xFT's linter finds all that we find, and more
    if any(name.startswith(("CCL_", "ONECCL_", "I_MPI_")) for name in names):
        return True
    starts = any(_LAUNCHER.search(line) for _, _, line in shell.code_lines(text))
    return starts and any(name.startswith("FI_") for name in names)


def lint(text: str, options: contract.Options) -> list[Finding]:
    """Every finding, in line order."""
    job = _job(text, options)
    return [issue.finding for issue in _issues(text, job)]


def fix(text: str, options: contract.Options) -> str:
    """``text`` with the safe mends made, one after the other, each judged on what the one before left."""
    job = _job(text, options)
    return mended(text, lambda now: next((issue.edit for issue in _issues(now, job) if issue.edit), None))


def _job(text: str, options: contract.Options) -> Job:
    """What the user says of the job, else what the file's own mpirun line says."""
    asked = read({**options, "mpi": None, "job_limit": None})
    code = [line for _, _, line in shell.code_lines(text)]
    directives = [line.removeprefix("#SBATCH ").strip() for line in text.splitlines() if line.startswith("#SBATCH ")]
    ranks = {int(match["n"]) for line in [*code, *directives] for match in _RANKS.finditer(line)}
    nodes = {int(match["n"]) for line in [*code, *directives] for match in _NODES.finditer(line) if _slurm(line, directives)}
    hosts = {host.partition(":")[0] for line in code if _LAUNCHER.search(line) for host in _listed(line)}
    count = asked.count or (len(hosts) or None) or (nodes.pop() if len(nodes) == 1 else None)
    return Job(asked.ppn or (ranks.pop() if len(ranks) == 1 else None), asked.cores, count)


def _slurm(line: str, directives: list[str]) -> bool:
    return line in directives or re.search(r"(?:^|\s)srun\s", line) is not None


def _listed(line: str) -> Iterator[str]:
    for match in _HOSTS.finditer(line):
        yield from filter(None, match["list"].split(","))


def _issues(text: str, job: Job) -> list[Issue]:
    return sorted([*_names(text), *_values(text, job), *_cut(text), *_twice(text)], key=lambda issue: issue.line)


def _names(text: str) -> Iterator[Issue]:
    present = shell.last(text)
    for each in shell.assignments(text):
        found = unknown(each.name)
        if found is None and each.name.startswith("ONECCL_") and (meant := variables.nearest(each.name)) is not None:
            yield Issue(each.line, each.name, f"oneCCL reads {meant} and nothing called {each.name}", f"call it {meant}")
        if found is None:
            continue
        meant = found.mend if known(found.mend) is not None else None
        if meant is None:
            yield Issue(each.line, each.name, found.message, found.mend)
        elif meant in present:
            yield Issue(each.line, each.name, found.message, f"remove it, {meant} is set too")
        else:
            yield Issue(
                each.line, each.name, found.message, f"call it {meant}", partial(_renamed, name=each.name, right=meant)
            )


def _renamed(text: str, name: str, right: str) -> str:
    return shell.renamed(text, next(each for each in shell.assignments(text) if each.name == name), right)


def _values(text: str, job: Job) -> Iterator[Issue]:
    """Wrong values where they stand, and what the values that count in the end do together."""
    for each in shell.assignments(text):
        if "$" in each.value or "`" in each.value:
            continue
        message = variables.check(each.name, each.value)
        if message is not None:
            value = _mended(each)
            edit = partial(_set, name=each.name, old=each.value, value=value) if value else None
            yield Issue(each.line, each.name, message, mend(each.name, each.value), edit)
    final = {name: each for name, each in shell.last(text).items() if "$" not in each.value and "`" not in each.value}
    for conflict in conflicts({name: each.value for name, each in final.items()}, job):
        each = final[conflict.name]
        if variables.check(each.name, each.value) is None:
            yield Issue(each.line, each.name, conflict.message, conflict.mend)


def _mended(each: Assignment) -> str | None:
    """The value that was plainly meant, where there is one."""
    name, _, value = mend(each.name, each.value).partition("=")
    return value if name == each.name and variables.check(name, value) is None else None


def _set(text: str, name: str, old: str, value: str) -> str:
    each = next(each for each in shell.assignments(text) if each.name == name and each.value == old)
    return shell.replaced(text, each, name, value)


def _cut(text: str) -> Iterator[Issue]:
    """Values that a shell ends at a semicolon without quotes."""
    if not shell.is_script(text):
        return
    for each in shell.assignments(text):
        variable = known(each.name)
        match = _CUT.match(each.after)
        if variable is None or variable.kind not in ("provider", "algorithms") or match is None or each.raw[:1] in ("'", '"'):
            continue
        whole = each.value + match[0].rstrip(";")
        if variables.check(each.name, whole) is not None:
            name, _, meant = mend(each.name, whole).partition("=")
            if name != each.name:
                continue
            whole = meant
        yield Issue(
            each.line,
            each.name,
            f"the shell ends the value at the semicolon: {each.name} is {each.value}, and {match[0].strip(';')} a command",
            f"{each.name}={shell.quoted(whole)}",
            partial(_whole, name=each.name, old=each.value, more=match[0], value=whole),
        )


def _whole(text: str, name: str, old: str, more: str, value: str) -> str:
    for each in shell.assignments(text):
        if each.name == name and each.value == old and each.after.startswith(more):
            return shell.replaced(text[: each.end] + text[each.end + len(more) :], each, name, value)
    raise AssertionError("the assignment is gone")


def _twice(text: str) -> Iterator[Issue]:
    first: dict[str, Assignment] = {}
    lines = text.splitlines()
    for each in shell.assignments(text):
        if not each.name.startswith(("CCL_", "I_MPI_", "FI_")) or not each.alone or lines[each.line - 1][:1] in (" ", "\t"):
            continue
        before = first.setdefault(each.name, each)
        if before is not each and before.value != each.value:
            message = f"{each.name} was {before.value!r} in line {before.line}; this one counts from here on"
            yield Issue(each.line, each.name, message, "keep one of them")
