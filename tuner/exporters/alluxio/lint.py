"""Finds settings of a site file that Alluxio misreads, ignores or trips over; Alluxio itself says nothing of most of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from runners.alluxio.properties import Entry, commented, entries, line_end, with_key, with_value
from runners.alluxio.site import Unreadable, counting, dead, memory_of, settings
from runners.alluxio.values import BadText, check, read_int, read_size, split_comment, trimmed
from spaces.alluxio import BY_NAME, FUSE_OPTIONS, NOT_IN_SITE_FILE, PROPERTIES, Key, Version, keys_of, split_options, too_much
from spaces.alluxio.keys import PREFETCH
from tuner.exporters import format as contract
from tuner.exporters.alluxio import names
from tuner.exporters.alluxio.letters import letters
from tuner.exporters.alluxio.options import Options, read
from tuner.exporters.alluxio.references import circles
from tuner.exporters.alluxio.site import refuse
from tuner.exporters.format import Finding, mended
from tuner.exporters.issue import Issue

_TYPED = ("bool", "int", "long", "size", "duration")
_VARIABLES = {
    "alluxio.logs.dir": "ALLUXIO_LOGS_DIR",
    **dict.fromkeys(("alluxio.conf.dir", "alluxio.site.conf.dir"), "ALLUXIO_CONF_DIR"),
}
_CACHES = ("kernel_cache", "auto_cache", "direct_io")
_WINDOW = ("part_length", "max_part_number", "prefetch_threads", "chunk_size", "buffer_messages")


def matches(filename: str, text: str) -> bool:
    """A properties file that sets keys of Alluxio."""
    lowered = filename.lower()
    if ".properties" not in lowered or "\0" in text:
        return False
    return "alluxio" in lowered or any(trimmed(entry.key).startswith("alluxio.") for entry in entries(text))


def lint(text: str, options: contract.Options) -> list[Finding]:
    """Every finding, in line order."""
    chosen = read(options)
    refuse(text)
    return [issue.finding for issue in _issues(text, chosen)]


def fix(text: str, options: contract.Options) -> str:
    """``text`` with the safe mends made, one after the other, each judged on what the one before left."""
    chosen = read(options)
    refuse(text)
    return mended(text, lambda now: next((issue.edit for issue in _issues(now, chosen) if issue.edit), None))


def _issues(text: str, options: Options) -> list[Issue]:
    found = [
        *_unreadable(text),
        *letters(text),
        *_names(text, options.version),
        *_versions(text, options.version),
        *_values(text, options.version),
        *_twice(text),
        *circles(text),
        *_memory(text, options),
    ]
    return sorted(found, key=lambda issue: issue.line)


def _unreadable(text: str) -> Iterator[Issue]:
    for entry in entries(text):
        if entry.broken:
            message = f"Java can't read this line, and so nothing of the file: {entry.broken}"
            yield Issue(entry.line, trimmed(entry.key), message, "write a backslash of the value as two")


def _names(text: str, version: Version | None) -> Iterator[Issue]:
    """Keys that are none, which Alluxio takes without a word."""
    present = {trimmed(entry.key) for entry in entries(text)}
    for entry in entries(text):
        key = trimmed(entry.key)
        if entry.broken or key in names.names():
            continue
        if key in NOT_IN_SITE_FILE:
            yield Issue(entry.line, key, "start-up ends with an error when this stands in the site file",
                        f"set ${_VARIABLES[key]} in the environment instead")  # fmt: skip
        elif (meant := names.nearest(key)) is not None:
            message = f"Alluxio has no key of this name and takes it without a word; {meant} is meant"
            if meant in present:
                yield Issue(entry.line, key, message, f"remove it: {meant} is set too", partial(_comment, entry=entry))
            else:
                yield Issue(entry.line, key, message, f"call it {meant}", partial(with_key, entry=entry, key=meant))
        elif names.unknown(key, version) and version is not None:
            message = f"Alluxio {version.title} has no key of this name and takes it without a word"
            yield Issue(entry.line, key, message, "remove it, or look its name up in the documentation of your version")


def _versions(text: str, version: Version | None) -> Iterator[Issue]:
    """Keys that only other versions read."""
    if version is None:
        return
    for entry, key in dead(text, version):
        message = f"does nothing in Alluxio {version.title}; {key.where} has it"
        mend = "remove it"
        if key.name.startswith(PREFETCH) and version.line == "open2":
            of_2x = " and ".join(each.name for knob in ("chunk_size", "buffer_messages") for each in keys_of(knob))
            mend = f"remove it; 2.x is tuned by {of_2x}"
        # Documentation tells from which minor version on a key is there, not that it wasn't before.
        sure = version.line not in key.since or version.line in key.until
        yield Issue(entry.line, key.name, message, mend, partial(_comment, entry=entry) if sure else None)


def _values(text: str, version: Version | None) -> Iterator[Issue]:
    for entry in entries(text):
        key = BY_NAME.get(trimmed(entry.key))
        value = trimmed(entry.value)
        if key is None or entry.broken or "${" in value:
            continue
        bare, comment = split_comment(value)
        if key.name == FUSE_OPTIONS:
            yield from _mount_options(entry, value)
        elif key.kind in _TYPED and comment:
            message = f"the comment is part of the value for Java, which knows comments only where a line begins: {value!r}"
            good = _meant(key, bare, version)
            edit = partial(_moved, entry=entry, value=good, comment=comment) if good is not None else None
            yield Issue(entry.line, key.name, message, "put the comment on a line of its own", edit)
        elif key.kind in _TYPED:
            yield from _value(entry, key, value, version)


def _value(entry: Entry, key: Key, value: str, version: Version | None) -> Iterator[Issue]:
    try:
        check(key.name, key.kind, value, version)
    except BadText as error:
        if error.meant:
            edit = partial(with_value, entry=entry, value=error.meant)
            yield Issue(entry.line, key.name, error.why, f"{key.name}={error.meant}", edit)
        else:
            yield Issue(entry.line, key.name, error.why, f"the default is {key.default}")
        return
    tuned = any(key in keys_of(knob) for knob in PROPERTIES) and key.kind in ("int", "size")
    if tuned and (read_size(value, version) if key.kind == "size" else read_int(value)) < 1:
        yield Issue(entry.line, key.name, f"{value} is nothing to prefetch with; Alluxio does not check it",
                    f"at least 1; the default is {key.default}")  # fmt: skip


def _meant(key: Key, text: str, version: Version | None) -> str | None:
    """``text`` or what it was meant to be, as a value that works; None where there is none."""
    try:
        check(key.name, key.kind, text, version)
    except BadText as error:
        return error.meant or None
    return text


def _mount_options(entry: Entry, value: str) -> Iterator[Issue]:
    caches = [each for each in split_options(value) if each in _CACHES]
    if len(set(caches)) > 1:
        yield Issue(entry.line, FUSE_OPTIONS, f"{' and '.join(dict.fromkeys(caches))} contradict each other",
                    "keep at most one of kernel_cache, auto_cache and direct_io")  # fmt: skip
    if value.startswith("-o"):
        yield Issue(entry.line, FUSE_OPTIONS, "the value is the list of options alone, without -o",
                    f"{FUSE_OPTIONS}={value.removeprefix('-o').strip()}",
                    partial(with_value, entry=entry, value=value.removeprefix("-o").strip()))  # fmt: skip


def _twice(text: str) -> Iterator[Issue]:
    """Keys that stand there more than once; Java takes the last."""
    by_key: dict[str, list[Entry]] = {}
    for entry in entries(text):
        by_key.setdefault(trimmed(entry.key), []).append(entry)
    for key, each in by_key.items():
        if len(each) > 1:
            lines = ", ".join(str(entry.line) for entry in each[:-1])
            message = f"also set in line{'s' if len(each) > 2 else ''} {lines}; the last one counts, which is this"
            yield Issue(each[-1].line, key, message, "keep this one", partial(commented, dead=each[:-1], mark="# "))
    for key, each in by_key.items():
        if key in BY_NAME and BY_NAME[key].name != key and (same := by_key.get(BY_NAME[key].name)):
            first, second = sorted((each[-1], same[-1]), key=lambda entry: entry.line)
            message = f"is another name of {trimmed(first.key)}, which line {first.line} sets"
            yield Issue(second.line, trimmed(second.key), message, "keep one of them")


def _memory(text: str, options: Options) -> Iterator[Issue]:
    """Windows that are more than the direct memory which is known of."""
    memory = options.direct_memory or memory_of(text)
    try:
        present, config = counting(text), settings(text, options.version)
    except Unreadable:
        return
    lines = [present[key.name] for knob in _WINDOW for key in keys_of(knob) if key.name in present]
    if memory is None or not lines:
        return
    said = too_much(config, options.open_files or 1, memory, options.version)
    if said is not None:
        entry = max(lines, key=lambda each: each.line)
        mend = "smaller parts, fewer of them, or the JVM option in ALLUXIO_FUSE_JAVA_OPTS of conf/alluxio-env.sh"
        yield Issue(entry.line, trimmed(entry.key), said, mend)


def _comment(text: str, entry: Entry) -> str:
    return commented(text, [entry], "# ")


def _moved(text: str, entry: Entry, value: str, comment: str) -> str:
    """The comment of a value on the line before."""
    line = " ".join(comment.split())
    return f"{text[: entry.start]}{line}{line_end(text)}{with_value(text, entry, value)[entry.start :]}"
