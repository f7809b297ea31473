"""What is wrong with a set of hosts: asks each one about itself and lets each one call back."""

from __future__ import annotations

import json
import secrets
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

from runners.hosts import probe
from runners.hosts.compare import Told, compared
from runners.hosts.host import Host
from runners.launch.job import Job, Launcher, Process, Rank
from runners.launch.together import Together
from runners.runner import Failure, Problem

_LIMIT = 60.0
_ANSWER = 30.0
_KEYS = frozenset(
    (
        "node",
        "python",
        "machine",
        "libraries",
        "mpi",
        "processor",
        "interfaces",
        "address",
        "caller",
        "rdma",
        "shm",
        "memlock",
        "resolved",
    )
)
_SSH_MENDS = (
    ("Permission denied", "ssh-copy-id {login}"),
    ("Host key verification failed", "compare its key with the host's own, then: ssh-keyscan -H {name} >> ~/.ssh/known_hosts"),
    ("IDENTIFICATION HAS CHANGED", "if the host was set up anew: ssh-keygen -R {name}"),
    ("Could not resolve", "add its address and the name {name} to /etc/hosts here, or write the address"),
    ("can't be started here", "install it on this host, or name another ssh with --ssh"),
    ("gave no answer", "name a Python 3 of {name} with --python; what there is now is started and says nothing"),
    ("not found", "install python3 on {name}, or name one with --python"),
    ("No such file", "install python3 on {name}, or name one with --python"),
    ("refused", "on {name}: sudo systemctl enable --now ssh"),
    ("", "ssh {login} true   # must work without a question"),
)


@dataclass(frozen=True, slots=True)
class Callback:
    """Where hosts call us: a port on all of our addresses, and the word that tells them from strangers."""

    port: int
    word: str


def problems(hosts: Sequence[Host], launcher: Launcher, python: str = "python3", root: str = "") -> list[Problem]:
    """Problems of ``hosts``, and of them together. Asks all at the same time, at most a minute.

    Severity "error": a host can't be used, or the hosts can't work together. ``root`` is where the hosts have /sys and /proc.
    What comes back from a host is data: nothing of it is run.
    """
    together = Together()
    with _listening() as callback:
        answers = together.each(partial(_ask, hosts, launcher, python, root, callback, together), hosts)
    found: list[Problem] = []
    told: dict[str, Told] = {}
    for host, answer in zip(hosts, answers, strict=True):
        if isinstance(answer, Failure):
            found.append(unreachable(host, answer))
        else:
            told[host.name], blocked = answer
            if blocked:
                found.append(blocked)
    return [*found, *compared(told)]


def unreachable(host: Host, failure: Failure) -> Problem:
    """A host that could not be asked, with what mends what ssh said."""
    login = f"{host.user}@{host.name}" if host.user else host.name
    if host.port:
        login = f"-p {host.port} {login}"
    mend = next(mend for words, mend in _SSH_MENDS if words in failure.reason + failure.log)
    return Problem("hosts-unreachable", "error", failure.reason, mend.format(login=login, name=host.name))


def _ask(
    hosts: Sequence[Host],
    launcher: Launcher,
    python: str,
    root: str,
    callback: Callback,
    together: Together,
    host: Host,
) -> tuple[Told, Problem | None] | Failure:
    source = Path(probe.__file__).read_text(encoding="utf-8")
    job = Job((Rank(host, (python, "-c", source)),), _LIMIT)
    with together.start(launcher, job) as running:
        clock = _clock(running)
        if isinstance(clock, Failure):
            return clock
        others = [each.name for each in hosts if each is not host]
        names = [*others, socket.gethostname()] if len(hosts) > 1 else []
        facts = _answer(running, {"do": "facts", "root": root, "names": names[:256]})
        if isinstance(facts, Failure):
            return facts
        if not isinstance(facts, dict) or not facts.keys() >= _KEYS:
            return Failure("environment", f"{host.name}: what it answers is not understood")
        blocked = None
        if facts["caller"]:
            call = {"do": "call", "address": facts["caller"], "port": callback.port, "word": callback.word}
            said = _answer(running, call)
            if isinstance(said, Failure):
                return said
            blocked = _blocked(host, str(facts["caller"]), str(said)) if said else None
        return Told(facts, *clock), blocked


def _answer(running: Process, request: dict[str, Any]) -> Any:
    """What the probe answers, or a Failure."""
    line = running.ask(json.dumps(request), _ANSWER)
    if isinstance(line, Failure):
        return line
    try:
        return json.loads(line)
    except ValueError:
        return Failure("environment", f"what the host answers is not understood: {line[:80]!r}")


def _clock(running: Process) -> tuple[float, float] | Failure:
    """How far the host's clock is ahead, and how sure that is: half of the quickest round trip."""
    best = (0.0, float("inf"))
    for _ in range(4):
        begun, here = time.monotonic(), time.time()
        there = _answer(running, {"do": "clock"})
        if isinstance(there, Failure):
            return there
        half = (time.monotonic() - begun) / 2
        if half < best[1]:
            best = (float(there) - (here + half), half)
    return best


def _blocked(host: Host, address: str, said: str) -> Problem:
    return Problem(
        "hosts-callback",
        "error",
        f"{host.name} can't open a connection to this host at {address} ({said}): mpirun's helpers there would hang",
        f"let {host.name} in here: sudo ufw allow from {host.name} (or: sudo firewall-cmd --add-source=ITS-ADDRESS)",
    )


@contextmanager
def _listening() -> Iterator[Callback]:
    """Answers those who know the word, for as long as the context lasts."""
    word = secrets.token_hex(16)
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    with socket.create_server(("", 0), family=family, dualstack_ipv6=family == socket.AF_INET6, backlog=256) as server:
        thread = Thread(target=_serve, args=(server, word), daemon=True)
        thread.start()
        try:
            yield Callback(server.getsockname()[1], word)
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def _serve(server: socket.socket, word: str) -> None:
    while True:
        try:
            line, _ = server.accept()
        except OSError:
            return
        with line:
            line.settimeout(2)
            try:
                told = line.recv(64)
                line.sendall(b"ok" if told.decode(errors="replace") == word else b"no")
            except OSError:
                continue
