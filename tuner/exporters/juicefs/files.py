"""The files of a recommendation by format: a mount script, a systemd unit, an fstab line."""

from __future__ import annotations

from dataclasses import dataclass, field

from runners.options import option
from spaces.juicefs import SPACE, held
from tuner.exporters import format as contract
from tuner.exporters.format import Format, find_format
from tuner.exporters.juicefs.words import values
from tuner.exporters.mountfiles import Mount, fstab, head, mount_point, program, script, unit
from tuner.recommendation import Recommendation

FORMATS = (
    Format("script", "mount.sh", "a script that mounts the volume with these settings"),
    Format("systemd", "juicefs-mount.service", "a systemd unit that keeps the volume mounted"),
    Format("fstab", "fstab", "a line for /etc/fstab"),
)


@dataclass(frozen=True, slots=True)
class FileOptions:
    """What `tune export` lets a user say about a mount."""

    mount_point: str | None = field(default=None, metadata=option("Where the emitted script, unit or line mounts.", "DIR"))


def render(recommendation: Recommendation, format: str, options: contract.Options) -> dict[str, str]:
    """The file of one format. Raises WrongUsage."""
    chosen = find_format(FORMATS, format)
    config = {**SPACE.default, **recommendation.config}
    about = head(recommendation, "juicefs mount")
    about.append(f"Its buffer may hold {held(config) / 2**20:.0f} MiB of memory. A password goes into META_PASSWORD.")
    mount = Mount(
        kind="juicefs",
        program=program(recommendation, "juicefs"),
        what=str(recommendation.options.get("meta") or "META-URL"),
        point=mount_point(options, "/mnt/juicefs"),
        settings=values(config),
        variable="meta",
        background="-d",
        read_ahead=int(config["kernel_read_ahead"]),
        max_background=int(config["max_background"]),
    )
    if chosen.name == "script":
        return {chosen.filename: script(mount, about)}
    if chosen.name == "systemd":
        return {chosen.filename: unit(mount, about)}
    return {chosen.filename: fstab(mount, about, [])}
