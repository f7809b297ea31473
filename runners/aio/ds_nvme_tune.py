"""DeepSpeed's ds_nvme_tune, run as it is in a folder of ours, bounded, and read from what it prints or logged so far."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

from runners.aio import engines, pasted, software
from runners.aio.ds_logs import Logs, config_of, parse_printed, read_logs, setting_of, winner
from runners.aio.storage import HEADROOM
from runners.opponent import Allowance, Pick
from runners.process import Completed, run
from runners.runner import Failure, Problem
from runners.scratch import Scratch
from spaces.units import format_duration

_IO_SIZE = 400 << 20
_SETTINGS = 64
# A write run overwrites its file once to warm up and once for its figure.
_WRITES_PER_RUN = 2
# It prints 2^30 bytes a second and calls them GB.
_GIB = 1.073741824
_LOGS = "logs"


def compete(
    folders: Sequence[Path], size: int | None, sweep: Path | None, allowance: Allowance, tell: Callable[[str], None]
) -> Pick | Problem:
    """Its pick for the devices of ``folders``. Nothing that it writes is left. Raises EnvironmentProblem."""
    program = find_program()
    if program is None:
        return Problem("deepspeed", "error", "ds_nvme_tune is not installed; it comes with DeepSpeed", "pip install deepspeed")
    state = engines.deepspeed_loads()
    if not state.loads:
        return Problem("async_io", "error", f"ds_nvme_tune can't run: {state.reason}", state.mend or "tune doctor aio")
    moved = size or _IO_SIZE
    need = 2 * moved + HEADROOM
    for folder in folders:
        free = shutil.disk_usage(folder).free
        if free < need:
            message = f"ds_nvme_tune needs {need} bytes in {folder} and {free} are free; on a full disk it reports speeds too"
            return Problem("space", "error", message, "--ds-io-size smaller")
    with ExitStack() as held:
        places = [held.enter_context(Scratch.create(folder)).path for folder in folders]
        work = places[0] / "ds_nvme_tune"
        work.mkdir()
        # Started inside its folder and told ".": it splits command lines at spaces and mappings at colons.
        names = ["."]
        for number, place in enumerate(places[1:], 1):
            (work / f"d{number}").symlink_to(place.resolve(), target_is_directory=True)
            names.append(f"d{number}")
        argv = [sys.executable, str(program), "--nvme_dir", *names, "--log_dir", _LOGS]
        argv += [] if size is None else ["--io_size", str(size)]
        argv += [] if sweep is None else ["--sweep_config", str(sweep.resolve())]
        watch = _Watch(work, places, moved, planned(sweep), allowance, tell)
        environment = {**os.environ, "PATH": state.path}
        since = time.time()
        try:
            outcome = run(argv, limit=allowance.seconds, env=environment, cwd=work, enough=watch)
            pick = _pick(outcome, watch, environment)
        finally:
            release_locks(since)
        return pick


class _Watch:
    """Asked while it runs whether it may go on; tells how far it is."""

    def __init__(
        self,
        work: Path,
        places: Sequence[Path],
        size: int,
        settings: int,
        allowance: Allowance,
        tell: Callable[[str], None],
    ) -> None:
        self._work, self._places, self._size, self._allowance = work, places, size, allowance
        self._tell = tell
        self.settings = settings
        self.used_up = False

    def logs(self) -> Logs:
        return read_logs(self._work / _LOGS)

    def written(self, logs: Logs) -> int:
        """Bytes: the files that are read, and every write run that ended; of one under way what its file holds."""
        ended = sum(speed is not None for speed in logs.write.values())
        total = ended * _WRITES_PER_RUN * self._size * len(self._places) + self._files("_aio_read_*")
        return total + (self._files("_aio_write_*") if len(logs.write) > ended else 0)

    def _files(self, pattern: str) -> int:
        total = 0
        for folder in (self._work, *self._places[1:]):
            for path in folder.glob(pattern):
                with suppress(OSError):
                    total += path.stat().st_size
        return total

    def __call__(self) -> bool:
        logs = self.logs()
        self._tell(f"{logs.done} of {2 * self.settings} runs")
        ahead = _WRITES_PER_RUN * self._size * len(self._places) if logs.write else 0
        self.used_up = self.written(logs) + ahead > self._allowance.bytes_written
        return self.used_up


def _pick(outcome: Completed | Failure, watch: _Watch, environment: Mapping[str, str]) -> Pick:
    logs = watch.logs()
    printed = parse_printed(outcome.stdout) if isinstance(outcome, Completed) else None
    config = None if printed is None else setting_of(printed.block)
    pick = Pick(None, outcome.seconds, watch.written(logs), logs.settings, False, "")
    if printed is not None and config is not None:
        claimed = {"read_gbs": printed.read * _GIB, "write_gbs": printed.write * _GIB}
        note = f"finished its {logs.settings} settings, two runs each; the largest sum of read and write won"
        found = pasted.try_block(printed.block, environment)
        return replace(pick, config=config, finished=True, note=note, claimed=claimed, printed=printed.text, pasted=found)
    how = _how_it_ended(outcome, watch, logs)
    best = winner(logs)
    if best is None:
        return replace(pick, note=f"{how}; it had no figure to choose by")
    key, read, write = best
    had = "the best read alone so far, since no setting had its write yet" if write is None else "the best of what it had"
    claimed = {"read_gbs": read * _GIB, **({} if write is None else {"write_gbs": write * _GIB})}
    found = pasted.try_key(key, environment)
    return replace(pick, config=config_of(key), note=f"{how}; {had}", claimed=claimed, pasted=found)


def _how_it_ended(outcome: Completed | Failure, watch: _Watch, logs: Logs) -> str:
    done = f"{logs.done} of {2 * watch.settings} runs done"
    dying = f" (it hung: {logs.dying})" if logs.dying else ""
    if isinstance(outcome, Completed):
        said = [line for line in (outcome.stderr or outcome.stdout).splitlines() if line.strip()]
        last = said[-1].strip()[:300] if said else f"exit code {outcome.returncode}"
        return f"broke down with {done}: {last}"
    if outcome.kind != "timeout":
        return f"broke down with {done}: {outcome.reason}"
    if watch.used_up:
        return f"stopped where it would have written more than allowed, {done}"
    return f"stopped after {format_duration(outcome.seconds)}, {done}{dying}"


def find_program() -> Path | None:
    """The script that belongs to this interpreter, else the one on PATH."""
    own = Path(sys.executable).parent / "ds_nvme_tune"
    if own.is_file():
        return own
    found = shutil.which("ds_nvme_tune")
    return Path(found) if found and software.version("deepspeed") else None


def planned(sweep: Path | None) -> int:
    """Settings that it will try; 0 when its sweep file says nothing that can be counted."""
    if sweep is None:
        return _SETTINGS
    try:
        lists = json.loads(sweep.read_text())
        return math.prod(len(values) for values in lists.values())
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return 0


def release_locks(since: float) -> None:
    """Removes lock files that killed processes left since then: everybody's next load of the op would wait for them."""
    for lock in software.find_op().locks:
        with suppress(OSError):
            if lock.stat().st_mtime >= since and software.holder(lock) is None:
                lock.unlink()
