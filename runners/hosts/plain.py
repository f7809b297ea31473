"""Lists with one host a line: plain ones, machinefiles of Intel MPI and MPICH, hostfiles of Open MPI and DeepSpeed."""

from __future__ import annotations

import re

from runners.hosts.host import BadEntry, Host, checked_name, checked_port, checked_slots, checked_user, shown
from runners.hosts.ranges import expand

_SLOTS = ("slots", "count", "cpu", "cpus")
_MOST = ("max_slots", "max-slots")
# Words of the other formats that say nothing about how many ranks fit, or where.
_IGNORED = ("ifname", "binding", "user_binding", "gpu")


def parse_line(line: str) -> list[Host]:
    """The hosts of a line: none where it is empty or a comment. Raises BadEntry."""
    text = re.sub(r"\s*=\s*", "=", line.split("#", 1)[0].strip())
    if not text:
        return []
    first, *rest = text.split()
    hosts = parse_entry(first)
    slots, most, user, port = None, None, None, None
    for word in rest:
        key, equals, value = word.partition("=")
        key = key.lower()
        if not equals:
            raise BadEntry("there is a second word after the host; write one host a line, with slots=4 where it has them")
        if key in _SLOTS:
            slots = checked_slots(value)
        elif key in _MOST:
            most = checked_slots(value, "max_slots")
        elif key == "user":
            user = checked_user(value)
        elif key == "port":
            port = checked_port(value)
        elif key not in _IGNORED:
            raise BadEntry(f"{shown(word)} is not known here; a line is a host, host:4 or host slots=4 max_slots=8")
    if slots is not None and most is not None and most < slots:
        raise BadEntry(f"max_slots={most} is less than slots={slots}")
    return [Host(each.name, slots or each.slots, user or each.user, port or each.port) for each in hosts]


def parse_entry(text: str) -> list[Host]:
    """``host``, ``host:4``, ``user@host``, ``[2001:db8::1]:4`` or a range like ``node[01-16]:4``. Raises BadEntry."""
    user, at, place = text.rpartition("@")
    who = checked_user(user) if at else None
    if at and place.startswith("-"):
        raise BadEntry(f"{shown(place)} begins with '-': a host's name begins with a letter or a digit")
    name, slots = place, 1
    # More than one colon outside of brackets is an IPv6 address.
    if match := re.fullmatch(r"(\[[^\]]*\]|[^:\[]*(?:\[[^\]]*\][^:\[]*)*):([^:\]]*)", place):
        name = match[1]
        checked_name(expand(name)[0] if "[" in name and not _is_bracketed_address(name) else name)
        slots = checked_slots(match[2], f"what follows ':' in {shown(name)}: slots")
    names = [name] if _is_bracketed_address(name) else expand(name)
    return [Host(checked_name(each), slots, who) for each in names]


def _is_bracketed_address(text: str) -> bool:
    return re.fullmatch(r"\[[0-9a-fA-F:.%]*:[0-9a-fA-F:.%\w]*\]", text) is not None and text.count(":") > 1
