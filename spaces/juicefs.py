"""JuiceFS mount: how far files are read ahead, into how much memory, over how many downloads.

Sources: JuiceFS' documentation of `juicefs mount`, its source (cmd/mount.go, pkg/vfs/reader.go,
pkg/chunk/cached_store.go), and the kernel's fs/fuse/inode.c for the read-ahead that a mount gets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from spaces import background
from spaces.space import Config, Domain, Knob, Rule, Space, log2, off_or_log2
from spaces.units import format_size, rough_size

SUMMARY = "JuiceFS mount: read-ahead, buffer, prefetch and downloads of files that are read from an object store."

_MIB = 1 << 20
# What the kernel gives every FUSE mount by itself; more takes root and a line in sysfs.
GRANTED = 128 << 10
# Of the buffer, what read-ahead may fill (pkg/vfs/reader.go); reads wait only at twice the buffer.
_FOR_READING, _OVERFLOW = 0.8, 2

SPACE = Space(
    knobs=(
        Knob(
            "max_readahead",
            off_or_log2(4 * _MIB, 128 * _MIB),
            32 * _MIB,
            "Bytes of each open file that are read ahead at most; 0 reads nothing ahead.",
            "juicefs mount, --max-readahead (by default 8 blocks)",
            unit="bytes",
            lowest=0,
            limit=1 << 40,
        ),
        Knob(
            "buffer_size",
            Domain("log2", tuple(size * _MIB for size in (64, 128, 300, 512, 1024))),
            300 * _MIB,
            "Memory for reading and writing, of all files together.",
            "juicefs mount, --buffer-size",
            unit="bytes",
            lowest=32 * _MIB,
            limit=1 << 40,
        ),
        Knob(
            "prefetch",
            off_or_log2(1, 8),
            1,
            "Whole blocks that are fetched at once beside a random read of a part of them; 0 fetches none.",
            "juicefs mount, --prefetch",
            unit="count",
            lowest=0,
            limit=1024,
        ),
        Knob(
            "max_downloads",
            Domain("log2", (4, 16, 64, 200, 400)),
            200,
            "Connections to the store that download at once.",
            "juicefs mount, --max-downloads",
            unit="count",
            limit=10_000,
        ),
        Knob(
            "kernel_read_ahead",
            log2(GRANTED, 8 * _MIB),
            GRANTED,
            "Bytes that the kernel reads ahead on the mount; beyond 128K only with --system.",
            "fs/fuse/inode.c; /sys/class/bdi/*/read_ahead_kb",
            unit="bytes",
            lowest=GRANTED,
        ),
        background.max_background("the 50 that JuiceFS asks for", "pkg/fuse/fuse.go (MaxBackground)"),
    ),
)


@dataclass(frozen=True, slots=True)
class Limits:
    """This machine and load: bytes that the mount may hold, of which ``cache`` go to a cache in memory.

    ``largest`` is the size of the largest file that is read, None where it is not known. ``system`` and ``fusectl``: whether
    the kernel's side of a mount may be changed, and whether its limit of requests can be.
    """

    memory: int
    cache: int = 0
    largest: int | None = None
    system: bool = False
    fusectl: bool = True


def held(config: Config, cache: int = 0) -> int:
    """Bytes that JuiceFS can hold: it lets reads overflow its buffer up to twice its size."""
    return _OVERFLOW * int(config["buffer_size"]) + cache


def cost(config: Config) -> float:
    """What a setting takes from the machine, for ties: buffer in MiB, then connections, then what is unlike the defaults."""
    unlike = sum(config[knob.name] != knob.default for knob in SPACE.knobs)
    return (
        int(config["buffer_size"]) / _MIB
        + 0.1 * int(config["max_downloads"])
        + int(config["max_readahead"]) / _MIB / 8
        + int(config["max_background"]) / 1024
        + unlike
    )


def _broken_window(config: Config) -> str | None:
    ahead, room = int(config["max_readahead"]), int(_FOR_READING * int(config["buffer_size"]))
    if ahead <= room:
        return None
    return (
        f"max_readahead {format_size(ahead)} does not fit into the {round(100 * _FOR_READING)} % of buffer_size "
        f"{format_size(int(config['buffer_size']))} that reading ahead may fill: JuiceFS cuts it"
    )


def for_machine(space: Space, limits: Limits) -> Space:
    """``space`` (narrowed or not) with the rules of ``limits`` and what is the same in effect folded."""

    def fits(config: Config) -> str | None:
        need = held(config, limits.cache)
        if need <= limits.memory:
            return None
        cache = f" and a cache of {format_size(limits.cache)}" if limits.cache else ""
        return (
            f"a buffer of {format_size(int(config['buffer_size']))}, which reads may overflow to twice that,{cache} can hold "
            f"{rough_size(need)}, and {rough_size(limits.memory)} are allowed (--memory)"
        )

    def granted(config: Config) -> str | None:
        if limits.system or int(config["kernel_read_ahead"]) <= GRANTED:
            return None
        return "the kernel reads no more than 128K ahead on a mount unless root raises it: --system"

    def limited(config: Config) -> str | None:
        return background.broken(config, system=limits.system, fusectl=limits.fusectl)

    def canonical(config: Config) -> Config:
        ahead = int(config["max_readahead"])
        values = [int(value) for value in space["max_readahead"].domain.values]
        whole = next((v for v in values if limits.largest is not None and v >= max(1, limits.largest)), None)
        return config if whole is None or ahead <= whole else {**config, "max_readahead": whole}

    rules = (
        Rule("the buffer fits the memory", fits),
        Rule("the window fits the buffer", _broken_window),
        Rule("the kernel grants the read-ahead", granted),
        Rule("the kernel's limit of requests can be set", limited),
    )
    space = space if limits.system else background.left_alone(space)
    return replace(space, rules=rules, canonical=canonical, cost=cost)


SPACE = replace(SPACE, rules=(Rule("the window fits the buffer", _broken_window),), cost=cost)
