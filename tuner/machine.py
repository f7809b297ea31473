"""The fingerprint of a machine: what a recommendation holds for, and what else was going on."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path

from runners.runner import Json


def identity(proc: Path = Path("/proc")) -> dict[str, Json]:
    """What makes numbers comparable; a change of any of it makes an old study's numbers another machine's."""
    return {
        "host": platform.node(),
        "architecture": platform.machine(),
        "kernel": platform.release(),
        "cpu": _cpu_model(proc),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_gib": _memory_gib(proc),
    }


def moment() -> dict[str, Json]:
    """Readings of now: they explain noise, they do not identify."""
    one, five, _ = os.getloadavg()
    return {"load_1m": round(one, 2), "load_5m": round(five, 2), "python": platform.python_version()}


def differences(then: Mapping[str, Json], now: Mapping[str, Json]) -> list[str]:
    """Sentences for every identifying fact that changed."""
    return [
        f"{name} was {then.get(name)!r} and is {now.get(name)!r}"
        for name in sorted({*then, *now})
        if then.get(name) != now.get(name)
    ]


def _cpu_model(proc: Path) -> str:
    try:
        for line in (proc / "cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "Processor", "cpu"):
                return value.strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def _memory_gib(proc: Path) -> int:
    try:
        for line in (proc / "meminfo").read_text().splitlines():
            if line.startswith("MemTotal:"):
                return round(int(line.split()[1]) / 2**20)
    except (OSError, ValueError, IndexError):
        pass
    return 0
