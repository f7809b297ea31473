"""Name look-ups as TCPStore makes them: the address of rank 0's name, and the name of every address that it connects to."""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

# Two tries of five seconds are what resolv.conf says where it says nothing.
LIMIT = 12.0
SLOW = 0.1


@dataclass(frozen=True, slots=True)
class Lookup:
    """What several ranks saw that looked ``host`` up at once: the slowest one's seconds, forward and back.

    ``addresses`` in the order in which torch tries them; ``failure`` says why there are none. ``unanswered``: ranks that had
    no answer in time. ``asked`` is the address whose name was asked for, as torch asks: an IPv4 address in its IPv6 form,
    for which glibc does not find the plain IPv4 line of /etc/hosts.
    """

    host: str
    addresses: tuple[str, ...]
    forward: float
    reverse: float
    unanswered: int = 0
    asked: str = ""
    failure: str = ""

    @property
    def loopback(self) -> bool:
        return any(plain(address).is_loopback for address in self.addresses)

    @property
    def ipv4(self) -> str:
        """The first IPv4 address, "" when there is none."""
        return next((str(each) for each in map(plain, self.addresses) if each.version == 4), "")


def plain(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An address without its IPv6 clothes: ::ffff:10.0.0.1 -> 10.0.0.1."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    return getattr(parsed, "ipv4_mapped", None) or parsed


def look_up(host: str, ranks: int = 1, limit: float = LIMIT) -> Lookup:
    """``ranks`` threads look ``host`` up at once, as so many ranks would. Takes at most ``limit`` seconds."""
    done: list[tuple[float, float, tuple[str, ...], str]] = []
    threads = [threading.Thread(target=lambda: done.append(_one(host)), daemon=True) for _ in range(ranks)]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, begun + limit - time.monotonic()))
    seen = list(done)
    missing = ranks - len(seen)
    if not seen:
        return Lookup(host, (), limit, 0.0, missing, "", f"no answer within {limit:.0f} s")
    addresses, failure = next(((found, why) for _, _, found, why in seen if found), ((), seen[0][3]))
    return Lookup(
        host,
        tuple(str(plain(each)) for each in addresses),
        max(forward for forward, _, _, _ in seen),
        limit if missing else max(reverse for _, reverse, _, _ in seen),
        missing,
        addresses[0] if addresses else "",
        failure,
    )


def _one(host: str) -> tuple[float, float, tuple[str, ...], str]:
    """Seconds of the look-up, seconds of the way back, the addresses, and why there are none."""
    begun = time.monotonic()
    flags = socket.AI_V4MAPPED | socket.AI_ALL
    found: Sequence[tuple[object, ...]] = []
    why = ""
    for family in (socket.AF_INET6, socket.AF_INET):
        try:
            found = socket.getaddrinfo(host, 1, family, socket.SOCK_STREAM, flags=flags)
            break
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or str(error)
    forward = time.monotonic() - begun
    if not found:
        return forward, 0.0, (), why
    begun = time.monotonic()
    address = found[0][4]
    assert isinstance(address, tuple)
    with suppress(OSError):  # no name is an answer too; what counts is how long it took
        socket.getnameinfo(address, socket.NI_NUMERICSERV)
    return forward, time.monotonic() - begun, tuple(dict.fromkeys(str(each[4][0]) for each in found)), ""  # type: ignore[index]


def ways_back(addresses: Sequence[str], limit: float = LIMIT) -> dict[str, float]:
    """Seconds that each address's name took, all asked for at once and in the form in which torch asks; at most ``limit``."""
    found: dict[str, float] = {}

    def ask(address: str) -> None:
        asked = f"::ffff:{address}" if ":" not in address else address
        begun = time.monotonic()
        with suppress(OSError):
            socket.getnameinfo((asked, 1), socket.NI_NUMERICSERV)
        found[address] = time.monotonic() - begun

    threads = [threading.Thread(target=ask, args=(address,), daemon=True) for address in addresses]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, begun + limit - time.monotonic()))
    seen = dict(found)
    return {address: seen.get(address, limit) for address in addresses}


def own_name() -> str:
    """What this machine is called where that leads to an address, else localhost."""
    name = socket.gethostname()
    return name if look_up(name, limit=5.0).addresses else "localhost"


def hosts_line(lookup: Lookup) -> str:
    """The line of /etc/hosts that answers both ways of asking."""
    address = lookup.ipv4 or (lookup.addresses[0] if lookup.addresses else "ADDRESS")
    name = "NAME" if lookup.host in (address, *lookup.addresses) else lookup.host
    return f"::ffff:{address} {name}" if ":" not in address else f"{address} {name}"


def mend(lookup: Lookup) -> str:
    """What makes the way back quick."""
    return f"a line like `{hosts_line(lookup)}` for every host in every /etc/hosts, or `hosts: files` in /etc/nsswitch.conf"


def shown(seconds: float) -> str:
    """A time for a sentence."""
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"
