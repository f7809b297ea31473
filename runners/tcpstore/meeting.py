"""Where the ranks of several hosts meet: rank 0's name and address as every host finds them, and whether each gets there."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runners.runner import Problem
from runners.tcpstore import names
from runners.tcpstore.crew import Crew
from runners.tcpstore.names import Lookup
from runners.tcpstore.seat import Seat

_MOST_AT_ONCE = 64
_WAIT = 4 * names.LIMIT


@dataclass(frozen=True, slots=True)
class Seen:
    """What one host saw of rank 0's: the look-up of its name, seconds to the names of addresses, and by each way of calling it
    why nobody answered ("" where it did).
    """

    host: str
    lookup: Lookup
    back: Mapping[str, float]
    said: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Meeting:
    """``name`` and ``ip`` are how rank 0's host can be called, "" where it can't; ``lookup`` is the slowest that any host saw;
    ``refused`` says why an address form can't be had.
    """

    name: str
    ip: str
    lookup: Lookup
    refused: Mapping[tuple[str, str], str]
    problems: tuple[Problem, ...]


def meet(crew: Crew, name: str, ranks: int, port: int) -> Meeting:
    """Asks all hosts. ``name`` is what rank 0's host shall be called, "" what the list calls it; ``port`` 0 is any."""
    head = crew.head
    name = name or head.host.name
    own = list(head.facts["addresses"])
    if _literal(head.host.name) and head.host.name not in own:
        own.insert(0, head.host.name)
    (door,) = crew.everywhere(lambda seat: seat.ask({"do": "open", "port": port}), [head])
    if "busy" in door:
        message = f"port {port} can't be had on {head.host.name} ({door['busy']}); {door['free']} is free"
        problem = Problem("port", "error", message, f"--port, or end what uses it: ssh {head.host.name} ss -ltnp")
        return Meeting(name, "", Lookup(name, (), 0.0, 0.0), {}, (problem,))

    def ask(seat: Seat) -> Seen:
        if seat is head:
            addresses = [each for other in crew.seats for each in other.facts["addresses"][:4]]
            ways: list[str] = []
        else:
            addresses, ways = own, [name, *own]
        request = {"do": "names", "host": name, "ranks": _MOST_AT_ONCE, "addresses": addresses, "limit": names.LIMIT}
        told = seat.ask({**request, "ranks": min(_MOST_AT_ONCE, max(1, ranks // len(crew.seats)))}, _WAIT)
        lookup = Lookup(**{**told["lookup"], "addresses": tuple(told["lookup"]["addresses"])})
        call: dict[str, Any] = {"do": "call", "addresses": ways, "port": door["port"], "word": door["word"]}
        said = seat.ask(call, _WAIT)["said"] if ways else {}
        return Seen(seat.host.name, lookup, told["back"], said)

    seen = crew.everywhere(ask)
    crew.everywhere(lambda seat: seat.ask({"do": "shut"}), [head])
    owners = {each: seat.host.name for seat in crew.seats for each in seat.facts["addresses"]}
    return judged(name, own, seen, owners, int(door["port"]))


def judged(name: str, own: Sequence[str], seen: Sequence[Seen], owners: Mapping[str, str], port: int) -> Meeting:
    """What all hosts saw, rank 0's host first; ``owners`` says whose an address is. Pure."""
    others = seen[1:]
    found = [each.lookup.ipv4 for each in others if each.lookup.ipv4]
    candidates = sorted(own, key=lambda address: -found.count(address))
    ip = next((each for each in candidates if all(not other.said.get(each, "") for other in others)), "")
    refused: dict[tuple[str, str], str] = {}
    blocked = next((each for each in others if each.said.get(name, "")), None)
    if blocked is not None:
        refused["address", "name"] = f"{blocked.host} does not get to rank 0's host by the name {name}: {blocked.said[name]}"
    if _literal(name):
        refused["address", "ip"] = f"rank 0's host is given by its address already ({name})"
    elif not ip:
        refused["address", "ip"] = f"no address of rank 0's host is reached by all others ({', '.join(own) or 'it has none'})"
    unreached = list(_unreached(name, own, others, ip, port))
    problems = [
        *unreached,
        *(problem for each in seen for problem in _looked_up(each, home=each is seen[0], ip=ip)),
        *(problem for each in others if not unreached for problem in _only_by_address(each, ip)),
        *_ways_back(seen, owners),
    ]
    return Meeting(name, ip, _slowest(name, ip, seen), refused, tuple(problems))


def _literal(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _unreached(name: str, own: Sequence[str], others: Sequence[Seen], ip: str, port: int) -> Iterator[Problem]:
    """The first host for which neither way leads to rank 0's; how many are like it."""
    failed = [each for each in others if all(each.said.get(way, "") for way in (name, ip or name))]
    if not failed:
        return
    why = next((f"{way}: {failed[0].said[way]}" for way in (*own, name) if failed[0].said.get(way)), "no way is known")
    more = f" (and {len(failed) - 1} more hosts)" if len(failed) > 1 else ""
    yield Problem(
        "reach",
        "error",
        f"{failed[0].host}{more} can't open a connection to port {port} of rank 0's host {name} ({why})",
        f"let the hosts in at {name}: sudo ufw allow from {failed[0].host} (or firewall-cmd), and --port for one that is open",
    )


def _looked_up(each: Seen, *, home: bool, ip: str) -> Iterator[Problem]:
    """What is wrong with how one host finds rank 0's name; ``home``: it is rank 0's own."""
    lookup = each.lookup
    host, name = each.host, lookup.host
    if not lookup.addresses:
        line = f"the line `{ip or 'ADDRESS'} {name}` in /etc/hosts of {host}"
        message = f"{host} finds no address for {name}: {lookup.failure}"
        yield Problem("name", "error", message, f"{line}{_by_address(ip)}")
        return
    if lookup.loopback and not _literal(name) and name != "localhost":
        own = next(address for address in lookup.addresses if names.plain(address).is_loopback)
        who = "the libraries that announce this host by its name would tell others to look at home"
        message = f"{name} is {own} on {host}: {who if home else 'its ranks would look for rank 0 on itself'}"
        mend = f"take {name} off the {own} line of /etc/hosts on {host}{'' if home else _by_address(ip)}"
        yield Problem("loopback", "warning" if home else "error", message, mend)
    elif not lookup.ipv4:
        message = f"{name} has no IPv4 address on {host}, only {', '.join(lookup.addresses)}: torch then tries IPv6 alone"
        yield Problem("ipv6", "warning", message, f"the line `{ip or 'ADDRESS'} {name}` in /etc/hosts of {host}")
    if lookup.forward > names.SLOW:
        message = f"looking up {name} takes {names.shown(lookup.forward)} on {host}: every rank waits for that first"
        yield Problem("forward", "warning", message, f"a line for {name} in its /etc/hosts, or --address ip")


def _by_address(ip: str) -> str:
    return f"; or --master {ip} for a job that is given the address" if ip else ""


def _only_by_address(each: Seen, ip: str) -> Iterator[Problem]:
    """A host that has an address for the name, which leads nowhere, while another one does lead to rank 0's host."""
    lookup = each.lookup
    said = each.said.get(lookup.host, "")
    if said and lookup.addresses and not lookup.loopback:
        message = f"{each.host} takes {lookup.host} for {', '.join(lookup.addresses)} and gets nowhere by that ({said})"
        yield Problem("name", "error", message, f"the line `{ip} {lookup.host}` in its /etc/hosts{_by_address(ip)}")


def _ways_back(seen: Sequence[Seen], owners: Mapping[str, str]) -> Iterator[Problem]:
    """One problem a host from which names of addresses are slow to find."""
    for each in seen:
        slow = sorted(((seconds, address) for address, seconds in each.back.items() if seconds > names.SLOW), reverse=True)
        if each.lookup.reverse > names.SLOW or each.lookup.unanswered:
            slow = slow or [
                (each.lookup.reverse, str(names.plain(each.lookup.asked)) if each.lookup.asked else each.lookup.host)
            ]
        if not slow:
            continue
        seconds, address = slow[0]
        whose = owners.get(address, each.lookup.host)
        more = f", and from {len(slow) - 1} more" if len(slow) > 1 else ""
        message = (
            f"on {each.host} the way back from {address} to a name takes {names.shown(seconds)}{more}: a start waits for "
            "that, whichever server is chosen"
        )
        line = names.hosts_line(Lookup(whose, (address,), 0.0, 0.0))
        mend = f"a line like `{line}` for every host in /etc/hosts of {each.host}, or `hosts: files` in its /etc/nsswitch.conf"
        yield Problem("reverse", "warning", message, mend)


def _slowest(name: str, ip: str, seen: Sequence[Seen]) -> Lookup:
    """What bounds a start: the slowest of all hosts, each way."""
    worst = max((each.lookup for each in seen), key=lambda lookup: lookup.reverse)
    back = max((seconds for each in seen for seconds in each.back.values()), default=0.0)
    return replace(
        worst,
        host=name,
        addresses=(ip,) if ip else worst.addresses,
        forward=max(each.lookup.forward for each in seen),
        reverse=max(worst.reverse, back),
        unanswered=sum(each.lookup.unanswered for each in seen),
    )
