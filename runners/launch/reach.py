"""How this host's programs, and others' over ssh, are started: argument lists here, one quoted line for a shell there."""

from __future__ import annotations

import base64
import json
import shlex
import socket
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from runners.hosts.host import Host
from runners.launch import carry, keeper, marks, starting

# A line of a program's output that begins with it is for who started it, and tells people nothing.
FOR_PROGRAMS = "\x1f"
# No single quote, line end, '!' or '%' in it: every shell, also csh and fish, and srun's own files take it.
_FROM_ENVIRONMENT = (
    f'import os,zlib,base64;exec(compile(zlib.decompress(base64.b64decode(os.environ["{marks.SOURCE}"])),"keeper","exec"))'
)


@dataclass(frozen=True, slots=True)
class Reach:
    """``ssh`` is the command with the options that the user's ssh needs; it must not ask for anything.

    ``before`` comes before each program that is started on this host (a wrapper like ``nsenter`` or ``sudo -n``).
    ``python`` is found on every host. A host from which nothing is heard for ``silence`` seconds counts as gone, and ends
    what it runs itself when it hears nothing from here for as long. ``here`` are names of this host.
    With ``srun`` hosts are reached by it instead of ssh.
    """

    ssh: tuple[str, ...] = ("ssh",)
    before: tuple[str, ...] = ()
    python: str = "python3"
    connect: int = 10
    silence: float = 15.0
    srun: tuple[str, ...] = ()
    here: frozenset[str] = frozenset({"localhost", "127.0.0.1", "::1"})

    def is_here(self, host: Host) -> bool:
        """Whether ``host`` is this one, which needs no ssh."""
        named = host.name in self.here or (not self.before and host.name == socket.gethostname())
        return named and host.user is None and host.port is None

    def command(self, host: Host | None) -> tuple[str, ...]:
        """The command that runs a keeper, told what to do on its standard input, on ``host`` (None is this one)."""
        boot = f"import sys;exec(sys.stdin.buffer.read({len(source())}))"
        if host is None:
            return (*self.before, sys.executable, "-c", boot)
        if self.srun:
            step = ("--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={host.name}", "--cpu-bind=none", "--unbuffered")
            return (*self.before, *self.srun, *step, self.python, "-c", boot)
        return (*self.before, *self.login(host), "--", host.name, shlex.join([self.python, "-c", boot]))

    def login(self, host: Host) -> tuple[str, ...]:
        """ssh with all of its options for ``host``: no questions, no forwarding, an end when the host is gone."""
        alive = max(1, int(self.silence / 3))
        options = ("BatchMode=yes", f"ConnectTimeout={self.connect}", f"ServerAliveInterval={alive}", "ServerAliveCountMax=3")
        words = [*self.ssh, "-T", "-x", "-a"]
        for option in options:
            words += ["-o", option]
        if host.user is not None:
            words += ["-l", host.user]
        if host.port is not None:
            words += ["-p", str(host.port)]
        return tuple(words)

    def below(self, rank: int) -> tuple[str, ...]:
        """The command of a rank below mpirun or srun; its environment is ``below_environment``."""
        return (self.python, "-c", _FROM_ENVIRONMENT, str(rank))


@cache
def source() -> bytes:
    """The keeper as it is sent to hosts: its modules, each put where the next one's imports find it."""
    lines = ["import sys,types"]
    for module in (marks, starting, keeper):
        text, name = carry.source_of(module), module.__name__
        lines.append(f"m=sys.modules[{name!r}]=types.ModuleType({name!r});exec(compile({text!r},{name!r},'exec'),m.__dict__)")
    return "\n".join([*lines, "m.main()", ""]).encode()


def spoken(spec: Mapping[str, Any]) -> bytes:
    """What a keeper is told first: its own text and what it has to do."""
    return source() + json.dumps(spec).encode() + b"\n"


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 9)).decode()


def below_environment(common: Mapping[str, Any], ranks: Mapping[int, Mapping[str, Any]]) -> dict[str, str]:
    """The environment of keepers below a launcher: their text, and what each has to do, equal for all ranks."""
    table = {"all": dict(common), "ranks": {str(rank): dict(own) for rank, own in ranks.items()}}
    return {marks.SOURCE: packed(source()), marks.TABLE: packed(json.dumps(table).encode())}


def last_line(text: str | Sequence[str]) -> str:
    """The last line of a program's complaint that says something to people."""
    lines = text.splitlines() if isinstance(text, str) else text
    return next((line.strip() for line in reversed(lines) if line.strip() and not line.startswith(FOR_PROGRAMS)), "")
