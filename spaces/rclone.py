"""rclone mount: how a remote's files are fetched ahead of who reads them.

Sources: rclone's documentation of mount and vfs (--vfs-read-chunk-streams since 1.68), its source (vfs/read.go,
fs/chunkedreader), and the kernel's fs/fuse/inode.c for the read-ahead that a mount gets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from spaces import background
from spaces.space import Config, Domain, Knob, Rule, Space, flag, log2, off_or_log2
from spaces.units import format_size, rough_size

SUMMARY = "rclone mount: parallel streams, chunks and buffers of files that are read from a remote."

_MIB = 1 << 20
# What the kernel gives every FUSE mount by itself; more takes root and a line in sysfs.
GRANTED = 128 << 10
# The first with --vfs-read-chunk-streams.
OLDEST = (1, 68)

SPACE = Space(
    knobs=(
        Knob(
            "vfs_read_chunk_streams",
            # One stream alone fetches a chunk, waits, and fetches the next: the worst of both.
            Domain("log2", (0, *log2(2, 32).values)),
            0,
            "Chunks of an open file that are fetched at once; 0 reads one stream, however long.",
            "rclone mount, --vfs-read-chunk-streams",
            unit="count",
            lowest=0,
            limit=1024,
        ),
        Knob(
            "vfs_read_chunk_size",
            log2(_MIB, 128 * _MIB),
            128 * _MIB,
            "Bytes that one request to the remote asks for.",
            "rclone mount, --vfs-read-chunk-size",
            unit="bytes",
            limit=1 << 40,
        ),
        Knob(
            "buffer_size",
            off_or_log2(_MIB, 64 * _MIB),
            16 * _MIB,
            "Bytes of each open file that are read ahead into memory.",
            "rclone global flags, --buffer-size",
            unit="bytes",
            lowest=0,
            limit=1 << 40,
        ),
        Knob(
            "max_read_ahead",
            log2(32 << 10, 8 * _MIB),
            GRANTED,
            "Bytes that the kernel reads ahead on the mount; beyond 128K only with --system.",
            "rclone mount, --max-read-ahead; fs/fuse/inode.c",
            unit="bytes",
        ),
        background.max_background("the kernel's own 12, as rclone does", "fs/fuse/inode.c (FUSE_DEFAULT_MAX_BACKGROUND)"),
        Knob(
            "async_read",
            flag(),
            True,
            "Whether the kernel may ask for several parts of a file at once.",
            "rclone mount, --async-read",
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Limits:
    """This machine and load: bytes that a setting may hold with ``open_files`` open, and what can't be had here.

    ``largest`` is the size of the largest file that is read, None where it is not known. ``system`` and ``fusectl``: whether
    the kernel's side of a mount may be changed, and whether its limit of requests can be.
    """

    open_files: int
    memory: int
    largest: int | None = None
    system: bool = False
    fusectl: bool = True


def held(config: Config, open_files: int, largest: int | None = None) -> int:
    """Bytes that rclone can hold for ``open_files`` at once: their chunks under way and their buffers."""
    streams, chunk, buffer = (int(config[name]) for name in ("vfs_read_chunk_streams", "vfs_read_chunk_size", "buffer_size"))
    each = streams * chunk + buffer
    return open_files * (min(each, largest + buffer) if largest is not None else each)


def cost(config: Config) -> float:
    """What a setting takes from the machine, for ties: memory of an open file in MiB, then connections and requests."""
    unlike = sum(config[knob.name] != knob.default for knob in SPACE.knobs)
    requests = int(config["max_background"]) / 1024
    return held(config, 1) / _MIB + int(config["vfs_read_chunk_streams"]) + requests + 0.1 * unlike


def for_machine(space: Space, limits: Limits) -> Space:
    """``space`` (narrowed or not) with the rules of ``limits`` and what is the same in effect folded."""

    def fits(config: Config) -> str | None:
        need = held(config, limits.open_files, limits.largest)
        if need <= limits.memory:
            return None
        return (
            f"{limits.open_files} open files with {config['vfs_read_chunk_streams']} streams of "
            f"{format_size(int(config['vfs_read_chunk_size']))} and {format_size(int(config['buffer_size']))} of buffer can "
            f"hold {rough_size(need)}, and {rough_size(limits.memory)} are allowed (--memory)"
        )

    def granted(config: Config) -> str | None:
        if limits.system or int(config["max_read_ahead"]) <= GRANTED:
            return None
        return "the kernel reads no more than 128K ahead on a mount unless root raises it: --system"

    def limited(config: Config) -> str | None:
        return background.broken(config, system=limits.system, fusectl=limits.fusectl)

    def canonical(config: Config) -> Config:
        if not config["async_read"] and 0 in space["max_background"].domain.values:
            # Read-ahead then waits for each of its requests: none is in the background.
            config = {**config, "max_background": 0}
        if limits.largest is None:
            return config
        chunk, streams = int(config["vfs_read_chunk_size"]), int(config["vfs_read_chunk_streams"])
        if streams == 0:
            # One request for the whole file, whatever more it might have asked for.
            knob = space["vfs_read_chunk_size"]
            usual = int(knob.default) if knob.default in knob.domain.values else 0
            whole = usual if usual >= limits.largest else _least(knob, limits.largest)
            return {**config, "vfs_read_chunk_size": whole} if whole and chunk >= limits.largest else config
        # A chunk beyond the end of the file is cut to it, and no more streams start than the file has chunks.
        chunk = _least(space["vfs_read_chunk_size"], min(chunk, limits.largest)) or chunk
        streams = _least(space["vfs_read_chunk_streams"], min(streams, -(-limits.largest // chunk))) or streams
        return {**config, "vfs_read_chunk_size": chunk, "vfs_read_chunk_streams": streams}

    rules = (
        Rule("what it can hold fits the memory", fits),
        Rule("the kernel grants the read-ahead", granted),
        Rule("the kernel's limit of requests can be set", limited),
    )
    space = space if limits.system else background.left_alone(space)
    return replace(space, rules=rules, canonical=canonical, cost=cost)


def _least(knob: Knob, wanted: int) -> int | None:
    """The smallest value of ``knob`` that is at least ``wanted``, above 0."""
    return next((int(value) for value in knob.domain.values if int(value) >= max(1, wanted)), None)


SPACE = replace(SPACE, cost=cost)
