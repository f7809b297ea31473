"""Tells, on a host, what oneCCL finds there: the library, libfabric's providers, cores, interfaces, memory.

Sent to the host as text, with runners.hosts.probe, and run by the Python that is there, 3.7 or newer: standard library only.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from runners.hosts import probe

_LOAD = (
    "import ctypes,os,sys\n"
    "os.environ['CCL_PLUGIN']=sys.argv[2]\n"
    "api=ctypes.CDLL(sys.argv[1],mode=ctypes.RTLD_GLOBAL)\n"
    "n=ctypes.c_int()\n"
    "r=api.onecclGetVersion(ctypes.byref(n))\n"
    "print('loaded',r,n.value)\n"
    "sys.stdout.flush()\n"
    "os._exit(0)\n"
)
_PATIENCE = 30


def child(words: list[str], env: dict[str, str]) -> str:
    """What a program prints, errors too; or why it doesn't."""
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(os.environ, **env),
            timeout=_PATIENCE,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {_PATIENCE} s"
    except OSError as error:
        return f"can't be started: {error.strerror}"
    said = done.stdout.decode(errors="replace")
    return said if done.returncode >= 0 else f"{said}\nended by signal {-done.returncode}"


def library(request: dict[str, Any]) -> dict[str, str]:
    """``version``, or ``error``: loading happens in a child, where a crash is an answer."""
    path = request["library"]
    if not Path(path).exists():
        return {"error": "there is no such file"}
    said = child([sys.executable, "-c", _LOAD, path, request["env"]["CCL_PLUGIN"]], request["env"])
    match = re.search(r"loaded 0 (\d+)", said)
    if match is None:
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        return {"error": lines[-1][:300] if lines else "it ended without a word"}
    number = int(match.group(1))
    return {"version": f"{number // 10000}.{number // 100 % 100}"}


def providers(request: dict[str, Any]) -> list[str] | None:
    """Names of the providers that fi_info finds something for; None where there is no fi_info."""
    for path in request["fi_info"]:
        if Path(path).exists():
            said = child([path], request["env"])
            found = re.findall(r"^provider:\s*(\S+)", said, re.MULTILINE)
            # "tcp;ofi_rxm" is tcp below another layer.
            return sorted({name for each in found for name in [each, *each.split(";")[:1]]})
    return None


def free_memory() -> int:
    match = re.search(r"^MemAvailable:\s+(\d+) kB", probe.read("/proc/meminfo"), re.MULTILINE)
    return int(match.group(1)) * 1024 if match else 0


def answer(request: dict[str, Any]) -> dict[str, Any]:
    facts = probe.facts({"names": request["names"]})
    return {
        "node": facts["node"],
        "cpus": sorted(os.sched_getaffinity(0)),
        "numa": facts["processor"]["numa"],
        "memory": free_memory(),
        "shm": facts["shm"],
        "memlock": facts["memlock"],
        "interfaces": facts["interfaces"],
        "address": facts["address"],
        "caller": facts["caller"],
        "resolved": facts["resolved"],
        "rdma": facts["rdma"],
        "library": library(request),
        "providers": providers(request),
    }


def main() -> None:
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
