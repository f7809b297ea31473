"""What this host's kernel says about TCP: limits on connections, ports and descriptors, and counters of refusals."""

from __future__ import annotations

import fcntl
import re
import resource
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_LISTEN = "0A"
_SIOCGIFADDR, _SIOCGIFFLAGS = 0x8915, 0x8913
_UP, _LOOPBACK = 0x1, 0x8


@dataclass(frozen=True, slots=True)
class Counters:
    """Counts of this network namespace since its start, or the difference of two readings.

    ``refused``: connections that nobody listened for. ``overflows``: connections that a full backlog threw away.
    ``resets``: connections that were reset. ``resent``: segments that had to be sent again.
    """

    refused: int
    overflows: int
    resets: int
    resent: int

    def since(self, before: Counters) -> Counters:
        return Counters(
            self.refused - before.refused,
            self.overflows - before.overflows,
            self.resets - before.resets,
            self.resent - before.resent,
        )


def counters(proc: Path = PROC) -> Counters:
    tcp = _table(proc / "net/snmp", "Tcp")
    more = _table(proc / "net/netstat", "TcpExt")
    return Counters(
        tcp.get("AttemptFails", 0),
        more.get("ListenOverflows", 0) + more.get("TCPReqQFullDrop", 0),
        tcp.get("EstabResets", 0),
        tcp.get("RetransSegs", 0),
    )


def _table(path: Path, name: str) -> Mapping[str, int]:
    """One block of /proc/net/snmp or netstat: a line of names, a line of numbers."""
    lines = [line.split()[1:] for line in _read(path).splitlines() if line.startswith(f"{name}:")]
    return dict(zip(lines[0], map(int, lines[1]), strict=False)) if len(lines) == 2 else {}


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    text = _read(path).strip()
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def somaxconn(proc: Path = PROC) -> int | None:
    """Connections that may wait in a listening socket's backlog, at most."""
    return _number(proc / "sys/net/core/somaxconn")


def syn_backlog(proc: Path = PROC) -> int | None:
    return _number(proc / "sys/net/ipv4/tcp_max_syn_backlog")


def ports(proc: Path = PROC) -> int:
    """Ports that this host has for connections to one address and port."""
    numbers = _read(proc / "sys/net/ipv4/ip_local_port_range").split()
    return int(numbers[1]) - int(numbers[0]) + 1 if len(numbers) == 2 else 28232


def tasks(proc: Path = PROC, cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Processes and threads that can be started still, roughly."""
    known = [_number(proc / "sys/kernel/pid_max"), _number(proc / "sys/kernel/threads-max")]
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if soft != resource.RLIM_INFINITY:
        known.append(soft)
    for line in _read(proc / "self/cgroup").splitlines():
        kind, _, name = line.partition(":")[2].partition(":")
        folder = cgroup if kind == "" else cgroup / kind
        if kind in ("", "pids"):
            known.append(_number(folder / name.strip("/") / "pids.max"))
    running = sum(entry.name.isdigit() for entry in proc.iterdir())
    return max(0, min(number for number in known if number is not None) - 2 * running - 256)


@dataclass(frozen=True, slots=True)
class Descriptors:
    """RLIMIT_NOFILE: what a process may have open, and what it may raise that to."""

    soft: int
    hard: int


def descriptors() -> Descriptors:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 1 << 30
    return Descriptors(*(most if each == resource.RLIM_INFINITY else each for each in (soft, hard)))


def raise_descriptors(wanted: int) -> None:
    """This process may have ``wanted`` descriptors open, or as many as the hard limit allows; never fewer than before."""
    has = descriptors()
    if wanted > has.soft:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, has.hard), hard))


def listens(port: int, proc: Path = PROC) -> bool:
    """Whether a socket of this host listens on ``port``; looks without connecting."""
    wanted = f":{port:04X}"
    for name in ("net/tcp", "net/tcp6"):
        for line in _read(proc / name).splitlines()[1:]:
            parts = line.split()
            if parts[1].endswith(wanted) and parts[3] == _LISTEN:
                return True
    return False


def addresses() -> list[str]:
    """IPv4 addresses of this host's interfaces that are up, loopback left out, in the order of their names."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for name in sorted(name for _, name in socket.if_nameindex()):
            request = struct.pack("256s", name.encode()[:15])
            try:
                flags = struct.unpack_from("H", fcntl.ioctl(probe.fileno(), _SIOCGIFFLAGS, request), 16)[0]
                told = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
            except OSError:
                continue
            if flags & _UP and not flags & _LOOPBACK:
                found.append(socket.inet_ntoa(told[20:24]))
    return found


def free_ports(count: int) -> list[int]:
    """``count`` distinct ports that nobody uses now."""
    held: list[socket.socket] = []
    try:
        for _ in range(count):
            held.append(socket.socket())
            held[-1].bind(("", 0))
        return [int(each.getsockname()[1]) for each in held]
    finally:
        for each in held:
            each.close()


def can_bind(port: int) -> str:
    """Why nobody can listen on ``port`` now, "" when one can."""
    with socket.socket() as each:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as torch does
        try:
            each.bind(("", port))
            each.listen(1)
        except OSError as error:
            return error.strerror or str(error)
    return ""
