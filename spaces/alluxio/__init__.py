"""Alluxio: how its FUSE mount reads ahead, by version, what that takes in memory, and the properties that say so.

Sources: PropertyKey.java of the open source releases, the documentation of Alluxio AI 3.1 to 3.9, libfuse's manual.
"""

from __future__ import annotations

from spaces.alluxio.assigned import USUAL_OPTIONS, mount_options, of_mount_options, properties, split_options
from spaces.alluxio.keys import BY_NAME, FUSE_OPTIONS, KEYS, NOT_IN_SITE_FILE, Key, Kind
from spaces.alluxio.knobs import DEFAULTS, KNOBS, MOUNT_OPTIONS, PAGE_CACHE, PROPERTIES, in_version, keys_of, why_not
from spaces.alluxio.rules import GIB, Limits, for_job, for_version, gib, jvm_option, need, too_much
from spaces.alluxio.versions import TITLES, Version, parse_version
from spaces.space import Space

__all__ = [
    "BY_NAME",
    "DEFAULTS",
    "FUSE_OPTIONS",
    "GIB",
    "KEYS",
    "KNOBS",
    "MOUNT_OPTIONS",
    "NOT_IN_SITE_FILE",
    "PAGE_CACHE",
    "PROPERTIES",
    "SPACE",
    "SUMMARY",
    "TITLES",
    "USUAL_OPTIONS",
    "Key",
    "Kind",
    "Limits",
    "Version",
    "for_job",
    "for_version",
    "gib",
    "in_version",
    "jvm_option",
    "keys_of",
    "mount_options",
    "need",
    "of_mount_options",
    "parse_version",
    "properties",
    "split_options",
    "too_much",
    "why_not",
]

SUMMARY = "Alluxio's FUSE mount: prefetch of the version that runs, mount options, and the memory that they take."

SPACE: Space = for_job(Space(KNOBS), Limits())
