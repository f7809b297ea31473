"""Which hosts a job runs on: read from what people already have, checked before anything is started on them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from runners.hosts import inventory, plain
from runners.hosts.host import BadEntry, Host, shown
from runners.hosts.job import of_this_job
from runners.hosts.ranges import MOST_HOSTS, split_outside
from runners.hosts.text import read_lines
from runners.runner import UsageError

__all__ = ["Host", "hosts_for", "parse_hosts"]

_FILE_ENDINGS = (".txt", ".ini", ".cfg", ".conf", ".hosts", ".list", ".lst", ".yaml", ".yml", ".json", ".inventory")
_FILE_NAMES = ("hosts", "hostfile", "hostlist", "machinefile", "machines", "nodefile", "inventory")


def hosts_for(given: str | None, environ: Mapping[str, str] = os.environ) -> tuple[Host, ...] | None:
    """The hosts of ``--hosts given``; without it those of the batch job around us, or None: this host only."""
    return parse_hosts(given) if given else of_this_job(environ)


def parse_hosts(given: str | Path) -> tuple[Host, ...]:
    """Hosts from a file or from text, in order, each once.

    ``given`` is a path; ``inventory.ini:group``; text of several lines; or hosts as on the command line: ``a,b:4``,
    ``node[01-16]``. Raises UsageError with a sentence, and the line's number, for what can't be used. Passwords and the like
    in an inventory are neither kept nor shown.
    """
    if isinstance(given, Path):
        return _of_lines(read_lines(given, str(given)), str(given))
    if "\n" in given:
        return _of_lines(given.replace("\r", "").split("\n"), "(the list)")
    path, group = _as_path(given)
    if path is not None:
        return _of_lines(read_lines(path, given), given, group)
    return _of_words(given)


def _as_path(given: str) -> tuple[Path | None, str]:
    """The file that ``given`` means, if it is one, and the group behind it."""
    if "\0" in given:
        return None, ""
    path = Path(given).expanduser() if given.startswith("~/") else Path(given)
    front, colon, group = given.rpartition(":")
    try:
        if given and (path.is_file() or path.is_fifo()):
            return path, ""
        if colon and Path(front).expanduser().is_file():
            return Path(front).expanduser(), group
    except (OSError, RuntimeError, ValueError):
        return None, ""
    like_a_file = "/" in given or given.lower().endswith(_FILE_ENDINGS) or given.lower() in _FILE_NAMES
    return (path, "") if like_a_file and not given.startswith("-") else (None, "")


def _of_words(given: str) -> tuple[Host, ...]:
    hosts: dict[str, Host] = {}
    try:
        words = [word.strip() for word in split_outside(given)]
        for word in words:
            if not word:
                raise BadEntry("a host's name is missing; write hosts like a,b:4")
            for host in plain.parse_entry(word):
                if host.name.lower() in hosts:
                    raise BadEntry(f"{shown(host.name)} is named twice; write {host.name}:2 for two ranks")
                hosts[host.name.lower()] = host
            if len(hosts) > MOST_HOSTS:
                raise BadEntry(f"more than {MOST_HOSTS} hosts")
    except BadEntry as error:
        raise UsageError("hosts", shown(given)[1:-1] or "''", str(error)) from None
    return tuple(hosts.values())


def _of_lines(lines: Sequence[str], name: str, group: str = "") -> tuple[Host, ...]:
    found: dict[str, tuple[int, Host]] = {}
    for number, host in _read(lines, name, group):
        if host.name.lower() in found:
            first = found[host.name.lower()][0]
            more = f"it is on line {first} already" if first != number else "the line names it twice"
            raise UsageError("hosts", name, f"line {number}: {shown(host.name)}: {more}; write slots=2 for two ranks")
        found[host.name.lower()] = (number, host)
        if len(found) > MOST_HOSTS:
            raise UsageError("hosts", name, f"line {number}: more than {MOST_HOSTS} hosts")
    if not found:
        raise UsageError("hosts", name, "no host is named there; write one a line")
    return tuple(host for _, host in found.values())


def _read(lines: Sequence[str], name: str, group: str) -> list[tuple[int, Host]]:
    hosts: list[tuple[int, Host]] = []
    number = 0
    try:
        if group or inventory.looks_like_one(lines):
            return inventory.parse(lines, group or "all")
        for number, line in enumerate(lines, 1):
            hosts += [(number, host) for host in plain.parse_line(line)]
    except inventory.BadLine as error:
        raise UsageError("hosts", name, f"line {error.line}: {error}" if error.line else str(error)) from None
    except BadEntry as error:
        raise UsageError("hosts", name, f"line {number}: {error}") from None
    return hosts
