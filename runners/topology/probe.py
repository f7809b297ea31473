"""Reads, on a host, where its CPUs and memory are: a plain record for JSON, with lists as Linux writes them.

Sent to hosts as text and run by the Python that is there, 3.7 or newer: standard library only, nothing of ours imported.
Sources: Documentation/admin-guide/cputopology.rst, numastat and cgroup-v1/v2 of the Linux kernel.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

SCHEMA = 1
# Flags that a dtype of CPU inference may need; all others stay out of the record.
_FLAG = re.compile(r"avx2|avx512\w*|avx512_\w+|amx_\w+|f16c|fma|avx_vnni|sve\w*|asimd\w*|bf16|i8mm|hypervisor")
_NO_LIMIT = 1 << 60  # cgroup v1 writes "no limit" as the largest page-aligned number


def read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except (OSError, ValueError):
        return ""


def entries(path: str) -> list[str]:
    try:
        return sorted(entry.name for entry in Path(path).iterdir())
    except OSError:
        return []


def numbered(path: str, word: str) -> list[int]:
    """The numbers of entries called ``word`` and a number, in their order as numbers."""
    found = [re.fullmatch(word + r"([0-9]{1,6})", name) for name in entries(path)]
    return sorted(int(match.group(1)) for match in found if match)


def integer(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,19}", text) else None


def members(text: str) -> list[int]:
    """The numbers of a list like 0-3,8; [] for what is none."""
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,6})(?:-([0-9]{1,6}))?\s*", part)
        if match:
            found.extend(range(int(match.group(1)), int(match.group(2) or match.group(1)) + 1))
    return sorted(set(found))


def listed(numbers: list[int]) -> str:
    """0,1,2,5 as 0-2,5."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def cores(root: str, online: list[int]) -> list[dict[str, Any]]:
    """Each core with its CPUs that are online; a core's number alone says nothing: it is repeated and sparse."""
    base = root + "/sys/devices/system/cpu"
    found: dict[str, dict[str, Any]] = {}
    alive = set(online)
    for cpu in online:
        folder = f"{base}/cpu{cpu}/topology"
        siblings = [one for one in members(read(folder + "/thread_siblings_list")) if one in alive] or [cpu]
        if cpu not in siblings:
            siblings = [cpu]
        package = re.fullmatch(r"-?[0-9]{1,9}", read(folder + "/physical_package_id"))
        # Virtual machines may say -1: one socket then.
        socket = max(0, int(package.group())) if package else 0
        found.setdefault(listed(siblings), {"cpus": listed(siblings), "socket": socket})
    return list(found.values())


def meminfo(text: str) -> tuple[int, int]:
    """Bytes of a node's memory, and those that can be had now: file pages are given back."""
    kib = {name: int(value) for name, value in re.findall(r"Node +\d+ +([\w()]+): +(\d{1,18}) kB", text)}
    total = kib.get("MemTotal", 0)
    free = kib.get("MemFree", 0) + kib.get("Active(file)", 0) + kib.get("Inactive(file)", 0) + kib.get("SReclaimable", 0)
    return total * 1024, min(total, free) * 1024


def nodes(root: str, online: list[int]) -> list[dict[str, Any]]:
    base = root + "/sys/devices/system/node"
    numbers = numbered(base, "node")
    named = members(read(base + "/online"))
    alive = [number for number in numbers if not named or number in named]
    running = set(online)
    with_memory = members(read(base + "/has_memory")) or alive
    found = []
    for number in alive:
        folder = f"{base}/node{number}"
        row = [integer(word) for word in read(folder + "/distance").split()]
        distances = {str(other): value for other, value in zip(alive, row) if value is not None}  # noqa: B905  3.7
        total, free = meminfo(read(folder + "/meminfo")) if number in with_memory else (0, 0)
        cpus = [cpu for cpu in members(read(folder + "/cpulist")) if cpu in running]
        found.append({"node": number, "cpus": listed(cpus), "memory": total, "free": free, "distances": distances})
    match = re.search(r"^MemTotal:\s+(\d{1,18}) kB", read(root + "/proc/meminfo"), re.MULTILINE)
    total = int(match.group(1)) * 1024 if match else 0
    if not found:  # a kernel without NUMA has no such folder
        able = re.search(r"^MemAvailable:\s+(\d{1,18}) kB", read(root + "/proc/meminfo"), re.MULTILINE)
        free = int(able.group(1)) * 1024 if able else total
        found.append({"node": 0, "cpus": listed(online), "memory": total, "free": free, "distances": {"0": 10}})
    holding = [each for each in found if each["memory"]]
    if len(holding) == 1 and total:
        # The same memory: but where a virtual machine is given it bit by bit the node's own figure moves.
        holding[0]["memory"] = total
    return found


def groups(root: str) -> dict[str, list[str]]:
    """Folders of this process's control groups by controller ("" is version 2), its own first, then those that enclose it.

    In a container the name may be the host's while the mount shows our part only; then just the root of the mount is there.
    """
    base = root + "/sys/fs/cgroup"
    found: dict[str, list[str]] = {}
    for line in read(root + "/proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        parts = [part for part in path.split("/") if part not in ("", "..")]
        if number == "0" and not names:
            tops = [base, base + "/unified"]
            names = ""
        else:
            tops = [f"{base}/{names}", *(f"{base}/{name}" for name in names.split(","))]
        for top in tops:
            chain = ["/".join([top, *parts[:count]]) for count in range(len(parts), -1, -1)]
            for name in names.split(","):
                found.setdefault(name, []).extend(folder for folder in chain if Path(folder).is_dir())
    if not found and Path(base).is_dir():
        found[""] = [base]
    return found


def quota(folders: dict[str, list[str]]) -> float | None:
    """CPUs' worth of time that control groups allow, the least of all; None without a limit."""
    limits = []
    for folder in folders.get("", []):
        match = re.fullmatch(r"([0-9]{1,18}) ([0-9]{1,18})", read(folder + "/cpu.max"))
        if match and int(match.group(2)):
            limits.append(int(match.group(1)) / int(match.group(2)))
    for folder in folders.get("cpu", []):
        told, period = integer(read(folder + "/cpu.cfs_quota_us")), integer(read(folder + "/cpu.cfs_period_us"))
        if told and period:  # -1 is no limit
            limits.append(told / period)
    return round(min(limits), 3) if limits else None


def memory_limit(folders: dict[str, list[str]]) -> int | None:
    """Bytes that control groups allow, the least of all; None without a limit."""
    told = [integer(read(folder + "/memory.max")) for folder in folders.get("", [])]
    told += [integer(read(folder + "/memory.limit_in_bytes")) for folder in folders.get("memory", [])]
    limits = [limit for limit in told if limit is not None and limit < _NO_LIMIT]
    return min(limits) if limits else None


def allowed(root: str, folders: dict[str, list[str]], online: list[int]) -> tuple[list[int], list[int] | None]:
    """CPUs and memory nodes that this process may use: its affinity mask within its cpuset. No nodes named: None."""
    status = read(root + "/proc/self/status")
    mask = re.search(r"^Cpus_allowed_list:\s*([0-9,-]+)", status, re.MULTILINE)
    cpus = set(members(mask.group(1))) if mask else set(online)
    if not root and hasattr(os, "sched_getaffinity"):
        cpus = set(os.sched_getaffinity(0))
    mems = re.search(r"^Mems_allowed_list:\s*([0-9,-]+)", status, re.MULTILINE)
    memory = set(members(mems.group(1))) if mems else None
    sets = [(folder, ".effective") for folder in folders.get("", [])]
    sets += [(folder, "") for folder in folders.get("cpuset", [])]
    for folder, ending in sets:
        inside = members(read(folder + "/cpuset.cpus" + ending)) or members(read(folder + "/cpuset.effective_cpus"))
        if inside:
            cpus &= set(inside)
        near = members(read(folder + "/cpuset.mems" + ending)) or members(read(folder + "/cpuset.effective_mems"))
        if near:
            memory = set(near) if memory is None else memory & set(near)
    return sorted(cpus & set(online)), None if memory is None else sorted(memory)


def processor(root: str) -> dict[str, Any]:
    info = read(root + "/proc/cpuinfo")

    def field(name: str) -> str:
        match = re.search(rf"^{name}\s*:\s*(.+)$", info, re.MULTILINE)
        return match.group(1).strip() if match else ""

    flags = (field("flags") or field("Features")).split()
    return {
        "vendor": field("vendor_id"),
        "model": field("model name"),
        "family": integer(field("cpu family")),
        "number": integer(field("model")),
        "flags": sorted({flag for flag in flags if _FLAG.fullmatch(flag)}),
    }


def gather(root: str = "") -> dict[str, Any]:
    """The record of the host whose /sys and /proc are below ``root``."""
    base = root + "/sys/devices/system/cpu"
    present = numbered(base, "cpu")
    online = members(read(base + "/online")) or present
    folders = groups(root)
    cpus, memory = allowed(root, folders, online)
    return {
        "schema": SCHEMA,
        "hostname": read(root + "/proc/sys/kernel/hostname") or os.uname().nodename,
        "kernel": read(root + "/proc/sys/kernel/osrelease") or os.uname().release,
        "machine": os.uname().machine,
        "processor": processor(root),
        "online": listed(online),
        "offline": read(base + "/offline"),
        "isolated": read(base + "/isolated"),
        "slow": read(root + "/sys/devices/cpu_atom/cpus"),
        "cores": cores(root, online),
        "nodes": nodes(root, online),
        "allowed_cpus": listed(cpus),
        "allowed_nodes": None if memory is None else listed(memory),
        "quota": quota(folders),
        "memory_limit": memory_limit(folders),
    }


def main() -> None:
    """Prints the record of this host, or answers each line of JSON ({"root": ...}) with one."""
    if len(sys.argv) > 1 and sys.argv[1] == "--serve":
        for line in sys.stdin:
            sys.stdout.write(json.dumps(gather(json.loads(line).get("root", ""))) + "\n")
            sys.stdout.flush()
    else:
        sys.stdout.write(json.dumps(gather(), indent=1) + "\n")


if __name__ == "__main__":
    main()
