"""Run as a job's only rank: makes the store as init_process_group does and prints which server answers it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path


def main(url: str) -> None:
    """Prints {"server": "libuv" | "legacy" | ""}: the server's own thread says it, in this process or in torchrun's agent.

    What a client's store object says of itself is what it was told, not what its server is.
    """
    from torch.distributed.rendezvous import rendezvous

    store, _, _ = next(rendezvous(url))
    server = _server(os.getpid()) or _server(os.getppid())
    store.set("probe", "1")
    print(json.dumps({"server": server}), flush=True)  # noqa: T201


def _server(pid: int) -> str:
    names = {(task / "comm").read_text().strip() for task in Path(f"/proc/{pid}/task").iterdir()}
    return "libuv" if "pt_tcpstore_uv" in names else "legacy" if "pt_tcpstore" in names else ""


if __name__ == "__main__":
    main(sys.argv[1])
