"""Reads, from a launch script, the ranks that it starts: hosts, cores, memory, threads. Scripts are data and are never run.

Understood are calls of numactl, of taskset, and of xFT's run.sh with plain numbers, each in a line or a segment of mpirun's.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from runners.topology import parse_list
from tuner.exporters import shell

_TOOL = re.compile(r"(?:^|/)(numactl|taskset|run\.sh)$")
_MEMORY = {
    "-m": "bind", "--membind": "bind", "-p": "prefer", "--preferred": "prefer", "-i": "interleave",
    "--interleave": "interleave", "-l": "none", "--localalloc": "none",
}  # fmt: skip
_CORES = ("-C", "--physcpubind")
_NODES = ("-N", "--cpunodebind")
_HOST = ("-host", "-hosts", "--host", "-H")
_LAUNCHER = re.compile(r"(?:^|/)(?:mpirun|mpiexec(?:\.hydra)?|srun)$")


@dataclass(frozen=True, slots=True)
class Call:
    """A rank, or ``count`` of them, as a script starts it.

    ``cpus`` None are not named, ``cpu_nodes`` are numactl's -N; ``memory`` is its policy with the nodes. ``threads`` None
    is not set for this rank alone. ``node`` and ``index`` are those of a call of run.sh. ``unclear`` is a word that only
    running the script would tell.
    """

    line: int
    tool: str
    host: str = ""
    count: int = 1
    cpus: tuple[int, ...] | None = None
    cpu_nodes: tuple[int, ...] | None = None
    memory: tuple[str, tuple[int, ...]] | None = None
    threads: int | None = None
    node: int | None = None
    index: int | None = None
    unclear: str = ""


def calls(text: str) -> list[Call]:
    """Every rank's call, in order."""
    found: list[Call] = []
    for number, words in logical(text):
        own = [call for part in _cut(words) if (call := _call(number, part)) is not None]
        filled = _filled(words[: words.index(":")]) if ":" in words else []
        if len(set(filled)) > 1 and len(filled) == len(own):  # hosts are named once, with how many ranks each takes
            own = [replace(call, host=host) for call, host in zip(own, filled, strict=True)]
        found += own
    return found


def _filled(words: Sequence[str]) -> list[str]:
    """a,a,b from -hosts a:2,b."""
    found = []
    for host, slots in _hosts(words):
        found += [host] * (int(slots) if re.fullmatch(r"[1-9][0-9]{0,3}", slots) else 1)
    return found


def launches(text: str) -> list[tuple[int, list[str]]]:
    """Lines with a launcher in them, whole, as words."""
    return [(number, words) for number, words in logical(text) if any(_LAUNCHER.search(word) for word in words)]


def _cut(words: Sequence[str]) -> Iterator[list[str]]:
    """The words between the colons that part mpirun's segments."""
    part: list[str] = []
    for word in [*words, ":"]:
        if word == ":":
            yield part
            part = []
        else:
            part.append(word)


def logical(text: str) -> Iterator[tuple[int, list[str]]]:
    """Logical lines as words, comments out; the number is that of the line where they begin."""
    begun, whole = 0, ""
    for number, _, line in shell.code_lines(text):
        begun = begun or number
        if line.endswith("\\"):
            whole += line[:-1] + " "
            continue
        yield begun, _words(whole + line)
        begun, whole = 0, ""
    if whole:
        yield begun, _words(whole)


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:  # a quote that goes on in the next line
        return line.replace('"', " ").replace("'", " ").split()


def hosts(words: Sequence[str]) -> list[str]:
    """Hosts that a launcher's words name, without numbers of slots."""
    return [host for host, _ in _hosts(words)]


def _hosts(words: Sequence[str]) -> list[tuple[str, str]]:
    found = []
    for place, word in enumerate(words):
        name, _, value = word.partition("=")
        if name in _HOST:
            given = value or (words[place + 1] if place + 1 < len(words) else "")
            parts = [host.partition(":") for host in given.split(",") if host]
            found += [(host, slots) for host, _, slots in parts]
    return found


def _call(line: int, words: Sequence[str]) -> Call | None:
    at = next((place for place, word in enumerate(words) if _TOOL.search(word)), None)
    if at is None:
        return None
    tool = _TOOL.search(words[at])
    assert tool is not None
    before, after = words[:at], list(words[at + 1 :])
    named = hosts(before)
    found = {"line": line, "tool": tool[1], "host": named[-1] if named else "", "count": _count(before)}
    if tool[1] == "run.sh":
        return _of_run_sh(found, after)
    threads, unclear = _threads([*before, *after])
    own = _of_taskset(after) if tool[1] == "taskset" else _of_numactl(after)
    # Some scripts have taskset before numactl: numactl's own cores count then.
    inner = next((place for place, word in enumerate(after) if _TOOL.search(word)), None)
    if tool[1] == "taskset" and inner is not None and "numactl" in after[inner]:
        within = _of_numactl(after[inner + 1 :])
        own = {**own, **{key: value for key, value in within.items() if value not in (None, "")}}
    return Call(**{**found, "threads": threads, **own, "unclear": own.get("unclear") or unclear})  # type: ignore[arg-type]


def _of_run_sh(found: dict[str, object], after: Sequence[str]) -> Call:
    """run.sh's words: node of the first token's weights, node of memory, threads, number of the rank."""
    numbers = after[:4]
    odd = next((word for word in numbers if not re.fullmatch(r"[0-9]{1,5}", word)), "" if len(numbers) == 4 else "run.sh")
    if odd:
        return Call(**found, unclear=odd)  # type: ignore[arg-type]
    first, node, threads, index = map(int, numbers)
    return Call(**found, memory=("bind", (node,)), threads=threads, node=first, index=index)  # type: ignore[arg-type]


def _of_numactl(after: Sequence[str]) -> dict[str, object]:
    found: dict[str, object] = {}
    place = 0
    while place < len(after) and after[place].startswith("-"):
        name, equals, value = after[place].partition("=")
        if not equals and not name.startswith("--") and len(name) > 2:  # -C0-3
            name, equals, value = name[:2], "=", name[2:]
        takes = name in (*_CORES, *_NODES) or (name in _MEMORY and _MEMORY[name] != "none")
        if takes and not equals:
            place += 1
            value = after[place] if place < len(after) else ""
        place += 1
        if not takes:
            if _MEMORY.get(name) == "none":
                found["memory"] = ("none", ())
            continue
        try:
            numbers = parse_list(value)
        except ValueError:
            numbers = ()
        if not numbers:
            found["unclear"] = value or name
        elif name in _CORES:
            found["cpus"] = numbers
        elif name in _NODES:
            found["cpu_nodes"] = numbers
        else:
            found["memory"] = (_MEMORY[name], numbers)
    return found


def _of_taskset(after: Sequence[str]) -> dict[str, object]:
    words = [word for word in after if word not in ("-a", "--all-tasks")]
    if words[:1] and words[0] in ("-c", "--cpu-list", "-ac"):
        try:
            numbers = parse_list(words[1] if len(words) > 1 else "")
        except ValueError:
            numbers = ()
        return {"cpus": numbers} if numbers else {"unclear": words[1] if len(words) > 1 else "taskset"}
    try:
        mask = int(words[0].removeprefix("0x"), 16) if words else 0
    except ValueError:
        return {"unclear": words[0]}
    return {"cpus": tuple(bit for bit in range(mask.bit_length()) if mask >> bit & 1)} if mask else {"unclear": "taskset"}


def _count(before: Sequence[str]) -> int:
    for place, word in enumerate(before):
        if word in ("-n", "-np", "-c") and place + 1 < len(before) and re.fullmatch(r"[0-9]{1,5}", before[place + 1]):
            return int(before[place + 1])
    return 1


def _threads(words: Sequence[str]) -> tuple[int | None, str]:
    """OMP_NUM_THREADS of these words alone, or what stands there instead of a number."""
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name != "OMP_NUM_THREADS":
            continue
        if not equals:
            before = words[place - 1] if place else ""
            value = words[place + 1] if before in ("-env", "-genv", "--env") and place + 1 < len(words) else ""
        if re.fullmatch(r"[0-9]{1,5}", value):
            return int(value), ""
        if value:
            return None, value
    return None, ""
