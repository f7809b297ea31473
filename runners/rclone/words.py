"""A setting as rclone's options, and the remote as a user may name it: no secret gets into a study."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runners.runner import UsageError
from spaces.rclone import SPACE
from spaces.space import Config, Value
from spaces.units import format_size

# Where vfs/stats and options/get tell a knob's live value: section and name.
LIVE = {
    "vfs_read_chunk_streams": ("vfs", "ChunkStreams"),
    "vfs_read_chunk_size": ("vfs", "ChunkSize"),
    "buffer_size": ("main", "BufferSize"),
    "max_read_ahead": ("mount", "MaxReadAhead"),
    "async_read": ("mount", "AsyncRead"),
}
# Variables of options that decide how a mount reads, or that would take it away from us. Those of remotes stay.
_MEASURED = (
    *("RCLONE_VFS_", "RCLONE_RC", "RCLONE_DAEMON", "RCLONE_CACHE_DIR", "RCLONE_LOG_", "RCLONE_READ_ONLY"),
    *("RCLONE_DIRECT_IO", "RCLONE_USE_MMAP", "RCLONE_BUFFER_SIZE", "RCLONE_MAX_READ_AHEAD", "RCLONE_ASYNC_READ"),
    *("RCLONE_MAX_BUFFER_MEMORY",),
)
_SECRET = re.compile(r"pass|secret|key|token|credential|auth|sas_url|bearer|cookie", re.IGNORECASE)
# A password before an address's host, or a signature after its path.
_IN_ADDRESS = re.compile(r"://[^/@:]*:[^@]*@|[?&][^=&]*(?:pass|secret|key|token|sig|auth)[^=&]*=", re.IGNORECASE)


def flags(config: Config) -> list[str]:
    """``config`` as options of rclone mount; what only the kernel has is none."""
    return [f"--{name.replace('_', '-')}={spelled(config[name], SPACE[name].unit)}" for name in config if name in LIVE]


def spelled(value: Value, unit: str) -> str:
    """A knob's value as every version of rclone reads it: to rclone a size without a unit is KiB."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if unit != "bytes" or not value:
        return str(value)
    return f"{value}B" if int(value) % 1024 else format_size(int(value))


def differences(config: Config, live: Mapping[str, Any]) -> list[str]:
    """Sentences for what a mount does otherwise than it was told; ``live`` is by section, as options/get gives it."""
    found = []
    for name, (section, key) in LIVE.items():
        value = config[name]
        now = (live.get(section) or {}).get(key)
        if now != value or isinstance(now, bool) != isinstance(value, bool):
            found.append(f"--{name.replace('_', '-')} was set to {value} and is {now!r}")
    return found


def check_remote(remote: str) -> str:
    """``remote`` if it can be mounted and shown. Raises UsageError.

    A connection string may hold a secret, and what a user asks for is kept with the study: secrets belong into rclone.conf.
    """
    if not remote:
        raise UsageError("remote", "''", "must name what is mounted, like store:bucket/folder")
    if remote.startswith("-") or "\0" in remote or "\n" in remote:
        raise UsageError("remote", remote, "is no remote")
    if ":" not in remote and not Path(remote).is_dir():
        raise UsageError("remote", remote, "must be REMOTE:PATH, or a folder that exists")
    head = connection(remote)
    if any(_SECRET.search(part.partition("=")[0]) for part in head.split(",")[1:]) or _IN_ADDRESS.search(head):
        raise UsageError(
            "remote", f"{head.split(',')[0]},…", "names a secret, which would stay in the study: write it into rclone.conf"
        )
    return remote


def absolute(remote: str) -> str:
    """``remote`` with a folder of this machine named from the root: the mount program does not run in the user's folder."""
    return remote if connection(remote) else str(Path(remote).absolute())


def connection(remote: str) -> str:
    """What stands before the path: ``store`` of ``store:x``, ``:s3,provider=Other`` of ``:s3,provider=Other:x``."""
    quote = ""
    for place, letter in enumerate(remote):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter == ":" and place > 0:
            return remote[:place]
    return ""


def left_out(environ: Mapping[str, str]) -> list[str]:
    """Names of variables that a mount of ours must not see."""
    return sorted(name for name in environ if name.startswith(_MEASURED))


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` as a mount of ours gets it."""
    own = {name: value for name, value in environ.items() if not name.startswith(_MEASURED)}
    # What was cached is noted when a file is let go. Newer versions put that off for seconds: a mount that ends loses it.
    return {**own, "RCLONE_VFS_HANDLE_CACHING": "0s"}
