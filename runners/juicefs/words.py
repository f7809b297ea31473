"""A setting as options of juicefs mount, and what the mount says it runs with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from runners.runner import UsageError
from spaces.space import Config

_MIB = 1 << 20
# The option of a knob, its unit in bytes (1: a count), and its name in <mount>/.config, section Chunk.
_WORDS = {
    "max_readahead": ("max-readahead", _MIB, "Readahead"),
    "buffer_size": ("buffer-size", _MIB, "BufferSize"),
    "prefetch": ("prefetch", 1, "Prefetch"),
    "max_downloads": ("max-downloads", 1, "MaxDownload"),
}
_METRIC = re.compile(r"^juicefs_(?P<name>[A-Za-z_]+)(?P<labels>\{[^}]*\})? (?P<value>[-+0-9.eE]+)$", re.MULTILINE)
_GOT = "object_request_data_bytes"


def missing(help: str) -> list[str]:
    """The knobs' options that `juicefs mount --help` doesn't name."""
    return [f"--{option}" for option, _unit, _key in _WORDS.values() if f"--{option} " not in help]


def flags(config: Config) -> list[str]:
    """``config`` as options of juicefs mount, whose sizes are in MiB. Raises UsageError for a size of no whole MiB."""
    found = []
    for name, (option, unit, _key) in _WORDS.items():
        value = int(config[name])
        if value % unit:
            raise UsageError(name.replace("_", "-"), value, "must be whole MiB, as juicefs takes it")
        found.append(f"--{option}={value // unit}")
    return found


def differences(config: Config, live: Mapping[str, Any]) -> list[str]:
    """Sentences for what a mount does otherwise than it was told; ``live`` is the section Chunk of its .config."""
    found = []
    for name, (option, _unit, key) in _WORDS.items():
        if (now := live.get(key)) != config[name]:
            found.append(f"--{option} was set to {config[name]} and is {now!r}")
    return found


def downloaded(stats: str) -> int:
    """Bytes that were got from the object store, by the text of <mount>/.stats. Raises OSError where it doesn't tell."""
    found: list[float] = []
    for match in _METRIC.finditer(stats):
        name, labels = match["name"], match["labels"] or ""
        if name.startswith(_GOT) and ("GET" in name or 'method="GET"' in labels) and not name.endswith(("_count", "_created")):
            found.append(float(match["value"]))
    if not found and "juicefs_" not in stats:
        raise OSError("the mount's .stats can't be read")
    return int(sum(found))


def check_meta(meta: str) -> str:
    """``meta`` if it can be shown and kept. Raises UsageError: what a user asks for stays in the study, so no password."""
    if not meta:
        raise UsageError("meta", "''", "must be the URL of the volume's metadata engine, like redis://host:6379/1")
    if meta.startswith("-") or not meta.isprintable():
        raise UsageError("meta", meta, "is no URL of a metadata engine")
    if "://" not in meta:
        raise UsageError("meta", meta, "must be a URL, like redis://host:6379/1 or sqlite3:///var/lib/jfs.db")
    if _password(meta):
        raise UsageError(
            "meta", f"{meta.split('://')[0]}://…", "holds a password, which would stay in the study: put it into META_PASSWORD"
        )
    return meta


def absolute(meta: str) -> str:
    """``meta`` with the path of a database file made absolute: the mount program does not run in the user's folder."""
    scheme, _, path = meta.partition("://")
    return f"{scheme}://{Path(path).absolute()}" if scheme in ("sqlite3", "badger") else meta


def _password(meta: str) -> bool:
    rest = meta.partition("://")[2]
    try:
        if urlsplit(meta).password:
            return True
    except ValueError:
        pass
    # MySQL's own form, user:password@(host:port)/db, is no URL to Python.
    account = rest.rpartition("@")[0]
    return bool(account.partition(":")[2]) or bool(re.search(r"[?&](?:password|pass)=[^&]", rest))
