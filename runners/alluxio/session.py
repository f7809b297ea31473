"""One live mount of Alluxio with the settings of one measurement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from runners.alluxio import metrics
from runners.alluxio.process import FuseProcess, abort, end, mount_at, of_pid
from runners.mount.counters import moved_by
from runners.mount.mounting import MountProgram
from runners.mount.unmount import detach
from runners.process import descendants
from runners.runner import Failure, Json


class AlluxioSession:
    """See runners.mount.backend.Session. ``program`` is None where a command of the user's made the mount.

    ``told`` takes credentials out of a failure.
    """

    share = 0.9

    def __init__(
        self,
        point: Path,
        process: FuseProcess,
        live: Mapping[str, Json],
        program: MountProgram | None,
        web: int | None,
        told: Callable[[Failure], Failure],
    ) -> None:
        self.folder, self.live = point, live
        self._told = told
        self._process, self._program = process, program
        self._web = web if web is not None and metrics.read(web) is not None else None
        self._begun, _ = self._moved()

    @property
    def counted_by(self) -> str:
        return "the FUSE process's metrics" if self._web is not None else "what the kernel counts that the FUSE process read"

    def served(self) -> int:
        if self._web is not None and (counted := metrics.read(self._web)) is not None:
            return counted
        return self._moved()[0] - self._begun

    def answered(self) -> int | None:
        return self._moved()[1]

    def _moved(self) -> tuple[int, int]:
        """Bytes that the FUSE process and what it started have read and written. Raises OSError once it is gone."""
        own = moved_by(self._process.pid)
        read, written = own.read, own.written
        for pid in descendants(self._process.pid):
            with suppress(OSError):
                other = moved_by(pid)
                read, written = read + other.read, written + other.written
        return read, written

    def ended(self) -> Failure | None:
        if self._program is not None:
            ended = self._program.ended()
            return None if ended is None else self._told(ended)
        now = of_pid(self._process.pid)
        if now is None or abs(now.started - self._process.started) > 1.0:
            return Failure("crash", f"the FUSE process of {self.folder} ended")
        return Failure("crash", f"{self.folder} is no longer mounted") if mount_at(self.folder) is None else None

    def kill(self) -> None:
        abort(self.folder)
        if self._program is not None:
            self._program.kill()
        else:
            with suppress(PermissionError):
                end(self._process.pid, self._process.started, 0.0)

    def close(self) -> None:
        """A mount of ours is taken away; the one of a user's command stays for the next remount, unless it hangs."""
        if self._program is not None:
            self._program.close()
            if mount_at(self.folder) is not None:
                detach(self.folder)
