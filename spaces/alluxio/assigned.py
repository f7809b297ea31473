"""The properties and mount options of a setting; what is measured and what is emitted both come from here."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from spaces.alluxio.keys import BY_NAME, FUSE_OPTIONS
from spaces.alluxio.knobs import DEFAULTS, MOUNT_OPTIONS, PAGE_CACHE, PROPERTIES, in_version, keys_of
from spaces.alluxio.versions import Version
from spaces.space import Config, Value

_SCALES = (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10))
# What Alluxio takes where the property is not set; setting it replaces all of them.
USUAL_OPTIONS: tuple[str, ...] = tuple(BY_NAME[FUSE_OPTIONS].default.split(","))


def spelled(value: Value) -> str:
    """A value as every version reads it: true or false, a whole number, with KB, MB or GB where that is exact."""
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def size(number: int) -> str:
    """262144 -> 256KB."""
    for unit, scale in _SCALES:
        if number and number % scale == 0:
            return f"{number // scale}{unit}"
    return str(number)


def properties(
    config: Config, version: Version | None = None, said: Collection[str] = (), options: Sequence[str] = USUAL_OPTIONS
) -> dict[str, str]:
    """By key, what a setting needs written: what differs from the default, or is in ``said``, keys that a file has already.

    ``options`` are the mount options that count without ours; those that are not ours to set stay among them. Keys that the
    version doesn't have are left out.
    """
    found: dict[str, str] = {}
    for knob in PROPERTIES:
        if knob not in config or not in_version(knob, version):
            continue
        for key in keys_of(knob):
            if config[knob] != DEFAULTS[knob] or any(name in said for name in (key.name, *key.aliases)):
                found[key.name] = size(int(config[knob])) if key.kind == "size" else spelled(config[knob])
    wanted = mount_options(config, options)
    if sorted(wanted) != sorted(options):
        found[FUSE_OPTIONS] = ",".join(wanted)
    return found


def mount_options(config: Config, options: Sequence[str] = USUAL_OPTIONS) -> list[str]:
    """``options`` with those of the setting in place of their own kind."""
    kept = [each for each in options if _knob_of(each) is None]
    if (cache := config.get("page_cache", "default")) != "default":
        kept.append(str(cache))
    kept += [f"{name}={config[name]}" for name in ("max_background", "max_read") if config.get(name)]
    return kept


def of_mount_options(options: Sequence[str]) -> dict[str, Value]:
    """The knobs that ``options`` set, defaults for the rest; a number that is none is left at its default."""
    found: dict[str, Value] = {name: DEFAULTS[name] for name in MOUNT_OPTIONS}
    for each in options:
        knob = _knob_of(each)
        if knob == "page_cache":
            found[knob] = each
        elif knob is not None and re.fullmatch(r"[0-9]{1,10}", number := each.partition("=")[2]):
            found[knob] = int(number)
    return found


def split_options(text: str) -> list[str]:
    """The list in a property of mount options."""
    return [each.strip() for each in text.split(",") if each.strip()]


def _knob_of(option: str) -> str | None:
    if option in PAGE_CACHE[1:]:
        return "page_cache"
    name = option.partition("=")[0]
    return name if name in ("max_background", "max_read") else None
