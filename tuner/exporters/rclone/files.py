"""The files of a recommendation by format: variables, a mount script, a systemd unit, an fstab line."""

from __future__ import annotations

from dataclasses import dataclass, field

from runners.options import option
from spaces.rclone import SPACE, held
from tuner.exporters import format as contract
from tuner.exporters.format import Format, find_format
from tuner.exporters.mountfiles import Mount, by_hand, comments, fstab, head, mount_point, program, script, unit
from tuner.exporters.rclone.words import values, variable
from tuner.recommendation import Recommendation

FORMATS = (
    Format("env", "rclone.env", "variables for the environment of rclone mount, KEY=VALUE lines"),
    Format("script", "mount.sh", "a script that mounts the remote with these settings"),
    Format("systemd", "rclone-mount.service", "a systemd unit that keeps the remote mounted"),
    Format("fstab", "fstab", "a line for /etc/fstab"),
)


@dataclass(frozen=True, slots=True)
class FileOptions:
    """What `tune export` and `tune lint` let a user say about a mount."""

    mount_point: str | None = field(default=None, metadata=option("Where the emitted script, unit or line mounts.", "DIR"))
    open_files: int | None = field(default=None, metadata=option("Files that are open at once, for checks of memory.", "N"))


def render(recommendation: Recommendation, format: str, options: contract.Options) -> dict[str, str]:
    """The file of one format. Raises WrongUsage."""
    chosen = find_format(FORMATS, format)
    config = {**SPACE.default, **recommendation.config}
    remote, own = (str(recommendation.options.get(name) or "") for name in ("remote", "config"))
    about = head(recommendation, f"rclone mount of {remote or 'a remote'}")
    about.append(f"Each open file may hold {held(config, 1) / 2**20:.0f} MiB of memory.")
    settings = values(config)
    mount = Mount(
        kind="rclone",
        program=program(recommendation, "rclone"),
        what=remote or "REMOTE:PATH",
        point=mount_point(options, "/mnt/rclone"),
        settings=settings,
        variable="remote",
        background="--daemon",
        words=[*([f"--config={own}"] if own else []), "--read-only"],
        read_ahead=int(config["max_read_ahead"]),
        max_background=int(config["max_background"]),
        ready=True,
    )
    if chosen.name == "env":
        lines = "".join(f"{variable(name)}={value}\n" for name, value in settings.items())
        about += ["For a shell: set -a; . ./rclone.env; set +a", *by_hand(mount)]
        return {chosen.filename: f"{comments(about)}{lines}"}
    about.append("Read-only, as it was measured: without --read-only (ro) files can be written, too.")
    if chosen.name == "script":
        return {chosen.filename: script(mount, about)}
    if chosen.name == "systemd":
        return {chosen.filename: unit(mount, about)}
    return {chosen.filename: fstab(mount, about, ["ro", *([f"config={own}"] if own else [])])}
