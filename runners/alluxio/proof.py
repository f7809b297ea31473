"""Whether a FUSE process really runs with a setting: what the kernel and its command line say, not what was asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from runners.alluxio.process import FuseProcess, max_background, mount_at
from runners.alluxio.words import overriding
from runners.runner import Failure, Json
from spaces.alluxio import gib
from spaces.space import Config

# The kernel gives the start of a process in hundredths of a second, and file systems round their times.
_CLOCK = 0.05


def prove(
    process: FuseProcess, point: Path, written: float, config: Config, values: Mapping[str, str], memory: int | None
) -> dict[str, Json] | Failure:
    """What is live, or a Failure that says what isn't: "wrong", or "infeasible" where the JVM can't be given the memory.

    ``written`` is when the site file got ``values`` (time.time()); ``memory`` the direct memory that was asked for, None
    where that was left as it is.
    """
    if process.started < written - _CLOCK:
        return _wrong(f"the FUSE process of {point} is older than the settings, so it can't have read them: the command does "
                      "not restart it")  # fmt: skip
    if winning := [key for key in overriding(process.words) if key in values]:
        return _wrong(f"{winning[0]} is given on the command line of the FUSE process, which wins over the site file")
    if memory is not None and process.direct_memory != memory:
        has = "no limit of its own" if process.direct_memory is None else gib(process.direct_memory)
        return Failure(
            "infeasible",
            f"the FUSE process was to have {gib(memory)} of direct memory and has {has}: how it is started, as by "
            "conf/alluxio-env.sh or a service, sets ALLUXIO_FUSE_JAVA_OPTS anew",
        )
    return _mounted(process, point, config, values)


def _mounted(process: FuseProcess, point: Path, config: Config, values: Mapping[str, str]) -> dict[str, Json] | Failure:
    mount = mount_at(point)
    if mount is None:
        return _wrong(f"nothing is mounted on {point}")
    live: dict[str, Json] = {"process_newer_than_settings": True, "direct_memory": process.direct_memory, **values}
    said = re.search(r"(?:^|,)max_read=(\d+)", ",".join(mount.super_options))
    live["max_read"] = int(said[1]) if said else None
    wanted = int(config["max_read"])
    if wanted and said and int(said[1]) != wanted:
        return _wrong(f"max_read was to be {wanted} and is {said[1]} on {point}")
    background = max_background(mount)
    live["max_background"] = background
    if config["max_background"] and background is not None and background != config["max_background"]:
        return _wrong(f"max_background was to be {config['max_background']} and is {background} on {point}")
    return live


def _wrong(reason: str) -> Failure:
    return Failure("wrong", reason)
