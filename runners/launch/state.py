"""What is known of one rank, and what is to be made of all of them."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from runners.launch.channel import Channel
from runners.launch.frames import Frame
from runners.launch.reach import Reach, last_line
from runners.process import CAPTURE, Tail, signal_name
from runners.runner import Failure
from runners.worker import last_words

THIS_HOST = "this host"
_LOG = 8192
_SSH_FAILED = "ssh ended without a word"


class RankState:
    """One rank, from its keeper's frames. ``end`` is None while it runs."""

    def __init__(self, number: int, host: str) -> None:
        self.number, self.host = number, host
        self.node = ""
        self.started: float | None = None
        self.heard = time.monotonic()
        self.end: dict[str, Any] | None = None
        self._output, self._errors = Tail(CAPTURE), Tail(CAPTURE)

    def take(self, frame: Frame) -> None:
        self.heard = time.monotonic()
        if frame.kind == "O":
            self._output.add(frame.data)
        elif frame.kind == "E":
            self._errors.add(frame.data)
        elif frame.kind == "S":
            self.started = self.heard
            self.node = str(json.loads(frame.data)["host"])
        elif frame.kind == "X":
            self.end = json.loads(frame.data)

    @property
    def stdout(self) -> str:
        return self._output.text()

    @property
    def stderr(self) -> str:
        return self._errors.text()

    @property
    def left(self) -> list[str]:
        return list(self.end["left"]) if self.end else []

    @property
    def seconds(self) -> float:
        return float(self.end["seconds"]) if self.end else 0.0

    @property
    def failure(self) -> Failure | None:
        """What is wrong with how it ended, if anything."""
        if self.end is None:
            return None
        who = f"rank {self.number} on {self.host}"
        if "error" in self.end:
            what, why = self.end["error"]
            if what == "cpus":
                return Failure("infeasible", f"{who} can't be bound to its CPUs: {why}")
            named = "its folder can't be used" if what == "cwd" else "its program can't be started"
            return Failure("environment", f"{who}: {named}: {why}")
        status = self.end["status"]
        if status == 0:
            return None
        if self.end["stopped"] == "limit":
            return Failure("timeout", f"{who} was stopped at its limit")
        how = f"was ended by {signal_name(-status)}" if status < 0 else f"ended with status {status}"
        said = last_words(self.stderr) or last_line(self.stderr) or last_line(self.stdout)
        return Failure("crash", f"{who} {how}" + (f": {said[:300]}" if said else ""))


class Lines:
    """The last whole lines of a stream, not yet asked for."""

    def __init__(self) -> None:
        self.whole: deque[str] = deque(maxlen=4096)
        self._partial: list[bytes] = []

    def add(self, data: bytes) -> None:
        self._partial.append(data)
        if b"\n" in data:
            *lines, rest = b"".join(self._partial).split(b"\n")
            self._partial = [rest]
            self.whole.extend(line.decode(errors="replace") for line in lines)


def verdict_of(ranks: Sequence[RankState], kept: Sequence[tuple[Channel, RankState]], reach: Reach) -> Failure | None:
    """What ends the job: a rank that failed by itself, or a host that is gone. None while all is well."""
    for rank in ranks:
        if rank.failure is not None and rank.end is not None and not rank.end["stopped"]:
            return rank.failure
    now = time.monotonic()
    for state in [*ranks, *(state for _, state in kept if state.host != THIS_HOST)]:
        if state.started is not None and state.end is None and now - state.heard > reach.silence:
            return Failure("environment", f"{state.host} went away: nothing was heard from it for {reach.silence:.0f} s")
    for channel, state in kept:
        if state.end is not None or not channel.begun_at_all:
            continue
        if channel.ended:
            lost = "the connection to it ended" if state.started else "it can't be reached"
            return Failure("environment", f"{state.host}: {lost}: {channel.complaint or _SSH_FAILED}")
        if state.started is None and now - channel.begun > reach.connect + reach.silence:
            return Failure("environment", f"{state.host}: nothing was started there: {channel.complaint or 'no answer'}")
    return None


def verdict_of_launcher(ranks: Sequence[RankState], launcher: RankState) -> Failure | None:
    """mpirun or srun ended and not all ranks had ended well."""
    if launcher.end is None:
        return None
    if "error" in launcher.end:
        return Failure("environment", f"the launcher can't be started: {launcher.end['error'][1]}")
    for rank in ranks:
        if rank.failure is not None:  # only those that were asked to end are left here
            return rank.failure
    said = last_line(launcher.stderr) or last_line(launcher.stdout) or f"status {launcher.end['status']}"
    missing = list(dict.fromkeys(rank.host for rank in ranks if rank.end is None and rank.started is None))
    if missing:
        return Failure("environment", f"nothing was started on {', '.join(missing)}: {said[:300]}")
    for rank in ranks:
        if rank.end is None:
            return Failure("crash", f"rank {rank.number} on {rank.host} ended without a word: {said[:300]}")
    return None


def log_of(launcher: str, ranks: Sequence[RankState]) -> str:
    """What there is to read about a failed job: the launcher's words, and the end of each rank's output."""
    share = max(512, _LOG // len(ranks))
    parts = [launcher[-_LOG:]]
    for rank in ranks:
        if said := (rank.stderr or rank.stdout)[-share:].strip("\n"):
            parts.append(f"rank {rank.number} on {rank.host}:\n{said}")
    return "\n".join(part for part in parts if part)[-2 * _LOG :]
