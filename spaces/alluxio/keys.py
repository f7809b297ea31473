"""Property keys of Alluxio's read path: type, default, which version has them, and what must restart for them to count.

Types and defaults are those of PropertyKey.java (open source) and of Alluxio's documentation (enterprise AI 3.1 to 3.9).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from spaces.alluxio.versions import TITLES, Line, Version

Kind = Literal["bool", "int", "long", "size", "duration", "list", "text"]
Restart = Literal["fuse", "worker", "all"]

PREFETCH = "alluxio.user.position.reader.streaming."
FUSE_OPTIONS = "alluxio.fuse.mount.options"
# Start-up ends with an error when one of these stands in the site file.
NOT_IN_SITE_FILE = frozenset(("alluxio.conf.dir", "alluxio.site.conf.dir", "alluxio.logs.dir"))

_EVER: Mapping[Line, tuple[int, int]] = {"enterprise": (3, 1), "open3": (3, 0), "open2": (2, 0)}


@dataclass(frozen=True, slots=True)
class Key:
    """``since`` gives for each product line that has the key its first version, ``until`` the first that has it no longer.

    ``restart`` is what reads the value at its start: the FUSE process of each client, the workers, or all of them.
    """

    name: str
    kind: Kind
    default: str
    since: Mapping[Line, tuple[int, int]]
    help: str
    until: Mapping[Line, tuple[int, int]] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    restart: Restart = "fuse"

    def known_to(self, version: Version | None) -> bool:
        """Whether that version reads the key; any may where no version is named."""
        if version is None:
            return True
        first, end = self.since.get(version.line), self.until.get(version.line)
        return first is not None and first <= version.number and (end is None or version.number < end)

    @property
    def where(self) -> str:
        """The versions that read it, in words."""
        parts = []
        for line, first in self.since.items():
            end = self.until.get(line)
            name = TITLES[line]
            if line == "enterprise":
                name = f"enterprise {first[0]}.{first[1]}" + (f" only up to {end[0]}.{end[1] - 1}" if end else " and newer")
            parts.append(name)
        return ", ".join(parts)


def _prefetch(name: str, kind: Kind, default: str, first: tuple[int, int], help: str, *aliases: str) -> Key:
    return Key(PREFETCH + name, kind, default, {"enterprise": first}, help, aliases=tuple(PREFETCH + each for each in aliases))


def _ever(name: str, kind: Kind, default: str, help: str, *aliases: str, restart: Restart = "fuse") -> Key:
    return Key(name, kind, default, _EVER, help, aliases=aliases, restart=restart)


KEYS: tuple[Key, ...] = (
    Key(
        PREFETCH + "async.prefetch.enable",
        "bool",
        "true",
        {"enterprise": (3, 1)},
        "Asynchronous prefetch; from 3.2 on it is always on and has no switch.",
        until={"enterprise": (3, 2)},
    ),
    _prefetch("async.prefetch.thread", "int", "64", (3, 1), "Threads that prefetch, for all streams of the FUSE process.",
              "fast.async.prefetch.thread"),
    _prefetch("async.prefetch.part.length", "size", "4MB", (3, 1), "Bytes of one prefetched part.",
              "fast.async.prefetch.part.length"),
    _prefetch("async.prefetch.max.part.number", "int", "8", (3, 1), "Parts that one open file is prefetched ahead at most."),
    _prefetch("async.prefetch.file.length.threshold", "size", "4MB", (3, 2),
              "Files smaller than this have the whole window at once."),
    _prefetch("slow.async.prefetch.thread", "int", "256", (3, 6), "Threads that prefetch cold data."),
    _prefetch("slow.async.prefetch.part.length", "size", "1MB", (3, 6), "Bytes of one prefetched part of cold data."),
    _prefetch("async.prefetch.by.file.enabled", "bool", "false", (3, 6), "One window a file, not one a reader of it."),
    _prefetch("async.prefetch.shared.cache.enabled", "bool", "false", (3, 6), "Readers of one file share prefetched parts."),
    Key("alluxio.fuse.pre.allocate.all.async.prefetch.buffers.enabled", "bool", "false", {"enterprise": (3, 8)},
        "Buffers of all parts are allocated at the start."),
    Key(PREFETCH + "multiplier", "int", "16", {"open3": (3, 0)}, "Reads that open source 3.x looks back on to read ahead."),
    Key("alluxio.user.position.reader.preload.data.enabled", "bool", "false", {"enterprise": (3, 6), "open3": (3, 0)},
        "Workers load what follows in a big file from the store before it is asked for."),
    Key("alluxio.user.position.reader.preload.data.size", "size", "256MB", {"enterprise": (3, 6), "open3": (3, 0)},
        "Bytes that a worker loads ahead."),
    Key("alluxio.user.position.reader.preload.data.file.size.threshold.min", "size", "2GB",
        {"enterprise": (3, 6), "open3": (3, 0)}, "Smallest file that is loaded ahead.",
        aliases=("alluxio.user.position.reader.preload.data.file.size.threshold",)),
    Key("alluxio.user.position.reader.preload.data.file.size.threshold.max", "size", "0", {"enterprise": (3, 6)},
        "Largest file that is loaded ahead; 0 is any."),
    _ever("alluxio.user.streaming.reader.chunk.size.bytes", "size", "1MB", "Bytes of one message that a worker sends.",
          "alluxio.user.network.reader.chunk.size.bytes"),
    _ever("alluxio.user.streaming.reader.buffer.size.messages", "int", "16", "Messages that a reader holds in advance.",
          "alluxio.user.network.reader.buffer.size.messages"),
    _ever("alluxio.user.streaming.data.read.timeout", "duration", "3m", "How long a reader waits for a worker."),
    _ever("alluxio.user.streaming.zerocopy.enabled", "bool", "true", "Messages are not copied on their way.",
          "alluxio.user.network.zerocopy.enabled"),
    _ever("alluxio.user.local.reader.chunk.size.bytes", "size", "8MB", "Bytes of one read from a worker on this host."),
    _ever("alluxio.user.file.buffer.bytes", "size", "8MB", "Buffer of a file stream; must fit 32 bits."),
    _ever("alluxio.user.block.worker.client.pool.max", "int", "1024", "Clients of one worker."),
    _ever("alluxio.user.block.size.bytes.default", "size", "64MB", "Size of new blocks."),
    _ever("alluxio.user.network.streaming.max.connections", "int", "64", "Connections to a worker for data."),
    _ever("alluxio.user.network.streaming.netty.worker.threads", "int", "0", "Threads of data connections; 0 is by itself."),
    _ever("alluxio.user.network.streaming.flowcontrol.window", "size", "2MB", "Flow control window of data connections."),
    _ever("alluxio.user.network.rpc.max.connections", "long", "1", "Connections to a worker for calls."),
    _ever("alluxio.user.network.rpc.netty.worker.threads", "int", "0", "Threads of the call connections; 0 is by itself."),
    Key("alluxio.user.netty.data.transmission.enabled", "bool", "false", {"enterprise": (3, 1), "open3": (3, 0)},
        "Data goes by Netty and not by gRPC."),
    _ever("alluxio.user.metadata.cache.max.size", "int", "0", "Entries of the metadata cache; 0 is none, 20000 take 40 MB."),
    _ever("alluxio.user.metadata.cache.expiration.time", "duration", "", "How long cached metadata count."),
    Key("alluxio.user.metadata.cache.enabled", "bool", "false", {"open2": (2, 0)}, "The metadata cache; 2.x only."),
    Key("alluxio.user.update.file.accesstime.disabled", "bool", "false", {"open2": (2, 0), "open3": (3, 0)},
        "Reads don't update access times, which saves a call to the master."),
    _ever("alluxio.user.client.cache.enabled", "bool", "false", "The client's own page cache."),
    _ever("alluxio.user.client.cache.page.size", "size", "1MB", "Page size of the client's cache."),
    _ever("alluxio.user.client.cache.size", "list", "512MB", "Sizes of the client's cache, one a folder."),
    _ever("alluxio.user.client.cache.dirs", "list", "/tmp/alluxio_cache", "Folders of the client's cache."),  # noqa: S108
    _ever("alluxio.user.file.segment.enabled", "bool", "false", "Files are read as segments; all clients must agree.",
          restart="all"),
    _ever("alluxio.user.file.segment.size", "size", "1GB", "Size of a segment; all clients must agree.", restart="all"),
    _ever("alluxio.user.file.passive.cache.enabled", "bool", "true", "What was read from another worker is cached here too."),
    _ever("alluxio.user.metrics.collection.enabled", "bool", "true", "The client collects metrics."),
    _ever("alluxio.user.conf.cluster.default.enabled", "bool", "true", "Clients take defaults from the masters."),
    _ever("alluxio.user.short.circuit.enabled", "bool", "true", "A worker on this host is read without the network."),
    _ever(FUSE_OPTIONS, "list", "attr_timeout=600,entry_timeout=600", "Mount options of the FUSE process.",
          "alluxio.worker.fuse.mount.options"),
    _ever("alluxio.fuse.jnifuse.enabled", "bool", "true", "libfuse by JNI."),
    _ever("alluxio.fuse.jnifuse.libfuse.version", "int", "3", "libfuse 3, or 2 where only that is installed."),
    _ever("alluxio.fuse.cached.paths.max", "int", "500", "Paths whose translation is kept."),
    Key("alluxio.fuse.position.read.enabled", "bool", "false", {"open3": (3, 0)}, "FUSE reads by position."),
    Key("alluxio.fuse.shared.caching.reader.enabled", "bool", "false", {"open2": (2, 8), "open3": (3, 0)},
        "Readers of one file share a buffer; experimental."),
    Key("alluxio.fuse.max.reader.concurrency", "int", "1024", {"enterprise": (3, 1)}, "Readers of one file at once."),
    Key("alluxio.fuse.enforce.direct.io.read", "bool", "false", {"enterprise": (3, 1)}, "Reads pass the kernel's page cache."),
    Key("alluxio.fuse.open.read.status.cache.enabled", "bool", "false", {"enterprise": (3, 1)}, "Opening uses cached status."),
    _ever("alluxio.fuse.web.enabled", "bool", "false", "Web server of the FUSE process, with its metrics."),
    _ever("alluxio.fuse.web.port", "int", "49999", "Port of that web server."),
    _ever("alluxio.fuse.special.command.enabled", "bool", "false", "Commands by special file names."),
    _ever("alluxio.fuse.debug.enabled", "bool", "false", "libfuse logs every call: slow."),
    _ever("alluxio.worker.page.store.page.size", "size", "1MB", "Page size of the workers' cache; a change empties it.",
          restart="worker"),
    _ever("alluxio.worker.page.store.dirs", "list", "", "Folders of the workers' cache.", restart="worker"),
    _ever("alluxio.worker.page.store.sizes", "list", "", "Sizes of the workers' cache, one a folder.", restart="worker"),
    _ever("alluxio.worker.page.store.type", "text", "LOCAL", "Kind of the workers' cache.", restart="worker"),
    _ever("alluxio.worker.network.reader.buffer.size", "size", "4MB", "Buffer of a worker for one reader.", restart="worker"),
    _ever("alluxio.underfs.s3.threads.max", "int", "40", "Connections of a worker to S3.", restart="worker"),
)  # fmt: skip

BY_NAME: Mapping[str, Key] = {name: key for key in KEYS for name in (key.name, *key.aliases)}
