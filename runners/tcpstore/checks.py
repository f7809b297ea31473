"""`tune doctor tcpstore`: what bounds a start of this size before anything is started."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator, Mapping

from runners.hosts.host import BadEntry, checked_name, shown
from runners.launch.crew import Unreachable
from runners.runner import EnvironmentProblem, Json, Problem, Severity, UsageError
from runners.tcpstore import fit, kernel, names, network
from runners.tcpstore.diagnosis import wanted_backlog
from runners.tcpstore.failures import busy
from runners.tcpstore.names import Lookup
from runners.tcpstore.options import Options
from runners.tcpstore.places import Found, Place, place, words
from runners.tcpstore.starting import torch_version
from runners.tcpstore.weigh import weights

# No job has more; what is longer is a slip.
MOST_RANKS = 10_000_000
_ORDER: dict[Severity, int] = {"error": 0, "warning": 1, "note": 2}
_TRIED = {
    "libuv": "the libuv server",
    "legacy": "the legacy server",
    "listening_libuv": "the libuv server",
    "listening_legacy": "the legacy server",
}


def problems(options: Options) -> list[Problem]:
    """Everything, the worst first; starts torch in a child to see what it can, on every host where there are several."""
    check_options(options)
    where = place(options)
    try:
        found = where.problems()
        if not any(problem.id == "torch" for problem in found):
            found += _torch(where)
    except Unreachable as error:
        found = error.problems
    finally:
        where.close()
    return sorted(found, key=lambda problem: _ORDER[problem.severity])


def check_options(options: Options) -> None:
    """Raises UsageError for the first value that can't be used."""
    if not 2 <= options.world_size <= MOST_RANKS:
        raise UsageError("world-size", options.world_size, f"must be from 2 (one rank waits for nobody) to {MOST_RANKS}")
    if not 0 <= options.port < 1 << 16:
        raise UsageError("port", options.port, "must be from 1 to 65535, or 0 for a free one")
    if not 0 <= options.barriers <= 1000:
        raise UsageError("barriers", options.barriers, "must be from 0 to 1000")
    if not 0 <= options.processes <= options.world_size:
        why = f"must be from 1 to --world-size {options.world_size}, or 0 for what fits"
        raise UsageError("processes", options.processes, why)
    if options.master:
        _check_master(options.master)
    weights(options.weigh, options.barriers)
    words(options.ssh)
    predicted_sizes(options)


def _check_master(master: str) -> None:
    try:
        checked_name(master)
    except BadEntry as error:
        raise UsageError("master", shown(master)[1:-1], str(error)) from None


def predicted_sizes(options: Options) -> tuple[int, ...]:
    """World sizes to extrapolate to. Raises UsageError."""
    sizes = []
    for part in options.predict.split(",") if options.predict else []:
        if not re.fullmatch(r" *[0-9]{1,9} *", part) or not options.world_size < int(part) <= MOST_RANKS:
            why = f"write whole numbers above --world-size {options.world_size} and up to {MOST_RANKS}, like 4096,32768"
            raise UsageError("predict", options.predict, why)
        sizes.append(int(part))
    return tuple(sizes)


def preflight(options: Options, found: Found) -> list[Problem]:
    """What a run on this machine must know before it measures; imports no torch and starts nothing."""
    check_options(options)
    if torch_version() is None:
        return [Problem("torch", "error", "PyTorch is not installed in this Python", "pip install torch")]
    has = fit.machine()
    count = fit.processes(options.world_size, options.processes, has)
    most = found.backlogs.get(kernel.SOMAXCONN)
    return [
        *fit.problems(options.world_size, count, has, force=options.force, raised=options.system),
        *_names(found.name, found.lookup),
        *_port(options.port),
        *backlog_problems(options.world_size, most, system=options.system),
        *system_problems(options, found.backlogs, kernel.refusal),
    ]


def _names(host: str, lookup: Lookup) -> Iterator[Problem]:
    if not lookup.addresses:
        yield Problem("name", "error", f"{host} has no address: {lookup.failure}", f"getent hosts {host}; or --master NAME")
        return
    if lookup.forward > names.SLOW:
        message = f"looking up {host} takes {names.shown(lookup.forward)}: every rank waits for that before it connects"
        yield Problem("forward", "warning", message, f"a line for {host} in every host's /etc/hosts, or --address ip")
    if lookup.reverse > names.SLOW or lookup.unanswered:
        message = (
            f"the way back from {lookup.asked} to a name takes {names.shown(lookup.reverse)}: every rank waits for that when "
            "it connects, whichever server is chosen"
        )
        yield Problem("reverse", "warning", message, names.mend(lookup))
    if lookup.loopback and host != "localhost" and not host.startswith("127."):
        own = next(each for each in lookup.addresses if names.plain(each).is_loopback)
        message = f"{host} is {own} here: ranks on other hosts would look for rank 0 on themselves"
        mend = f"take {host} off the {own} line of /etc/hosts, or name another --master"
        yield Problem("loopback", "warning", message, mend)
    if not lookup.ipv4:
        message = f"{host} has no IPv4 address, only {', '.join(lookup.addresses)}: torch then tries IPv6 alone"
        yield Problem("ipv6", "warning", message, f"getent ahostsv4 {host}")
    if not _is_own(lookup):
        message = f"{host} ({', '.join(lookup.addresses)}) is another machine: the server of a measurement runs here"
        yield Problem("elsewhere", "error", message, "run this on rank 0's host, or without --master")


def _is_own(lookup: Lookup) -> bool:
    for address in lookup.addresses:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            with socket.socket(family) as probe:
                probe.bind((address, 0))
                return True
        except OSError:
            continue
    return False


def _port(port: int) -> Iterator[Problem]:
    if port and network.can_bind(port):
        yield Problem("port", "error", busy(port, network.free_ports(1)[0]), "--port, or end what uses it: ss -ltnp")
    yield from port_problems(port)


def port_problems(port: int) -> Iterator[Problem]:
    if 0 < port < 1024:
        yield Problem("port", "note", f"port {port} is reserved for root", "a port above 1024")


def backlog_problems(ranks: int, most: int | None, *, system: bool, host: str = "") -> Iterator[Problem]:
    """``most`` is net.core.somaxconn of rank 0's host; with ``system`` it is measured what raising it gives."""
    if most is None or most >= ranks or system:
        return
    wanted = wanted_backlog(ranks)
    message = (
        f"net.core.somaxconn is {most}{f' on {host}' if host else ''} and {ranks} ranks connect at once: what does not fit is "
        "thrown away and tries again after 0.4 s and more"
    )
    where = host or "rank 0's host"
    mend = f"sudo sysctl -w {kernel.SOMAXCONN}={wanted} {kernel.SYN_BACKLOG}={wanted} on {where}"
    yield Problem("backlog", "warning", message, f"{mend}; --system measures what that gives")


def system_problems(options: Options, backlogs: Mapping[str, int], refusal: Callable[[int], str]) -> Iterator[Problem]:
    """Whether ``--system`` can do what it shall, and has anything to do. ``refusal`` is asked only where it has."""
    if not options.system:
        return
    if not short(backlogs, options.world_size):
        message = f"--system has nothing to raise: the backlogs hold {options.world_size} ranks as they are"
        yield Problem("system", "note", message)
    elif said := refusal(wanted_backlog(options.world_size)):
        yield Problem("system", "error", f"--system: {said}", "as root there, or without --system")


def short(backlogs: Mapping[str, int], ranks: int) -> bool:
    """Whether a backlog of rank 0's host is shorter than its ranks are many."""
    return any(value < ranks for value in backlogs.values())


def _torch(where: Place) -> Iterator[Problem]:
    try:
        where.load()
    except EnvironmentProblem as problem:
        yield Problem("torch", "error", problem.message, problem.mend)
        return
    yield from incapable(where.abilities(), where.found.torch)


def incapable(abilities: Mapping[str, Mapping[str, Json]], version: str) -> Iterator[Problem]:
    """What torch was tried for and can't do, a problem each with the hosts that it is so on; rank 0's is the first.

    Only the server's host needs a server: what another one lacks is a note.
    """
    head = next(iter(abilities))
    for what, name in _TRIED.items():
        failed = [host for host, can in abilities.items() if can.get(what, "unknown")]
        if not failed:
            continue
        more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        on = f" on {failed[0]}{more}" if failed[0] else ""
        why = abilities[failed[0]].get(what, "unknown")
        if what.startswith("listening"):
            message = f"torch {version}{on}: {name} takes no listening socket (tried): {why}"
            yield Problem(what, "note", message, "--start together,server_first")
        else:
            other = "--backend legacy" if what == "libuv" else "--backend libuv"
            mend = other if failed[0] == head else "the same torch as on rank 0's host"
            yield Problem(
                what,
                "warning" if failed[0] == head else "note",
                f"torch {version}{on}: {name} can't be had (tried): {why}",
                mend,
            )
