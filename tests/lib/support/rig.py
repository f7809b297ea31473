"""Hosts of the tests' own on this machine: network, process, mount and name spaces joined by shaped links and a real sshd.

Every host has its own network interface ``e0`` on a bridge that only the hosts share, its own host name, /proc,
/dev/shm, /run, /etc/hosts and home. The file system is the machine's, as it is on a cluster with a shared home. Nothing
outside is touched, and the hosts' addresses exist only inside.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from runners.process import die_with

SSHD = "/usr/sbin/sshd"
_NETWORK = "10.99.0"
_TOOLS = ("ip", "tc", "unshare", "nsenter", "mount", "ssh", "ssh-keygen")


@dataclass
class RigHost:
    name: str
    address: str
    namespace: str
    folder: Path
    init: int  # the first process of the host, as this machine numbers it: with it, all of the host ends

    @property
    def inside(self) -> tuple[str, ...]:
        """What to put in front of a command to run it on this host."""
        return ("nsenter", "-t", str(self.init), "-n", "-u", "-m", "-p")

    def run(self, *argv: str | Path, limit: float = 60, check: bool = True) -> str:
        done = subprocess.run([*self.inside, *map(str, argv)], capture_output=True, text=True, timeout=limit, check=False)
        if check and done.returncode:
            raise RuntimeError(f"{argv} on {self.name}: {done.stdout}{done.stderr}")
        return done.stdout

    def processes(self, holding: str = "") -> list[str]:
        """Command lines of the host's processes whose environment holds ``holding``; all but its own two without it."""
        code = (
            "import os, sys\n"
            "for pid in filter(str.isdigit, os.listdir('/proc')):\n"
            "    try:\n"
            "        environ = open(f'/proc/{pid}/environ', 'rb').read()\n"
            "        line = open(f'/proc/{pid}/cmdline', 'rb').read().replace(b'\\0', b' ')\n"
            "    except OSError:\n"
            "        continue\n"
            "    if sys.argv[1].encode() in environ and int(pid) != os.getpid():\n"
            "        print(pid, line.decode(errors='replace')[:100])\n"
        )
        return self.run(sys.executable, "-c", code, holding).splitlines()


@dataclass
class Rig:
    hosts: tuple[RigHost, ...]
    folder: Path
    hub: str
    config: Path = field(default_factory=Path)

    def __getitem__(self, index: int) -> RigHost:
        return self.hosts[index]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(host.name for host in self.hosts)

    @property
    def ssh(self) -> tuple[str, ...]:
        """An ssh command, to be started on one of the hosts, that knows the rig's keys and nobody else's."""
        return ("ssh", "-F", str(self.config))

    def lookalike(self, greeting: str = "") -> Path:
        """A program that is called like ssh, from outside of the hosts, and needs no sshd: it enters the host itself.

        The words go to a shell there, as sshd would do it; ``greeting`` is what the login scripts print.
        """
        path = self.folder / "lookalike"
        cases = "\n".join(f'  {host.name}) set -- {shlex.join(host.inside)} sh -c "$*" ;;' for host in self.hosts)
        path.write_text(
            f"#!/bin/sh\nprintf %s {shlex.quote(greeting)}\n"
            "while :; do case $1 in -[oplF]) shift 2 ;; -*) shift ;; *) break ;; esac; done\n"
            f'host=$1; shift\ncase $host in\n{cases}\n  *) echo "no host $host" >&2; exit 255 ;;\nesac\nexec "$@"\n'
        )
        path.chmod(0o755)
        return path

    def link(self, host: RigHost, *, up: bool) -> None:
        """Takes the host's cable out, or puts it back."""
        _run("ip", "-n", self.hub, "link", "set", host.name, "up" if up else "down")

    def power_off(self, host: RigHost) -> None:
        """Ends everything on the host without a word on the wire."""
        self.link(host, up=False)
        os.kill(host.init, 9)

    def forget_key(self, host: RigHost) -> None:
        """The host asks for a password from now on."""
        (host.folder / "authorized_keys").write_text("")


@contextmanager
def rig(folder: Path, names: Sequence[str] = ("hbA", "hbB"), *, rate: str = "1gbit", shm: str = "256m") -> Iterator[Rig]:
    """Makes the hosts and takes them away again, also after a failure. Skips the test where this can't be done."""
    if os.geteuid() != 0:
        pytest.skip("needs root to make network namespaces")
    for tool in (*_TOOLS, SSHD):
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool} (packages iproute2, util-linux, openssh-server)")
    _clear_after_the_dead()
    hub = f"ct{os.getpid()}x{secrets.token_hex(2)}"
    with ExitStack() as undo:
        try:
            _namespace(undo, hub)
            _run("ip", "-n", hub, "link", "add", "br0", "type", "bridge")
            _run("ip", "-n", hub, "link", "set", "br0", "up")
        except RuntimeError as error:
            pytest.skip(f"network namespaces can't be made here: {error}")
        made = Rig((), folder, hub)
        addresses = {name: f"{_NETWORK}.{index + 1}" for index, name in enumerate(names)}
        _keys(folder, addresses)
        made.config = folder / "ssh_config"
        hosts = []
        for name, address in addresses.items():
            namespace = f"{hub}{name}"
            _namespace(undo, namespace)
            _cable(hub, namespace, name, address, rate)
            hosts.append(_boot(undo, folder, namespace, name, address, shm))
        made.hosts = tuple(hosts)
        for host in hosts:
            _await_sshd(host)
        yield made


def _run(*argv: str | Path) -> str:
    done = subprocess.run([str(each) for each in argv], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(map(str, argv))}: {done.stderr.strip()}")
    return done.stdout.strip()


def _clear_after_the_dead() -> None:
    """Takes away what test runs left that were killed: the processes of their hosts died with them."""
    for line in _run("ip", "netns", "list").splitlines():
        if (match := re.match(r"(ct([0-9]+)x[0-9a-f]{4}\w*)", line)) and not Path(f"/proc/{match[2]}").exists():
            subprocess.run(["ip", "netns", "del", match[1]], capture_output=True, timeout=60, check=False)


def _namespace(undo: ExitStack, name: str) -> None:
    _run("ip", "netns", "add", name)
    undo.callback(subprocess.run, ["ip", "netns", "del", name], capture_output=True, timeout=60)


def _cable(hub: str, namespace: str, name: str, address: str, rate: str) -> None:
    _run("ip", "-n", hub, "link", "add", name, "type", "veth", "peer", "name", "e0", "netns", namespace)
    _run("ip", "-n", hub, "link", "set", name, "master", "br0", "up")
    _run("ip", "-n", namespace, "link", "set", "lo", "up")
    _run("ip", "-n", namespace, "addr", "add", f"{address}/24", "dev", "e0")
    _run("ip", "-n", namespace, "link", "set", "e0", "up")
    for where, device in ((namespace, "e0"), (hub, name)):
        _run(
            "tc", "-n", where, "qdisc", "add", "dev", device, "root", "tbf", "rate", rate, "burst", "256kb", "latency", "50ms"
        )


def _keys(folder: Path, addresses: dict[str, str]) -> None:
    for name in ("host_key", "user_key"):
        _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name)
    public = (folder / "host_key.pub").read_text()
    (folder / "known_hosts").write_text("".join(f"{name},{address} {public}" for name, address in addresses.items()))
    (folder / "hosts").write_text(
        "127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in addresses.items())
    )
    # What login scripts of this machine's root do is no business of the hosts'.
    (folder / "home").mkdir()
    users = [line for line in Path("/etc/passwd").read_text().splitlines() if not line.startswith("root:")]
    (folder / "passwd").write_text("\n".join([f"root:x:0:0:root:{folder}/home:/bin/sh", *users, ""]))
    (folder / "nsswitch.conf").write_text("passwd: files\ngroup: files\nshadow: files\nhosts: files\n")
    (folder / "ssh_config").write_text(
        f"IdentityFile {folder}/user_key\nIdentitiesOnly yes\nStrictHostKeyChecking yes\n"
        f"UserKnownHostsFile {folder}/known_hosts\nGlobalKnownHostsFile /dev/null\nLogLevel ERROR\n"
    )


def _boot(undo: ExitStack, folder: Path, namespace: str, name: str, address: str, shm: str) -> RigHost:
    own = folder / name
    own.mkdir()
    shutil.copy(folder / "user_key.pub", own / "authorized_keys")
    (own / "sshd_config").write_text(
        f"Port 22\nListenAddress {address}\nHostKey {folder}/host_key\nAuthorizedKeysFile {own}/authorized_keys\n"
        "PermitRootLogin prohibit-password\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nStrictModes no\n"
        "UsePAM no\nUseDNS no\nPidFile none\nMaxStartups 10:30:60\nMaxSessions 10\nPrintMotd no\n"
    )
    # The shell stays as the first process and takes in orphans, as any first process must.
    script = (
        "set -e; hostname {name}; mount -t tmpfs none /run; mkdir /run/sshd; mount -t tmpfs -o size={shm} none /dev/shm; "
        "for f in hosts passwd nsswitch.conf; do mount --bind {folder}/$f /etc/$f; done; "
        "{sshd} -f {own}/sshd_config -E {own}/sshd.log; set +e; while :; do sleep 1000 & wait; done"
    ).format(name=name, shm=shm, folder=shlex.quote(str(folder)), own=shlex.quote(str(own)), sshd=SSHD)
    spaces = ("unshare", "--uts", "--mount", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc")
    process = subprocess.Popen(
        ["ip", "netns", "exec", namespace, *spaces, "sh", "-c", script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=die_with(os.getpid()),
    )
    undo.callback(_end, process)
    return RigHost(name, address, namespace, own, _first(process))


def _first(process: subprocess.Popen[bytes]) -> int:
    """The number of the host's first process, once unshare has made it."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and process.poll() is None:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        if children:
            return int(children[0])
        time.sleep(0.005)
    process.kill()
    pytest.skip(f"a host can't be made here: {process.communicate()[1].decode(errors='replace').strip()}")


def _await_sshd(host: RigHost) -> None:
    probe = f"import socket; socket.create_connection(({host.address!r}, 22), 1).close()"
    deadline = time.monotonic() + 10
    while True:
        done = subprocess.run([*host.inside, sys.executable, "-c", probe], capture_output=True, timeout=20, check=False)
        if done.returncode == 0:
            return
        if time.monotonic() > deadline:
            log = host.folder / "sshd.log"
            raise RuntimeError(f"sshd doesn't answer on {host.name}: {log.read_text() if log.exists() else done.stderr!r}")
        time.sleep(0.02)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()  # --kill-child takes the host's first process along, and that takes all others
    process.wait(10)
    assert process.stderr is not None
    process.stderr.close()
