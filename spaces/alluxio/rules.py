"""What a version, a load and a host's memory allow, which settings are the same in effect, and what a setting takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spaces.alluxio.knobs import DEFAULTS, KNOBS, MOUNT_OPTIONS, in_version
from spaces.alluxio.versions import Version
from spaces.space import Config, Domain, Rule, Space, Value
from spaces.units import format_size

GIB = 1 << 30
_WINDOW = ("prefetch_threads", "part_length", "max_part_number", "file_length_threshold", "slow_threads",
           "slow_part_length", "shared_reads")  # fmt: skip
_SLOW = ("slow_threads", "slow_part_length")
_DOMAINS = {knob.name: knob.domain for knob in KNOBS}  # another one is what a user asked for


@dataclass(frozen=True, slots=True)
class Limits:
    """``open_files`` at once in all readers; ``file_size`` in bytes of the largest file that is read (None: any).

    ``memory`` is the most that the FUSE process may have as direct memory, in bytes. ``cold``: data come from the store.
    ``mount_options`` False: those are not searched; ``system`` False: nor is what only root can set. ``present`` is the direct
    memory that it has now, None if not known.
    """

    version: Version | None = None
    open_files: int = 1
    file_size: int | None = None
    memory: int | None = None
    cold: bool = True
    mount_options: bool = True
    system: bool = True
    present: int | None = None


@dataclass(frozen=True, slots=True)
class Need:
    """Direct memory that a setting takes at most, in bytes: the windows of all open files, and what threads have in flight."""

    windows: int
    in_flight: int

    @property
    def total(self) -> int:
        return self.windows + self.in_flight


def need(config: Config, open_files: int, version: Version | None = None) -> Need:
    """What ``config`` takes in the FUSE process. Of a setting of 2.x: the messages that its readers hold in advance."""
    if version is not None and version.line == "open3":
        return Need(0, 0)  # it reads ahead within the buffer of the read itself
    if version is not None and version.line == "open2":
        return Need(int(config["chunk_size"]) * int(config["buffer_messages"]) * open_files, 0)
    if config.get("prefetch") is False:
        return Need(0, 0)
    part, parts, threads = (int(config[name]) for name in ("part_length", "max_part_number", "prefetch_threads"))
    return Need(part * parts * open_files, part * min(threads, parts * open_files))


def jvm_option(size: int) -> str:
    """HotSpot's option for that much direct memory; whole GiB are written as such, and all else in MiB, rounded up."""
    if size % GIB == 0:
        return f"-XX:MaxDirectMemorySize={size // GIB}g"
    return f"-XX:MaxDirectMemorySize={-(-size // (1 << 20))}m"


def gib(size: int) -> str:
    return f"{size / GIB:.3g} GiB"


def too_much(config: Config, open_files: int, direct_memory: int, version: Version | None = None) -> str | None:
    """Why the windows of ``config`` don't fit in ``direct_memory`` bytes, with the sum and the JVM option that it would need.

    None where they fit.
    """
    takes = need(config, open_files, version)
    if takes.total <= direct_memory:
        return None
    of_2x = version is not None and version.line == "open2"
    factors = ("chunk_size", "buffer_messages") if of_2x else ("part_length", "max_part_number")
    product = " x ".join(f"{name} {_show(name, config)}" for name in factors)
    files = "1 open file" if open_files == 1 else f"{open_files} open files"
    flying = f", {gib(takes.total)} with what {config['prefetch_threads']} threads have in flight" if takes.in_flight else ""
    wanted = jvm_option(-(-takes.total // GIB) * GIB)
    return (
        f"{product} x {files} is {gib(takes.windows)}{flying}; the FUSE process has {gib(direct_memory)} of direct memory "
        f"and would need {wanted}"
    )


def _show(knob: str, config: Config) -> str:
    value = int(config[knob])
    return format_size(value) if knob in ("part_length", "chunk_size") else str(value)


def cost(config: Config) -> float:
    """What a setting takes: memory of a file's window first, then threads, then settings to carry about."""
    window = need(config, 1).windows / (1 << 20) + int(config["chunk_size"]) * int(config["buffer_messages"]) / (1 << 24)
    threads = 0 if config["prefetch"] is False else int(config["prefetch_threads"]) + int(config["slow_threads"]) / 16
    changes = sum(1 for name, value in config.items() if value != DEFAULTS.get(name))
    return window + int(config["direct_memory"]) / GIB + 0.01 * threads + 0.01 * changes


def for_version(space: Space, version: Version | None) -> Space:
    """``space`` for one version: knobs whose keys it does not have are held at their default, and so nothing is written."""
    return _only(space, tuple(knob.name for knob in space.knobs if not in_version(knob.name, version)))


def for_job(space: Space, limits: Limits) -> Space:
    """``space`` (narrowed or not) for a version and a load, with its rules, settings of equal effect folded, and the cost."""
    shaped = for_version(space, limits.version)
    idle = MOUNT_OPTIONS if not limits.mount_options else ()
    if not limits.system:
        idle = (*idle, "read_ahead")
    if not limits.cold:
        idle = (*idle, *_SLOW, "preload")
    shaped = _only(shaped, tuple(name for name in idle if space[name].domain == _DOMAINS[name]))

    def fits(config: Config) -> str | None:
        has = max(int(config["direct_memory"]), limits.present or 0)
        return too_much(config, limits.open_files, has, limits.version)

    def has_room(config: Config) -> str | None:
        total = need(config, limits.open_files, limits.version).total
        if limits.memory is None or total <= limits.memory:
            return None
        return f"its windows take {gib(total)}, more than the {gib(limits.memory)} that a setting may hold (--memory)"

    def canonical(config: Config) -> Config:
        return _folded(dict(config), shaped, limits)

    rules = (Rule("windows fit in direct memory", fits), Rule("windows fit the host", has_room))
    return replace(shaped, rules=rules, canonical=canonical, cost=cost)


def _folded(config: dict[str, Value], space: Space, limits: Limits) -> dict[str, Value]:
    if config["prefetch"] is False:
        config.update({name: _preferred(space, name) for name in _WINDOW})
    else:
        parts = int(config["max_part_number"])
        if limits.file_size is not None:
            # More parts than a file has buy nothing.
            parts = _least(space, "max_part_number", -(-limits.file_size // int(config["part_length"])), parts)
            config["max_part_number"] = parts
            config["file_length_threshold"] = _same_side(space, limits.file_size, int(config["file_length_threshold"]))
        # Nor do more threads than there are parts to prefetch at once.
        for name in ("prefetch_threads", "slow_threads"):
            config[name] = _least(space, name, parts * limits.open_files, int(config[name]))
    # Memory is what the windows need, not a thing to search for: the usual amount, or the least above that holds them.
    floor = max(need(config, limits.open_files, limits.version).total, int(_preferred(space, "direct_memory")))
    holds = [int(value) for value in space["direct_memory"].domain.values if int(value) >= floor]
    config["direct_memory"] = min(holds) if holds else max(int(value) for value in space["direct_memory"].domain.values)
    return config


def _least(space: Space, name: str, enough: int, value: int) -> int:
    """The smallest value of the knob that is ``enough``, where ``value`` is more than that; else ``value``."""
    able = [int(each) for each in space[name].domain.values if enough <= int(each) < value]
    return min(able, default=value)


def _same_side(space: Space, size: int, threshold: int) -> int:
    """The first threshold that tells a file of that size as ``threshold`` does, the default where it does so too."""
    usual = int(_preferred(space, "file_length_threshold"))
    if (size < usual) == (size < threshold):
        return usual
    values = [int(each) for each in space["file_length_threshold"].domain.values]
    return next((each for each in values if (size < each) == (size < threshold)), threshold)


def _preferred(space: Space, name: str) -> Value:
    knob = space[name]
    return knob.default if knob.default in knob.domain.values else knob.domain.values[0]


def _only(space: Space, names: Sequence[str]) -> Space:
    """``space`` with those knobs held at their default."""
    held = set(names)
    knobs = (
        replace(knob, domain=Domain(knob.domain.kind, (knob.default,))) if knob.name in held else knob for knob in space.knobs
    )
    return replace(space, knobs=tuple(knobs))
