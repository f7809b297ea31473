"""Finds switches that do nothing, values that read as their opposite and misspelt variables in start scripts and env files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from runners.tcpstore.fit import SPARE
from spaces.tcpstore import SPACE
from tuner.exporters import format as contract
from tuner.exporters.format import Finding, mended
from tuner.exporters.issue import Issue
from tuner.exporters.tcpstore import nodes, settings
from tuner.exporters.tcpstore.env import LIBUV, OURS, OWN_STORE
from tuner.exporters.tcpstore.options import Options, read
from tuner.exporters.tcpstore.settings import Assignment

# Characters of a value that are quoted.
_SHOWN = 40
_TRUE = {"true", "yes", "on", "y", "t"}
_MISSPELT = {
    "MASTER_ADDRESS": "MASTER_ADDR",
    "MASTER_HOST": "MASTER_ADDR",
    "MASTER_IP": "MASTER_ADDR",
    "MASTERADDR": "MASTER_ADDR",
    "MASTER_PORTS": "MASTER_PORT",
    "MASTERPORT": "MASTER_PORT",
    "WORLDSIZE": "WORLD_SIZE",
    "USE_LIB_UV": LIBUV,
    "USELIBUV": LIBUV,
    "TORCH_USE_LIBUV": LIBUV,
}
_SIGNS = re.compile(
    rf"\b(?:torchrun|torch\.distributed\.(?:run|launch)|{LIBUV}|use_libuv|MASTER_(?:ADDR|PORT)|{OWN_STORE}|"
    rf"{'|'.join(OURS.values())})\b"
)
_URL_SWITCH = re.compile(r"(?<=[?&])use_libuv=(?P<value>[^&\s\"'#]*)")
_URL = re.compile(r"\btcp://(?P<rest>[^\s\"'?]*)")
_OPTION = re.compile(r"\s--use[_-]libuv(?:[= ](?:True|False|true|false|0|1))?(?=\s|$)")
_CONF = re.compile(r"(?P<head>--rdzv[_-]conf[= ][\"']?)(?P<body>[^\s\"']+)")
_ULIMIT = re.compile(r"\bulimit\s+(?:-[HS]*n|-n)\s+(?P<n>[0-9]{1,9})(?![0-9])")
_BACKLOG = re.compile(r"net\.core\.somaxconn\s*=\s*(?P<n>[0-9]{1,9})(?![0-9])")
_NODES = re.compile(r"--nnodes[= ](?P<n>[0-9]{1,7})(?![0-9])")


def matches(filename: str, text: str) -> bool:
    """An env file or a script that sets or starts what TCPStore depends on."""
    if filename.lower().endswith((".json", ".yaml", ".yml", ".properties", ".py", ".md")) or "\0" in text:
        return False
    return any(_SIGNS.search(line) for _, _, line in settings.code_lines(text))


def lint(text: str, options: contract.Options) -> list[Finding]:
    """Every finding, in line order."""
    return [issue.finding for issue in _issues(text, read(options))]


def fix(text: str, options: contract.Options) -> str:
    """``text`` with the safe mends made, one after the other, each judged on what the one before left."""
    chosen = read(options)
    return mended(text, lambda now: next((issue.edit for issue in _issues(now, chosen) if issue.edit), None))


def _issues(text: str, options: Options) -> list[Issue]:
    found = [*_variables(text, options), *_lines(text, options), *_twice(text), *nodes.issues(text, options.ranks)]
    return sorted(found, key=lambda issue: issue.line)


def _launch(text: str, options: Options) -> str | None:
    return "torchrun" if settings.torchrun_line(text) is not None else options.launch


def _variables(text: str, options: Options) -> Iterator[Issue]:
    present = settings.last(text)
    torchrun = _launch(text, options) == "torchrun"
    static = torchrun and _static(text)
    own = present.get(OWN_STORE)
    for each in settings.assignments(text):
        if each.name in _MISSPELT:
            right = _MISSPELT[each.name]
            taken = right in present
            yield Issue(
                each.line,
                each.name,
                f"torch reads {right} and nothing called {each.name}",
                f"remove it, {right} is set too" if taken else f"call it {right}",
                None if taken else partial(_renamed, name=each.name, right=right),
            )
        elif each.name == LIBUV:
            yield from _libuv(each, options, torchrun=torchrun, own=own is not None and own.value == "1" and not static)
        elif each.name == OWN_STORE and static:
            yield Issue(
                each.line,
                each.name,
                f"without --rdzv-backend=c10d workers use torchrun's store whatever this says (tried, torch {options.torch})",
                "add --rdzv-backend=c10d and --rdzv-endpoint, or remove it",
            )
        elif each.name == "MASTER_PORT":
            yield from _port(each)
        elif each.name == "MASTER_ADDR":
            yield from _address(each, text)
        elif each.name in OURS.values():
            yield from _ours(each)


def _renamed(text: str, name: str, right: str) -> str:
    each = next(each for each in settings.assignments(text) if each.name == name)
    return text[: each.start] + right + text[each.start + len(name) :]


def _libuv(each: Assignment, options: Options, *, torchrun: bool, own: bool) -> Iterator[Issue]:
    if each.value.lower() in _TRUE:
        yield Issue(
            each.line,
            each.name,
            f"{LIBUV}={each.value} selects the legacy server: only 1 selects libuv",
            f"{LIBUV}=1",
            partial(_set, name=LIBUV, value="1"),
        )
    elif torchrun and not own and each.value != "1":
        yield Issue(
            each.line,
            each.name,
            f"{LIBUV}={each.value} does nothing under torchrun: its agent makes the store, with libuv (tried, torch "
            f"{options.torch}{'' if options.tried else ', not the one named'})",
            f"remove it; the legacy server takes {OWN_STORE}=1 as well, and --rdzv-backend=c10d",
            partial(_removed, name=LIBUV),
        )


def _set(text: str, name: str, value: str) -> str:
    for each in reversed([each for each in settings.assignments(text) if each.name == name]):
        text = settings.replaced(text, each, name, value)
    return text


def _removed(text: str, name: str) -> str:
    for each in reversed([each for each in settings.assignments(text) if each.name == name]):
        text = settings.without(text, each)
    return text


def _port(each: Assignment) -> Iterator[Issue]:
    if "$" in each.value:
        return
    if not re.fullmatch(r"[0-9]{1,9}", each.value) or not 0 < int(each.value) < 1 << 16:
        said = f"{each.value[:_SHOWN]!r}{'…' if len(each.value) > _SHOWN else ''}"
        yield Issue(each.line, each.name, f"{said} is no port: torch takes a number from 1 to 65535", "like 29500")


def _ours(each: Assignment) -> Iterator[Issue]:
    knob = next(knob for knob, variable in OURS.items() if variable == each.name)
    values = [str(value) for value in SPACE[knob].domain.values]
    if "$" not in each.value and each.value not in values:
        message = f"{each.value[:_SHOWN]!r} is none of {', '.join(values)}: rendezvous.py and start.sh don't know it"
        yield Issue(each.line, each.name, message, f"{each.name}={SPACE.default[knob]}")


def _address(each: Assignment, text: str) -> Iterator[Issue]:
    match = re.fullmatch(r"(?:tcp://)?(?P<host>[^:/]+)(?::\d+)?/?", each.value)
    if match and match["host"] != each.value:
        message = f"{each.value!r} is more than a host: torch looks up exactly this text; the port is MASTER_PORT"
        yield Issue(each.line, each.name, message, f"{each.name}={match['host']}")
    counts = [int(found["n"]) for found in _NODES.finditer(text)]
    if counts and max(counts) > 1 and (each.value == "localhost" or each.value.startswith("127.")):
        message = f"{each.value} is every host itself: of {max(counts)} nodes each would look for rank 0 at home"
        yield Issue(each.line, each.name, message, "the name or address of rank 0's host")


def _static(text: str) -> bool:
    """Whether torchrun is told where rank 0 is, so that it uses its static rendezvous."""
    code = "\n".join(line for _, _, line in settings.code_lines(text))
    return bool(re.search(r"--master[_-](?:addr|port)", code)) and not re.search(r"--rdzv[_-]backend|--standalone", code)


def _lines(text: str, options: Options) -> Iterator[Issue]:
    for number, offset, line in settings.code_lines(text):
        for match in _URL_SWITCH.finditer(line):
            if match["value"].lower() in _TRUE:
                place = (offset + match.start("value"), offset + match.end("value"))
                yield Issue(
                    number,
                    "use_libuv",
                    f"use_libuv={match['value']} in a URL selects the legacy server: only 1 selects libuv",
                    "use_libuv=1",
                    partial(_cut, start=place[0], end=place[1], put="1"),
                )
        for match in _URL.finditer(line):
            if not re.search(r":(?:\d+|\$\{?\w+\}?)$", match["rest"].rstrip("/")):
                yield Issue(number, "tcp://", f"tcp://{match['rest']} has no port, torch refuses it", "tcp://HOST:29500")
        started = re.search(r"torchrun|torch\.distributed\.(?:run|launch)", line)
        option = _OPTION.search(line) if started or line.lstrip().startswith("--") else None
        if option:
            yield Issue(
                number,
                "--use_libuv",
                f"torchrun has no option --use_libuv any more and stops there (tried, torch {options.torch})",
                "remove it; libuv is what torchrun uses",
                partial(_cut, start=offset + option.start(), end=offset + option.end(), put=""),
            )
        for match in _CONF.finditer(line):
            parts = match["body"].split(",")
            kept = [part for part in parts if not part.startswith("use_libuv=")]
            if kept != parts:
                whole = partial(_cut, start=offset + match.start("body"), end=offset + match.end("body"), put=",".join(kept))
                yield Issue(
                    number,
                    "--rdzv-conf",
                    f"use_libuv in --rdzv-conf is not read (tried, torch {options.torch})",
                    "remove it",
                    whole if kept else None,
                )
        yield from _limits(number, line, options)


def _limits(number: int, line: str, options: Options) -> Iterator[Issue]:
    if options.ranks is None:
        return
    need = options.ranks + SPARE
    if (match := _ULIMIT.search(line)) and int(match["n"]) < need:
        message = f"rank 0 of {options.ranks} needs {need} open files; the legacy server aborts without them"
        yield Issue(number, "ulimit -n", message, f"ulimit -n {need}")
    if (match := _BACKLOG.search(line)) and int(match["n"]) < options.ranks:
        message = (
            f"{options.ranks} ranks connect at once and the backlog holds {match['n']}: the rest is thrown away and retries"
        )
        yield Issue(number, "net.core.somaxconn", message, f"net.core.somaxconn={1 << (options.ranks - 1).bit_length()}")


def _cut(text: str, start: int, end: int, put: str) -> str:
    return text[:start] + put + text[end:]


def _twice(text: str) -> Iterator[Issue]:
    first: dict[str, Assignment] = {}
    watched = {LIBUV, OWN_STORE, "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", *OURS.values()}
    for each in settings.assignments(text):
        if each.name not in watched or not each.alone:
            continue
        before = first.setdefault(each.name, each)
        if before is not each and before.value != each.value and text.splitlines()[each.line - 1][:1] not in (" ", "\t"):
            message = f"{each.name} was {before.value!r} in line {before.line}; this one counts from here on"
            yield Issue(each.line, each.name, message, "keep one of them")
