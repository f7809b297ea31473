"""What can be mounted: the protocol of a back end (rclone, JuiceFS, Alluxio) and of one mount that it made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from runners.mount.work import Bounds
from runners.runner import Failure, Json, Problem
from spaces.space import Config, Space


class Session(Protocol):
    """One live mount with the settings of one measurement, from the proof that they are live to its end.

    ``folder`` is where the files are; ``live`` are the values that the mount program itself says it runs with; ``share`` is
    the least share of what is read that must have left the store (0.9; less where the store holds data compressed). All but
    ``kill`` are called from the thread that mounted, and from one that reads counters; none may wait for ever on a mount that
    hangs, except that ``kill`` releases it.
    """

    folder: Path
    live: Mapping[str, Json]
    share: float

    def served(self) -> int:
        """Bytes that have left the store since the mount was made. Monotonic; raises OSError once the mount is gone."""

    def answered(self) -> int | None:
        """Bytes that the mount program has handed to the kernel, so that what its page cache answers is missing from it.

        None where that can't be told. Raises OSError once the mount is gone.
        """

    def ended(self) -> Failure | None:
        """Why the mount is no longer there, None while it is (also while it hangs)."""

    def kill(self) -> None:
        """Ends the mount program at once, so that every read on the mount fails and nobody waits on it. From any thread."""

    def close(self) -> None:
        """Unmounts, lazily where it is busy, and ends the mount program. May be called twice, also after ``kill``."""


class Backend(Protocol):
    """Makes mounts. The order of calls: problems, space, prepare, then mount and Session.close again and again, close.

    Made from options without starting anything; raises UsageError there. ``name`` is what people call it.
    """

    name: str

    def facts(self) -> Mapping[str, Json]:
        """What the numbers hold for: version, remote or volume, no secret. Goes into the study's fingerprint."""

    def problems(self) -> list[Problem]:
        """What stands in the way on this machine, each with its mend; cheap. Clears what killed runs left of its own."""

    def limits(self, bounds: Bounds) -> Any:
        """What this machine and load allow: the target's own dataclass, of values that JSON can hold."""

    def space(self, narrowed: Space, bounds: Bounds) -> Space:
        """``narrowed`` with the rules of these limits. Called again when more is known; the same rule names then."""

    def changes(self) -> Sequence[Path]:
        """Files of the user's that are other ones while a study runs: hosts that are tuned together can't share them."""

    def prepare(self, scratch: Path, *, warm: bool) -> None:
        """Called once before the first mount; ``scratch`` is an empty folder of ours. Raises EnvironmentProblem."""

    def mount(self, config: Config, limit: float, *, writable: bool = False) -> Session | Failure:
        """A fresh mount that runs with ``config``, its own caches empty unless ``warm``; proven, or a Failure.

        It can be read only, unless ``writable``: for data of ours alone.
        Never more than ``limit`` seconds. Failure "wrong" where the program runs with other values than were set.
        """

    def discard(self, folder: Path) -> bool:
        """Removes a folder of ours, below a mount, with all in it and for good; False where that is done file by file."""

    def close(self) -> None:
        """Puts back what was there before (a site file, the user's own mount). May be called twice."""
