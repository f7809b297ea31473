"""Finds what costs the ranks of a script their cores, or their way to each other, or ends them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from runners.topology import format_list
from tuner.exporters import shell
from tuner.exporters.issue import Issue
from tuner.exporters.xft.calls import Call, hosts, launches
from tuner.exporters.xft.known import SIGNS

_BEAM = re.compile(r"[ \t]+--beam_width(?:(?:=|[ \t]+)(?P<width>\$\{?\w+\}?|\"[^\"\n]*\"|[0-9]+))?(?=[\s\"']|$)")


def issues(text: str, found: list[Call]) -> Iterator[Issue]:
    """``found`` are the calls of ``text``."""
    yield from _cores(text, found)
    yield from _across(text)
    yield from _options(text)


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
    if value is not None or not any(SIGNS.search(line) or "benchmark.py" in line for _, _, line in shell.code_lines(text)):
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
        if match := _BEAM.search(f" {line}"):
            # One beam is what old versions take without the option, too.
            plain = match["width"] in (None, "1")
            yield Issue(
                number,
                "--beam_width",
                "benchmark.py of xFT 2.1 has no option --beam_width: every rank ends with status 2",
                "remove it" if plain else "remove it; several beams need an older xFT",
                _without_beam if plain else None,
            )


def _without_beam(text: str) -> str:
    for _, offset, line in shell.code_lines(text):
        match = _BEAM.search(f" {line}")
        if match and match["width"] in (None, "1"):
            kept = f" {line}"[: match.start()] + f" {line}"[match.end() :]
            return text[:offset] + kept.removeprefix(" ") + text[offset + len(line) :]
    raise AssertionError("the option is gone")
