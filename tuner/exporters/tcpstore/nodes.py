"""torchrun over several nodes: whether all of them meet at one place, and whether there are as many ranks as said."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tuner.exporters.issue import Issue
from tuner.exporters.tcpstore import settings

_LOCAL = re.compile(r"(?:localhost|127\.[0-9.]+|\[?::1\]?)(?::\d+)?$")
# torchrun takes each of its options from a variable PET_… too.
_FROM_ENVIRONMENT = re.compile(r"\bPET_[A-Z_]+=")


def issues(text: str, ranks: int | None) -> Iterator[Issue]:
    """Findings about the first torchrun command of ``text``; ``ranks`` is the job's size where it is known."""
    line = settings.torchrun_line(text)
    if line is None or _FROM_ENVIRONMENT.search(text):
        return
    options = _options(_command(text, line))
    nodes = _number(options.get("nnodes", "1").rpartition(":")[2])
    if nodes is not None and nodes > 1:
        yield from _meeting(line, options, nodes)
    processes = _number(options.get("nproc-per-node", ""))
    if ranks is not None and nodes is not None and processes is not None and nodes * processes != ranks:
        yield Issue(
            line,
            "--nproc-per-node",
            f"{nodes} nodes with {processes} processes each are {nodes * processes} ranks and not {ranks}",
            "--nnodes times --nproc-per-node must be the world size",
        )


def _meeting(line: int, options: dict[str, str], nodes: int) -> Iterator[Issue]:
    together = f"--rdzv-backend=c10d --rdzv-endpoint=HOST:29500 with one HOST for all {nodes} nodes"
    if "standalone" in options:
        message = f"--standalone lets every node meet itself on localhost: {nodes} nodes never come together"
        yield Issue(line, "--standalone", message, together)
        return
    backend = options.get("rdzv-backend", "static")
    place = options.get("rdzv-endpoint") or (options.get("master-addr") if backend == "static" else "")
    key = "--rdzv-endpoint" if options.get("rdzv-endpoint") or backend != "static" else "--master-addr"
    if not place:
        message = f"nothing says where {nodes} nodes meet: torchrun takes localhost, so that each waits for the others at home"
        yield Issue(line, key, message, together)
    elif _LOCAL.match(place):
        yield Issue(line, key, f"{place} is every node itself: {nodes} nodes never come together", together)
    if backend == "static" and "node-rank" not in options and place:
        message = f"with static rendezvous every node is node 0 unless --node-rank says otherwise: {nodes} nodes would be one"
        yield Issue(line, "--node-rank", message, f"--node-rank=0 to {nodes - 1}, or --rdzv-backend=c10d")


def _command(text: str, line: int) -> str:
    """The command that begins in ``line``, with the lines that continue it."""
    found = []
    for number, _, code in settings.code_lines(text):
        if number >= line:
            found.append(code.rstrip().removesuffix("\\"))
            if not code.rstrip().endswith("\\"):
                break
    return " ".join(found)


def _options(command: str) -> dict[str, str]:
    """torchrun's own options, by name with dashes; those behind the program are the program's."""
    found: dict[str, str] = {}
    words = re.sub(r"^.*?(?:torchrun|torch\.distributed\.(?:run|launch))(?=\s|$)", "", command, count=1).split()
    place = 0
    while place < len(words) and words[place].startswith("-"):
        name, equals, value = words[place].lstrip("-").partition("=")
        if not equals and name.replace("_", "-") not in _FLAGS and place + 1 < len(words):
            place += 1
            value = words[place]
        found[name.replace("_", "-")] = value.strip("\"'")
        place += 1
    return found


_FLAGS = frozenset(("standalone", "module", "m", "no-python", "run-path", "use-env", "virtual-local-rank"))


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,7}", text) else None
