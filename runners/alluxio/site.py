"""alluxio-site.properties: our settings in one marked block, the user's lines kept, and the settings that a file gives."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from runners.alluxio.properties import Entry, closed, commented, entries, line_end, uncommented, written
from runners.alluxio.values import BadText, read_int, read_size, trimmed
from spaces.alluxio import (
    BY_NAME,
    DEFAULTS,
    FUSE_OPTIONS,
    PROPERTIES,
    USUAL_OPTIONS,
    Key,
    Version,
    in_version,
    jvm_option,
    keys_of,
    of_mount_options,
    properties,
    split_options,
)
from spaces.space import Config, Value

BEGIN = "# >>> clustertune"
END = "# <<< clustertune"
REPLACED = "# replaced by clustertune: "

_BLOCK = re.compile(
    rf"(?:(?<=[\r\n])|\A){re.escape(BEGIN)}[^\r\n]*(?:\r\n|\r|\n)(?:(?!{re.escape(BEGIN)})[^\r\n]*(?:\r\n|\r|\n))*?"
    rf"{re.escape(END)}[^\r\n]*(?P<end>\r\n|\r|\n|\Z)"
)
_MEMORY = re.compile(r"-XX:MaxDirectMemorySize=(?P<size>[0-9]{1,15}[kKmMgG]?)(?![\w.])")
_AHEAD = re.compile(r"read_ahead_kb ([0-9]{1,9})\b")


class Unreadable(ValueError):
    """A file that Java can't read, or a value of it that Alluxio can't; the sentence names the line and the key."""


def counting(text: str) -> dict[str, Entry]:
    """By key as Alluxio trims it, the entry that counts. Raises Unreadable."""
    found: dict[str, Entry] = {}
    for entry in entries(text):
        if entry.broken:
            raise Unreadable(f"line {entry.line} can't be read by Java, and so nothing of the file: {entry.broken}")
        found[trimmed(entry.key)] = entry
    return found


def without_block(text: str) -> str:
    """``text`` as it was before ``merged``: our blocks gone, the lines that they replaced counting again."""
    while match := _BLOCK.search(text):
        before, after = text[: match.start()], text[match.end() :]
        if not match["end"]:  # the user's last line had no end, and so has the block
            before = re.sub(r"(?:\r\n|\r|\n)\Z", "", before)
        text = before + after
    return uncommented(text, REPLACED)


def merged(text: str, values: Mapping[str, str], head: Sequence[str]) -> str:
    """``text`` with ``values`` in one marked block at its end, below the comments ``head``; an older block is replaced.

    Entries of the user's that have the same keys (or their aliases) become comments; all else stays byte for byte.
    """
    base = without_block(text)
    ours = {name for key in values for name in (key, *(BY_NAME[key].aliases if key in BY_NAME else ()))}
    base = commented(base, [entry for entry in entries(base) if trimmed(entry.key) in ours], REPLACED)
    ends = line_end(base)
    whole = closed(base)
    lines = [f"{BEGIN}: a new export replaces this block", *(f"# {line}".rstrip() for line in head),
             *(written(key, value) for key, value in values.items()), END]  # fmt: skip
    return whole + ends.join(lines) + (ends if base.endswith(("\n", "\r")) or not base else "")


def block_of(config: Config, text: str, version: Version | None, also: Collection[str] = ()) -> dict[str, str]:
    """The properties that make a user's file give ``config``: by key, with the mount options that stand in it kept.

    What is Alluxio's default is left out, but for keys that the file has and those in ``also``.
    """
    present = counting(without_block(text))
    return properties(config, version, {*present, *also}, _options(present))


def memory_line(config: Config) -> str:
    """What a file says of the JVM's memory, which is no property."""
    option = jvm_option(int(config["direct_memory"]))
    return f"holds for a FUSE process with {option} or more (ALLUXIO_FUSE_JAVA_OPTS), which is no property"


def beside(config: Config) -> list[str]:
    """What a setting is besides its properties, a line each; ``settings`` reads it back."""
    lines = [memory_line(config)]
    if config.get("read_ahead"):
        ahead = int(config["read_ahead"]) >> 10
        lines.append(f"the kernel read ahead with read_ahead_kb {ahead} (/sys/class/bdi/*/), which is no property either")
    return lines


def memory_of(text: str) -> int | None:
    """The direct memory that a text of options or our own block names last, in bytes."""
    found = None
    for match in _MEMORY.finditer(text):
        number, unit = re.fullmatch(r"([0-9]+)([kKmMgG]?)", match["size"]).groups()  # type: ignore[union-attr]
        found = int(number) << {"": 0, "k": 10, "m": 20, "g": 30}[unit.lower()]
    return found


def settings(text: str, version: Version | None = None) -> dict[str, Value]:
    """The knobs that a file sets, defaults for the rest, as that version takes them. Raises Unreadable."""
    present = counting(text)
    found: dict[str, Value] = dict(DEFAULTS)
    for knob in PROPERTIES:
        if not in_version(knob, version):
            continue
        readings = [_read(present, key, version) for key in keys_of(knob)]
        if len(readings) > 1:  # a knob of several switches is on where all of them are
            found[knob] = all(reading is True for reading in readings)
        elif readings[0] is not None:
            found[knob] = readings[0]
    found.update(of_mount_options(_options(present)))
    blocks = "".join(match[0] for match in _BLOCK.finditer(text))
    found["direct_memory"] = memory_of(blocks) or DEFAULTS["direct_memory"]
    ahead = _AHEAD.findall(blocks)
    found["read_ahead"] = int(ahead[-1]) << 10 if ahead else DEFAULTS["read_ahead"]
    return found


def dead(text: str, version: Version | None) -> Iterator[tuple[Entry, Key]]:
    """Entries whose key that version doesn't read, though another one does."""
    for entry in entries(text):
        key = BY_NAME.get(trimmed(entry.key))
        if key is not None and not key.known_to(version):
            yield entry, key


def _options(present: Mapping[str, Entry]) -> Sequence[str]:
    entry = _entry(present, BY_NAME[FUSE_OPTIONS])
    return USUAL_OPTIONS if entry is None else split_options(entry.value)


def _entry(present: Mapping[str, Entry], key: Key) -> Entry | None:
    named: Collection[Entry] = [present[name] for name in (key.name, *key.aliases) if name in present]
    return max(named, key=lambda entry: entry.start, default=None)


def _read(present: Mapping[str, Entry], key: Key, version: Version | None) -> Value | None:
    entry = _entry(present, key)
    if entry is None:
        return None
    text = trimmed(entry.value)
    try:
        if key.kind == "bool":
            return text.lower() == "true"  # what people write for true and isn't, lint tells
        number = read_size(text, version) if key.kind == "size" else read_int(text)
    except BadText as error:
        raise Unreadable(f"line {entry.line}, {key.name}: {error.why}") from None
    if not 1 <= number < 2**40:
        raise Unreadable(f"line {entry.line}, {key.name}: {text!r} must be at least 1, and no more than memory can hold")
    return number
