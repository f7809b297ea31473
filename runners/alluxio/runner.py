"""The runner of `tune alluxio`: that of every mount, with Alluxio's back end and the question what bounds it."""

from __future__ import annotations

from pathlib import Path

from runners.alluxio.backend import AlluxioBackend
from runners.alluxio.options import Options
from runners.mount.backend import Session
from runners.mount.honest import Verdict
from runners.mount.meter import Moved
from runners.mount.runner import MountRunner
from runners.mount.work import Reading
from runners.runner import Json
from spaces.space import Space

_NEAR = 0.9
_NET = Path("/sys/class/net")


class AlluxioRunner(MountRunner):
    """Measures reads through Alluxio's FUSE mount."""

    @classmethod
    def create(cls, options: Options, narrowed: Space) -> AlluxioRunner:
        """Starts nothing. Raises UsageError."""
        runner = cls.of(AlluxioBackend(options), options, narrowed)
        assert isinstance(runner, AlluxioRunner)
        return runner

    def _evidence(
        self, session: Session, reading: Reading, moved: list[Moved], verdict: Verdict, busy: float
    ) -> dict[str, Json]:
        found = super()._evidence(session, reading, moved, verdict, busy)
        seconds = sum(epoch.seconds for epoch in reading.epochs)
        said = link_bound(sum(each.served for each in moved), seconds, link_speed())
        warnings = found.get("warnings")
        if said and isinstance(warnings, list):
            found["warnings"] = [*warnings, said]
            found.setdefault("keep", said)
        return {**found, "counted_by": getattr(session, "counted_by", "")}


def link_bound(received: int, seconds: float, speed: int | None) -> str:
    """That the network card is the limit, as a sentence; "" where it isn't or isn't known. ``speed`` in bits a second."""
    if not speed or seconds <= 0 or received * 8 / seconds < _NEAR * speed:
        return ""
    came, can = f"{received * 8 / seconds / 1e9:.3g} Gbit/s", f"{speed / 1e9:.3g}"
    return f"not storage-bound: {came} came in and the network card does {can}; no setting passes that"


def link_speed(net: Path = _NET) -> int | None:
    """Bits a second of the fastest card that is up; None where none tells."""
    speeds = []
    try:
        cards = list(net.iterdir())
    except OSError:
        return None
    for card in cards:
        try:
            if (card / "operstate").read_text().strip() == "up":
                speeds.append(int((card / "speed").read_text()))
        except (OSError, ValueError):
            continue
    return max((speed for speed in speeds if speed > 0), default=0) * 1_000_000 or None
