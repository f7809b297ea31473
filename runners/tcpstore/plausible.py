"""How often a job of a size is started for one measurement, and what shows that a measurement is not of what was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runners.tcpstore.figures import Start
from spaces.space import Config


def starts_of(world_size: int, *, emulated: bool) -> int:
    if emulated:
        return 3 if world_size <= 1024 else 1
    return 5 if world_size <= 32 else 3 if world_size <= 128 else 1


def doubt(config: Config, starts: Sequence[Start], servers: Sequence[dict[str, Any]]) -> str:
    """What shows that a measurement is not one of what was asked for; "" when nothing does."""
    for server in servers:
        seen = "libuv" if server["libuv"] else "legacy"
        thread = "pt_tcpstore_uv" in server["threads"]
        if seen != config["backend"]:
            return f"the {config['backend']} server was asked for and rank 0 has the {seen} one"
        if any(name.startswith("pt_tcpstore") for name in server["threads"]) and thread is not server["libuv"]:
            return "the server's own thread is not the one of the server that it says it is"
    return next((each.early for each in starts if each.early), "")
