"""What else bears on Alluxio's files: the version that reads them, files open at once, and the JVM's direct memory."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field

from runners.options import option
from runners.runner import Json
from spaces.alluxio import Version, parse_version
from spaces.units import parse_size
from tuner.errors import WrongUsage
from tuner.exporters import format as contract
from tuner.recommendation import Recommendation


@dataclass(frozen=True, slots=True)
class FileOptions:
    """What `tune export` and `tune lint` let a user say about a site file; None leaves it to the study or this machine."""

    alluxio_version: str | None = field(
        default=None, metadata=option("Alluxio that reads the file: 3.6, 2.9.5, oss-3; the one found here if none.", "VERSION")
    )
    open_files: int | None = field(
        default=None, metadata=option("Files that Alluxio's client has open at once, for the checks of memory.", "N")
    )
    direct_memory: str | None = field(
        default=None, metadata=option("Direct memory of Alluxio's FUSE process, for the checks of memory.", "SIZE")
    )


@dataclass(frozen=True, slots=True)
class Options:
    """FileOptions, checked. ``version`` None is not known; ``direct_memory`` in bytes; ``today`` like 2026-01-31."""

    version: Version | None
    open_files: int | None
    direct_memory: int | None
    today: str


def read(options: contract.Options, recommendation: Recommendation | None = None) -> Options:
    """The options that matter here, checked: what a user says, else the study, else this machine. Raises WrongUsage."""
    named = options.get("alluxio_version")
    if named is None and recommendation is not None:
        named = recommendation.machine.get("alluxio")
    elif named is None:
        named = options.get("alluxio_here")
    memory = options.get("direct_memory")
    try:
        size = None if memory is None else parse_size(str(memory))
    except ValueError as error:
        raise WrongUsage(f"--direct-memory {memory}: {error}.") from None
    return Options(
        _version(named),
        contract.whole_number(options, "open_files", None),
        size,
        str(options.get("today") or ""),
    )


def _version(named: Json) -> Version | None:
    if not named:
        return None
    try:
        return parse_version(str(named))
    except ValueError as error:
        raise WrongUsage(f"--alluxio-version {named}: {error}.") from None


def measured_on(recommendation: Recommendation, options: Options) -> str:
    """The day that the study's name tells, else today; "" where neither is known."""
    match = re.search(r"-(20\d\d)(\d\d)(\d\d)-", recommendation.study)
    return f"{match[1]}-{match[2]}-{match[3]}" if match else options.today


def machine_options() -> dict[str, Json]:
    """The version of the Alluxio that is installed here, as its folder tells, and the day."""
    from runners.alluxio.install import find_version

    return {"alluxio_here": find_version(), "today": time.strftime("%Y-%m-%d")}
