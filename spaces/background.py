"""How many requests the kernel lets be under way in the background on a FUSE mount: a knob of the targets that mount by FUSE.

Sources: the kernel's fs/fuse/inode.c (what a mount gets), fs/fuse/control.c (who may set how much) and fs/fuse/file.c
(read-ahead is sent in the background where the program takes several reads at once, and ends at the congestion threshold).
"""

from __future__ import annotations

from dataclasses import replace

from spaces.space import Config, Domain, Knob, Space, off_or_log2

CONNECTIONS = "/sys/fs/fuse/connections"
MOUNT_FUSECTL = f"mount -t fusectl fusectl {CONNECTIONS}"


def max_background(own: str, source: str) -> Knob:
    """The knob; ``own`` says what a mount of the program has by itself, ``source`` where that stands."""
    return Knob(
        "max_background",
        off_or_log2(16, 512),
        0,
        f"Requests that the kernel lets be under way ahead of reads; 0 leaves {own}. Only with --system.",
        f"{source}; {CONNECTIONS}/*/max_background",
        unit="count",
        lowest=0,
        limit=(1 << 16) - 1,
    )


def congestion_threshold(most: int) -> int:
    """The threshold that FUSE's libraries put beside ``most``: with so many under way the kernel reads no further ahead."""
    return max(1, most * 3 // 4)


def broken(config: Config, *, system: bool, fusectl: bool) -> str | None:
    """Why that limit can't be set here; None where it can, or is left alone. ``fusectl``: whether CONNECTIONS is mounted."""
    if not int(config["max_background"]):
        return None
    if not system:
        return "only root may set how many requests the kernel lets be under way in the background: --system"
    return None if fusectl else f"max_background is set in {CONNECTIONS}, which is not mounted here: {MOUNT_FUSECTL}"


def left_alone(space: Space) -> Space:
    """``space`` with the limit at 0 alone where 0 is in it: most of what a search draws would else be illegal."""
    if 0 not in space["max_background"].domain.values:
        return space
    return replace(
        space,
        knobs=tuple(
            replace(knob, domain=Domain(knob.domain.kind, (0,))) if knob.name == "max_background" else knob
            for knob in space.knobs
        ),
    )
