"""What a user may ask of `tune alluxio` besides its knobs; the command line is made from these fields."""

from __future__ import annotations

from dataclasses import dataclass, field

from runners.mount.options import LoadOptions
from runners.options import option


@dataclass(frozen=True, slots=True)
class Options(LoadOptions):
    """Options of one `tune alluxio` run: those of every load, the mount, and how it is made anew."""

    mount: str = field(default="", metadata=option("Mount point of Alluxio's FUSE process on this host.", "DIR"))
    alluxio_version: str = field(
        default="", metadata=option("The version that runs: 3.6, 2.9.5, oss-3; as its files tell, if none.", "VERSION")
    )
    site_file: str = field(
        default="", metadata=option("The alluxio-site.properties that the FUSE process reads; found, if none.", "FILE")
    )
    remount_cmd: str = field(
        default="",
        metadata=option(
            "Command that restarts the FUSE process, as words and not for a shell; alluxio-fuse mount and unmount, if none.",
            "COMMAND",
        ),
    )
    source: str = field(
        default="",
        metadata=option("What is mounted: an Alluxio path (2.x) or a store's address (3.x); as it is now, if none.", "WHAT"),
    )
    remount_time: str = field(default="60s", metadata=option("How long a remount may take.", "DURATION"))
    tune_mount: bool = field(default=False, metadata=option("Also search mount options of FUSE (page cache, requests)."))
