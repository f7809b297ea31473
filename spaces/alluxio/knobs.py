"""The knobs of reads through Alluxio's FUSE mount, and the properties and mount options that they stand for."""

from __future__ import annotations

from collections.abc import Mapping

from spaces.alluxio.keys import BY_NAME, PREFETCH, Key
from spaces.alluxio.versions import Version
from spaces.space import Knob, Value, choice, flag, log2, off_or_log2

K, M, G = 1 << 10, 1 << 20, 1 << 30

_AI = "Alluxio AI documentation, read optimisation; property list"
_OPEN = "open source Alluxio, PropertyKey.java"
_FUSE = "libfuse, mount.fuse3(8)"

# The properties of a knob; one that has two sets both alike.
PROPERTIES: Mapping[str, tuple[str, ...]] = {
    "prefetch": (PREFETCH + "async.prefetch.enable",),
    "prefetch_threads": (PREFETCH + "async.prefetch.thread",),
    "part_length": (PREFETCH + "async.prefetch.part.length",),
    "max_part_number": (PREFETCH + "async.prefetch.max.part.number",),
    "file_length_threshold": (PREFETCH + "async.prefetch.file.length.threshold",),
    "slow_threads": (PREFETCH + "slow.async.prefetch.thread",),
    "slow_part_length": (PREFETCH + "slow.async.prefetch.part.length",),
    "shared_reads": (PREFETCH + "async.prefetch.by.file.enabled", PREFETCH + "async.prefetch.shared.cache.enabled"),
    "multiplier": (PREFETCH + "multiplier",),
    "preload": ("alluxio.user.position.reader.preload.data.enabled",),
    "chunk_size": ("alluxio.user.streaming.reader.chunk.size.bytes",),
    "buffer_messages": ("alluxio.user.streaming.reader.buffer.size.messages",),
}
# Mount options of a knob; they go into the property of mount options or behind -o.
MOUNT_OPTIONS = ("page_cache", "max_background", "max_read")
PAGE_CACHE = ("default", "kernel_cache", "auto_cache", "direct_io")
# What 2.x reads by; newer clients read by position and take no notice of it.
_READERS_OF_2X = ("chunk_size", "buffer_messages")

KNOBS = (
    Knob("prefetch", flag(), True, "Asynchronous prefetch, which only 3.1 can switch off.", _AI),
    Knob("prefetch_threads", log2(4, 512), 64, "Threads that prefetch, for all open files together.", _AI, unit="count"),
    Knob("part_length", log2(256 * K, 32 * M), 4 * M, "Bytes of one part that is prefetched.", _AI, unit="bytes"),
    Knob("max_part_number", log2(1, 64), 8, "Parts that an open file is prefetched ahead at most.", _AI, unit="count"),
    Knob(
        "file_length_threshold",
        log2(M, 256 * M),
        4 * M,
        "Files smaller than this have the whole window at once.",
        _AI,
        unit="bytes",
        limit=2**40,
    ),
    Knob("slow_threads", log2(16, 512), 256, "Threads that prefetch what is not in Alluxio yet.", _AI, unit="count"),
    Knob("slow_part_length", log2(256 * K, 8 * M), M, "Bytes of one part of what is not in Alluxio yet.", _AI, unit="bytes"),
    Knob("shared_reads", flag(), False, "Readers of one file share its window and what was prefetched.", _AI),
    Knob("multiplier", log2(1, 64), 16, "Past reads that the read-ahead of open source 3.x goes by.", _OPEN, unit="count"),
    Knob("preload", flag(), False, "Workers load the rest of a big file from the store ahead of its readers.", _OPEN),
    Knob("chunk_size", log2(256 * K, 64 * M), M, "Bytes of one message from a worker (2.x).", _OPEN, unit="bytes"),
    Knob("buffer_messages", log2(2, 64), 16, "Messages that a reader holds in advance (2.x).", _OPEN, unit="count"),
    Knob(
        "page_cache",
        choice(*PAGE_CACHE),
        "default",
        "What the kernel keeps of files that are opened again (mount options kernel_cache, auto_cache, direct_io).",
        _FUSE,
    ),
    Knob(
        "max_background",
        off_or_log2(16, 512),
        0,
        "Requests that the kernel sends ahead at once (mount option max_background); 0 leaves it to libfuse.",
        _FUSE,
        unit="count",
        lowest=0,
    ),
    Knob(
        "max_read",
        off_or_log2(128 * K, M),
        0,
        "Bytes of the largest single request (mount option max_read); 0 leaves it to libfuse.",
        _FUSE,
        unit="bytes",
        lowest=0,
    ),
    Knob(
        "read_ahead",
        off_or_log2(256 * K, 8 * M),
        0,
        "Bytes that the kernel reads ahead on the mount, set by root with --system; 0 leaves it as it is (128K).",
        "Linux, /sys/class/bdi/*/read_ahead_kb",
        unit="bytes",
        lowest=0,
    ),
    Knob(
        "direct_memory",
        log2(G, 256 * G),
        4 * G,
        "Direct memory of the FUSE process (-XX:MaxDirectMemorySize), which all windows must fit in; the least that does.",
        "Alluxio's alluxio-fuse, HotSpot options",
        unit="bytes",
        limit=2**42,
    ),
)
DEFAULTS: Mapping[str, Value] = {knob.name: knob.default for knob in KNOBS}


def keys_of(knob: str) -> tuple[Key, ...]:
    """The properties that a knob sets; none for mount options and for the JVM's memory."""
    return tuple(BY_NAME[name] for name in PROPERTIES.get(knob, ()))


def why_not(knob: str, version: Version) -> str | None:
    """Why that version has no such knob, as a sentence; None where it has."""
    if in_version(knob, version):
        return None
    key = keys_of(knob)[0]
    if knob in _READERS_OF_2X:
        return f"Alluxio {version.title} reads by position and takes no notice of {key.name}; 2.x goes by it"
    return f"Alluxio {version.title} has no {key.name}; {key.where} has it"


def in_version(knob: str, version: Version | None) -> bool:
    """Whether that version has the knob; every knob counts where no version is named."""
    if version is not None and knob in _READERS_OF_2X and version.line != "open2":
        return False
    return all(key.known_to(version) for key in keys_of(knob))
