"""What stands in the way of trying settings on this host's Alluxio, told before anything is changed."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from runners.alluxio.process import mount_at
from runners.alluxio.setup import Setup
from runners.alluxio.site import Unreadable, counting
from runners.alluxio.users import users
from runners.mount.programs import fuse_problems
from runners.runner import Problem
from spaces.alluxio import PROPERTIES, in_version, keys_of


def of_install(setup: Setup) -> list[Problem]:
    found = fuse_problems(needs_helper=False)
    if setup.version is None:
        found.append(
            Problem("alluxio", "error", "no Alluxio is found here", "export ALLUXIO_HOME=DIR, and --alluxio-version V")
        )
    if not setup.remount and setup.install.script is None:
        message = "alluxio-fuse is not found, which mounts and unmounts"
        found.append(Problem("alluxio-fuse", "error", message, "export ALLUXIO_HOME=DIR, or name --remount-cmd COMMAND"))
    return found


def of_site(setup: Setup, site: Path) -> list[Problem]:
    if not site.exists():
        return []
    if not os.access(site, os.R_OK | os.W_OK) or not os.access(site.parent, os.W_OK):
        return [Problem("site-file", "error", f"{site} can't be written by this user", f"sudo, or chown {site.parent}")]
    try:
        present = counting(site.read_bytes().decode("iso-8859-1"))
    except Unreadable as error:
        return [Problem("site-file", "error", f"{site}: {error}", f"tune lint {site}")]
    tuned = {key.name for knob in PROPERTIES if in_version(knob, setup.version) for key in keys_of(knob)}
    if not tuned & set(present):
        return []
    message = f"{site} sets keys that are tuned; what is to be beaten are Alluxio's defaults, unless --baseline names it"
    return [Problem("baseline", "note", message, f"--baseline {site} compares with your own settings")]


def of_mount(setup: Setup) -> list[Problem]:
    point = setup.point
    mount = mount_at(point)
    if mount is None:
        if not point.is_dir():
            mend = "name Alluxio's mount point" if point.exists() else f"mkdir {shlex.quote(str(point))}"
            return [Problem("mount", "error", f"{point} is no folder", mend)]
        if setup.version is not None and not setup.remount and not setup.likely_source():
            message = f"nothing is mounted on {point}, so what to mount is not known"
            return [Problem("source", "error", message, "--source WHAT")]
        return []
    if mount.kind != "fuse":
        return [Problem("mount", "error", f"{point} is a mount of {mount.fs_type}, not of FUSE", "name Alluxio's mount point")]
    if using := users(point):
        names = ", ".join(f"{name} ({pid})" for pid, name in using[:5])
        message = f"{point} is in use by {names}: it is unmounted again and again, which would take it away from them"
        return [Problem("mount-in-use", "error", message, "end them, or mount a second time and name that mount")]
    return []
