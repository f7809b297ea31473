"""Numbers that a device can't have delivered: a cache or a sparse file was measured instead."""

from __future__ import annotations

from collections.abc import Mapping

# Links are rated before their own overhead, and our clock starts after the first request is under way by microseconds only.
_SLACK = 1.02


def implausible(metrics: Mapping[str, float], limit_gbs: float | None) -> str | None:
    """A sentence where a rate (10^9 bytes a second) is above what the link or the devices carry, else None."""
    if limit_gbs is None:
        return None
    for name, what in (("read_gbs", "reads"), ("write_gbs", "writes")):
        rate = metrics.get(name)
        if rate is not None and rate > limit_gbs * _SLACK:
            return (
                f"implausible: {what} of {rate:.2f} GB/s over a device that carries {limit_gbs:.2f} at most; "
                "a cache or a sparse file answered, not the device"
            )
    return None
