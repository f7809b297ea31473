"""Ansible's INI inventories: groups, groups of groups, ranges, and where to log in. Passwords in them are passed over."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from runners.hosts.host import BadEntry, Host, checked_name, checked_port, checked_slots, checked_user, secret, shown
from runners.hosts.ranges import expand

_SECTION = re.compile(r"\[\s*([^\[\]:]+?)\s*(?::\s*(vars|children|hosts)\s*)?\]", re.ASCII)
_MEANINGS = {
    "ansible_host": "host",
    "ansible_ssh_host": "host",
    "ansible_port": "port",
    "ansible_ssh_port": "port",
    "ansible_user": "user",
    "ansible_ssh_user": "user",
    "slots": "slots",
    "ansible_connection": "connection",
}
_CONNECTIONS = ("ssh", "smart", "paramiko", "paramiko_ssh", "local", "openssh", "ansible.builtin.ssh")


@dataclass
class _Group:
    line: int = 0
    hosts: dict[str, int] = field(default_factory=dict)
    children: dict[str, int] = field(default_factory=dict)
    vars: dict[str, str] = field(default_factory=dict)


@dataclass
class Inventory:
    """What was read: for each host its own variables, and the groups. Variables that we don't use are never kept."""

    hosts: dict[str, dict[str, str]] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    groups: dict[str, _Group] = field(default_factory=lambda: {"all": _Group(), "ungrouped": _Group()})


class BadLine(BadEntry):
    """A BadEntry with the number of its line."""

    def __init__(self, line: int, why: str) -> None:
        self.line = line
        super().__init__(why)


def looks_like_one(lines: Sequence[str]) -> bool:
    """Whether there is a section or a variable of Ansible's: other lists have none."""
    return any(_section(line) is not None or re.match(r"[^#;]*\bansible_\w+\s*=", line) for line in lines)


def parse(lines: Sequence[str], group: str = "all") -> list[tuple[int, Host]]:
    """The hosts of ``group`` in the order of their first mention, each with its line. Raises BadLine."""
    read = Inventory()
    section, kind = "ungrouped", "hosts"
    for number, line in enumerate(lines, 1):
        try:
            if not line.strip() or line.lstrip()[0] in "#;":
                continue
            if line.strip().startswith("[") and "]" in line and (header := _section(line)) is not None:
                section, kind = header
                read.groups.setdefault(section, _Group(number))
            elif line.strip().startswith("[") and kind != "hosts":
                raise BadEntry("a section is written like [group], [group:children] or [group:vars]")
            elif kind == "vars":
                key, _, value = line.partition("=")
                _keep(read.groups[section].vars, key.strip(), _unquoted(value.split(" #")[0].strip()))
            elif kind == "children":
                child = line.split("#")[0].strip()
                read.groups[section].children.setdefault(child, number)
            else:
                _host_line(read, section, line, number)
        except BadEntry as error:
            raise BadLine(number, str(error)) from None
    return _resolved(read, group)


def _section(line: str) -> tuple[str, str] | None:
    match = _SECTION.fullmatch(line.split("#")[0].split(";")[0].strip())
    # [::1] is an address, [1:3] a range of somebody's: neither is a section.
    return (match[1], match[2] or "hosts") if match and not re.fullmatch(r"[0-9,-]+", match[1]) else None


def _host_line(read: Inventory, section: str, line: str, number: int) -> None:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters = True, "#"
    try:
        words = list(lexer)
    except ValueError:
        raise BadEntry("a quote is not closed") from None
    if not words:
        return
    own: dict[str, str] = {}
    for word in words[1:]:
        key, equals, value = word.partition("=")
        if not equals:
            raise BadEntry("what follows a host is written like ansible_user=name")
        _keep(own, key, value)
    first = words[0]
    if "=" in first:
        raise BadEntry(f"{shown(first)} is a variable, in a section of hosts; variables stand below [group:vars]")
    # With hosts, not with groups of addresses: `name:2222` is a port here.
    if match := re.fullmatch(r"([^:\[\]]+(?:\[[^\]]*\][^:\[\]]*)*|\[[^\]]*:[^\]]*:[^\]]*\]):(\d+)", first):
        first, own["port"] = match[1], str(checked_port(match[2]))
    for name in [first] if first.count(":") > 1 and "]" not in first[1:-1] else expand(first):
        where = checked_name(name)
        if where in read.groups[section].hosts:
            raise BadEntry(f"{shown(where)} is on line {read.groups[section].hosts[where]} already")
        read.groups[section].hosts[where] = number
        read.lines.setdefault(where, number)
        read.hosts.setdefault(where, {}).update(own)


def _keep(into: dict[str, str], key: str, value: str) -> None:
    meaning = _MEANINGS.get(key)
    if meaning is None or secret(key):
        return
    if "{{" in value:
        raise BadEntry(f"{key} is a template; write its value")
    checks = {"host": checked_name, "port": checked_port, "user": checked_user, "slots": checked_slots}
    if meaning == "connection":
        if value not in _CONNECTIONS:
            raise BadEntry("ansible_connection must be ssh: hosts are reached by nothing else")
        return
    into[meaning] = str(checks[meaning](value))


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value


def _resolved(read: Inventory, group: str) -> list[tuple[int, Host]]:
    groups = read.groups
    for name, each in groups.items():
        for child, line in each.children.items():
            if child not in groups:
                raise BadLine(line, f"the group {shown(child)} of [{name}:children] is nowhere in the file")
    if group not in groups:
        known = ", ".join(name for name in groups if name not in ("all", "ungrouped")) or "none"
        raise BadLine(0, f"there is no group {shown(group)}; the groups are: {known}")
    order = _outermost_first(groups)
    # The outermost group first, so that what is nearer to a host wins; its own line wins over all.
    members = {name: dict.fromkeys(groups[name].hosts) for name in order}
    for name in reversed(order):
        for child in groups[name].children:
            members[name].update(members[child])
    members["all"] = dict.fromkeys(read.hosts)
    values: dict[str, dict[str, str]] = {name: {} for name in read.hosts}
    for name in order:
        for host in members[name]:
            values[host].update(groups[name].vars)
    return [
        (read.lines[name], _host(name, {**values[name], **read.hosts[name]})) for name in read.hosts if name in members[group]
    ]


def _outermost_first(groups: Mapping[str, _Group]) -> list[str]:
    above: dict[str, set[str]] = {name: {"all"} - {name} for name in groups}
    for name, each in groups.items():
        for child in each.children:
            above[child].add(name)
    try:
        return list(TopologicalSorter(above).static_order())
    except CycleError as error:
        inner, outer = error.args[1][1], error.args[1][0]
        line = groups[inner].children.get(outer, 0) or groups[outer].children.get(inner, 0)
        raise BadLine(line, f"the group {shown(inner)} is below itself") from None


def _host(name: str, values: Mapping[str, str]) -> Host:
    port = values.get("port")
    return Host(
        values.get("host", name), int(values.get("slots", "1")), values.get("user"), None if port is None else int(port)
    )
