"""Tells, on a host, what ranks find there: network, CPUs and memory, and which engines its Python has.

Sent to the host as text, with the probes that it asks, and run by the Python that is there, 3.7 or newer.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

from runners.hosts import probe
from runners.topology import probe as cpus

# Package by the name that it is imported by.
_ENGINES = {"torch": "torch", "xfastertransformer": "xfastertransformer", "vllm": "vllm"}


def engines() -> dict[str, str]:
    """Versions of what this Python has, by metadata alone: importing takes seconds, or kills the process."""
    found = {}
    for module in _ENGINES:
        try:
            spec = importlib.util.find_spec(module)
        except (ImportError, ValueError):
            continue
        if spec is not None:
            found[module] = version(module)
    return found


def version(module: str) -> str:
    try:
        from importlib import metadata
    except ImportError:
        return "?"
    for name in (module, module + "-cpu"):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return "?"


def libraries(names: list[str]) -> dict[str, str]:
    """Paths of libraries in this Python's own folders, by their names."""
    folders = [Path(sys.prefix) / "lib", *(Path(each) for each in sys.path if each.endswith("site-packages"))]
    spec = importlib.util.find_spec("xfastertransformer") if "xfastertransformer" in engines() else None
    folders += [Path(each) for each in (spec.submodule_search_locations or [])] if spec else []
    found = {}
    for name in names:
        path = next((folder / name for folder in folders if (folder / name).exists()), None)
        if path is not None:
            found[name] = str(path)
    return found


def answer(request: dict[str, Any]) -> dict[str, Any]:
    facts = probe.facts({"names": request["names"]})
    wanted = ("node", "interfaces", "address", "caller", "resolved", "shm", "rdma")
    return {
        "network": {name: facts[name] for name in wanted},
        "topology": cpus.gather(),
        "engines": engines(),
        "libraries": libraries(["libiomp5.so"]),
        "there": [path for path in request["paths"] if Path(path).exists()],
        "python": facts["python"],
    }


def main() -> None:
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
