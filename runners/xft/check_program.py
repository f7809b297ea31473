"""Tells, on a host, what xFT and numactl would meet there; nothing of xFT is imported, as that kills the process on some CPUs.

Sent to the host as text and run by the Python that is there, 3.7 or newer: standard library only, nothing of ours imported.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

_PATIENCE = 20


def numactl(node: int) -> dict[str, Any]:
    """Where numactl is, and what it says when it is to bind memory to ``node``: containers often forbid that."""
    path = shutil.which("numactl")
    if path is None:
        return {"path": "", "binds": False, "said": ""}
    try:
        done = subprocess.run(
            [path, "-m", str(node), "true"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PATIENCE,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"path": path, "binds": False, "said": str(error)[:300]}
    return {"path": path, "binds": done.returncode == 0, "said": done.stdout.decode(errors="replace").strip()[:300]}


def distribution(name: str) -> tuple[str, list[str]]:
    """Version and requirements of an installed package, by its METADATA; "" where there is none."""
    try:
        from importlib import metadata
    except ImportError:
        return "", []
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return "", []
    return found.version, list(found.requires or [])


def xft() -> dict[str, Any]:
    try:
        spec = importlib.util.find_spec("xfastertransformer")
    except (ImportError, ValueError):
        spec = None
    places = list(spec.submodule_search_locations or []) if spec else []
    version, needs = distribution("xfastertransformer")
    torch, _ = distribution("torch")
    files = sorted(entry.name for place in places for entry in Path(place).glob("*.so*"))
    return {"place": places[0] if places else "", "version": version, "requires": needs, "torch": torch, "files": files}


def libraries(names: list[str]) -> dict[str, bool]:
    """Which of these the loader of this host knows, or this Python's own lib folder has."""
    try:
        done = subprocess.run(["ldconfig", "-p"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              timeout=_PATIENCE)  # fmt: skip
        known = set(re.findall(r"^\s*(\S+) \(", done.stdout.decode(errors="replace"), re.MULTILINE))
    except (OSError, subprocess.TimeoutExpired):
        known = set()
    return {name: name in known or (Path(sys.prefix) / "lib" / name).exists() for name in names}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        thp = Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text()
    except OSError:
        thp = ""
    mode = re.search(r"\[(\w+)\]", thp)
    return {
        "numactl": numactl(int(request["node"])),
        "xft": xft(),
        "libraries": libraries(["libnuma.so.1", "libccl.so.1", "libmpi.so.12"]),
        "huge_pages": mode.group(1) if mode else "",
    }


def main() -> None:
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
