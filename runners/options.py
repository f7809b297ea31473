"""How a runner's option says what the command line shows for it."""

from __future__ import annotations


def option(help: str, metavar: str = "") -> dict[str, str]:
    """Metadata of a dataclass field that becomes a command-line option: ``field(default=1, metadata=option("…", "N"))``."""
    return {"help": help, "metavar": metavar}
