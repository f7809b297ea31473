"""A job at work: hears its ranks, ends all of them when one fails or the time is over, and proves that nothing is left."""

from __future__ import annotations

import selectors
import threading
import time
from collections import Counter
from collections.abc import Sequence

from runners.hosts.host import Host
from runners.launch.channel import Channel
from runners.launch.frames import Decoder, Frame
from runners.launch.job import Ended, Finished, Job
from runners.launch.reach import Reach
from runners.launch.state import THIS_HOST, Lines, RankState, log_of, verdict_of, verdict_of_launcher
from runners.launch.sweep import sweep
from runners.runner import Failure

_TICK = 0.2
# sshd refuses some of those that knock at the same time, from ten on.
_KNOCKING = 6
_ITSELF = 1.5


class Running:
    """A job that a launcher has started.

    ``channels`` are one a rank; or, with ``watches`` (one a host), the only one is for the program that starts the ranks.
    A thread of its own listens all the time, so that signs of life go on while nobody waits. ``ask`` and ``wait`` are for one
    thread at a time.
    """

    def __init__(
        self, job: Job, channels: Sequence[Channel], watches: Sequence[Channel], reach: Reach, command: Sequence[str]
    ) -> None:
        self._job, self._reach, self._command, self._voice = job, reach, tuple(command), channels[0]
        self._below = Decoder(job.token) if watches else None
        self._ranks = [RankState(number, rank.host.name) for number, rank in enumerate(job.ranks)]
        self._launcher = RankState(-1, THIS_HOST)
        self._watches = {channel: RankState(-1, channel.name) for channel in watches}
        self._channels = [*channels, *watches]
        self._states = [*([self._launcher] if watches else self._ranks), *self._watches.values()]
        self._begun = self._turned = time.monotonic()
        self._held_up: list[float] = []
        self._changed = threading.Condition()
        self._lines = Lines()
        self._stop = False
        self._outcome: Finished | Failure | None = None
        self._error: BaseException | None = None
        # Not the thread's own join: interrupted, that takes a running thread for a finished one (Python 3.9 to 3.12).
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._listen, name=f"job {job.token[:8]}", daemon=True)
        self._thread.start()

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def ask(self, text: str, limit: float) -> str | Failure:
        """Hands a line to rank 0's standard input and returns the next line of its standard output.

        No answer within ``limit`` seconds ends the job: Failure "timeout". So does its own end: that Failure.
        """
        with self._changed:
            self._lines.whole.clear()
            before = len(self._held_up)
        self._voice.tell_input(text.encode() + b"\n")
        with self._changed:
            self._changed.wait_for(lambda: self._lines.whole or self._done.is_set(), limit)
            if self._lines.whole:
                return self._lines.whole.popleft()
            late = not self._done.is_set()
        self.stop()
        outcome = self._result()
        if late and sum(self._held_up[before:]) > limit / 4:
            return Failure("crash", self._held_up_said(), self._log(), limit)
        if late and not (isinstance(outcome, Failure) and outcome.kind == "environment"):
            return Failure(
                "timeout", f"rank 0 on {self._ranks[0].host} gave no answer within {limit:.1f} s", self._log(), limit
            )
        return outcome if isinstance(outcome, Failure) else Failure("crash", "the job ended before it answered", self._log())

    def wait(self) -> Finished | Failure:
        """The job's end; its input ends now. Interrupted, it ends the job everywhere first."""
        try:
            self._voice.end_input()
            self._done.wait()
        except BaseException:
            self.stop()
            raise
        return self._result()

    def stop(self) -> None:
        """Ends all ranks on all hosts, if they still run; returns when that is proven or given up."""
        self._stop = True
        self._done.wait()
        self._thread.join()

    def _result(self) -> Finished | Failure:
        if self._error is not None:
            raise self._error
        assert self._outcome is not None
        return self._outcome

    def _listen(self) -> None:
        try:
            with selectors.DefaultSelector() as selector:
                failure = self._until_settled(selector)
                if failure is not None:
                    self._end_everywhere(selector, failure)
            self._outcome = self._finished() if failure is None else self._proven(failure)
        except BaseException as error:
            self._error = error
        finally:
            for channel in self._channels:
                channel.close()
            self._done.set()
            with self._changed:
                self._changed.notify_all()

    def _until_settled(self, selector: selectors.BaseSelector) -> Failure | None:
        """None when all have ended well, and all hosts have said that nothing is left."""
        while True:
            try:
                self._begin_some(selector)
            except OSError as error:
                program = error.filename or self._reach.command(None)[0]
                return Failure("environment", f"{program} can't be started here: {error.strerror or error}")
            self._turn(selector)
            if self._stop:
                return Failure("crash", "the job was stopped")
            if time.monotonic() - self._begun >= self._job.limit:
                return Failure("timeout", f"the job was stopped after {self._job.limit:.1f} s")
            failure = verdict_of(self._ranks, list(zip(self._channels, self._states, strict=True)), self._reach)
            if failure is None and self._below is not None:
                failure = verdict_of_launcher(self._ranks, self._launcher)
            if failure is not None:
                return failure
            decoders = [channel.decoder for channel in self._channels] + ([self._below] if self._below else [])
            if any(decoder.damaged for decoder in decoders):
                return Failure("crash", "output of the job was damaged on its way here")
            if all(rank.end for rank in self._ranks) and (self._below is None or self._launcher.end):
                if all(watch.end for watch in self._watches.values()):
                    return None
                for channel in self._watches:  # saying it once more does no harm
                    channel.end_input()

    def _begin_some(self, selector: selectors.BaseSelector) -> None:
        knocking = Counter(channel.name for channel in self._channels if channel.connecting)
        for channel in self._channels:
            if not channel.begun_at_all and knocking[channel.name] < _KNOCKING:
                knocking[channel.name] += 1
                channel.begin()
                for stream in channel.streams:
                    selector.register(stream, selectors.EVENT_READ, channel)

    def _turn(self, selector: selectors.BaseSelector) -> None:
        """Hears what there is to hear, for a moment."""
        self._look_at_the_clock()
        interval = self._reach.silence / 5
        for channel in self._channels:
            channel.beat(interval)
        pause = 0.01 if any(channel.unsaid and not channel.ended for channel in self._channels) else _TICK
        ready = selector.select(pause)
        self._look_at_the_clock()
        for channel in {id(key.data): key.data for key, _ in ready}.values():
            for frame in channel.read():
                self._take(channel, frame)
            if channel.ended:
                for stream in channel.streams:
                    selector.unregister(stream)
        if not selector.get_map():
            time.sleep(0.01)

    def _look_at_the_clock(self) -> None:
        """Sees that this process was held up (stopped, or its machine suspended): silence meanwhile is no host's fault."""
        now = time.monotonic()
        if (late := now - self._turned) > 1.0:
            self._held_up.append(late)
            for state in [*self._ranks, *self._watches.values()]:
                state.heard += late
        self._turned = now

    def _held_up_said(self) -> str:
        return f"this program itself was held up for {max(self._held_up):.0f} s, and the job ended meanwhile"

    def _take(self, channel: Channel, frame: Frame) -> None:
        if channel in self._watches:
            self._watches[channel].take(frame)
        elif self._below is None:
            self._take_of_rank(frame)
        elif frame.kind == "O":
            for inner in self._below.feed(frame.data):
                self._take_of_rank(inner)
        else:
            self._launcher.take(frame)

    def _take_of_rank(self, frame: Frame) -> None:
        if not 0 <= frame.rank < len(self._ranks):
            return
        self._ranks[frame.rank].take(frame)
        if frame.rank == 0 and frame.kind == "O":
            with self._changed:
                self._lines.add(frame.data)
                self._changed.notify_all()

    def _end_everywhere(self, selector: selectors.BaseSelector, failure: Failure) -> None:
        """Asks every keeper to end what it keeps, and hears their last words."""
        if failure.kind == "crash" and self._below is not None and not self._stop:
            # mpirun sees a dead rank as well, ends the others and says what it knows.
            patience = time.monotonic() + _ITSELF
            while time.monotonic() < patience and not self._launcher.end:
                self._turn(selector)
        for channel in self._channels:
            channel.tell_end()
        deadline = time.monotonic() + self._job.grace + 6.0
        while time.monotonic() < deadline:
            now = time.monotonic()
            at_work = any(
                not state.end and channel.begun_at_all and not channel.ended and now - channel.heard < self._reach.silence
                for channel, state in zip(self._channels, self._states, strict=True)
            )
            if not at_work:
                return
            self._turn(selector)

    def _finished(self) -> Finished | Failure:
        for state in [*self._ranks, *self._watches.values()]:
            if state.left:
                return self._proven(Failure("environment", f"the job left {', '.join(state.left)} on {state.host}"))
        ended = tuple(Ended(r.number, r.host, r.node, r.stdout, r.stderr, r.seconds) for r in self._ranks)
        return Finished(ended, time.monotonic() - self._begun, self._launcher_log(), self._command)

    def _proven(self, failure: Failure) -> Failure:
        """``failure`` with its log, once nothing is left on any host; or what is left, and where."""
        seconds = time.monotonic() - self._begun
        for host, left in sweep(self._reach, self._unsure(), self._job.token).items():
            if isinstance(left, str):
                known = failure.kind == "environment" and host.name in failure.reason
                reason = failure.reason if known else f"{host.name} can't be reached any more: {left} ({failure.reason})"
                return Failure("environment", reason, self._log(), seconds)
            if left:
                reason = f"{', '.join(left)} can't be ended on {host.name} ({failure.reason})"
                return Failure("environment", reason, self._log(), seconds)
        # Hosts end by themselves what nobody asks about any more.
        if failure.kind in ("crash", "environment") and max(self._held_up, default=0.0) >= self._reach.silence:
            return Failure("crash", self._held_up_said(), failure.log or self._log(), seconds)
        return Failure(failure.kind, failure.reason, failure.log or self._log(), seconds)

    def _unsure(self) -> list[Host]:
        """Hosts on which a process of the job may be left: those whose keepers have not said otherwise."""
        if self._below is None:
            pairs = zip(self._job.ranks, zip(self._channels, self._states, strict=True), strict=True)
            unsure = [rank.host for rank, (channel, state) in pairs if channel.begun_at_all and (not state.end or state.left)]
            return list(dict.fromkeys(unsure))
        sure = {state.host for state in self._watches.values() if state.end and not state.left}
        unsure = [host for host in self._job.hosts if host.name not in sure]
        return unsure if self._launcher.end else [*unsure, Host("localhost")]

    def _launcher_log(self) -> str:
        inner = self._below.noise + self._launcher.stderr if self._below else ""
        return (inner + "".join(channel.log for channel in self._channels)).strip("\n")

    def _log(self) -> str:
        return log_of(self._launcher_log(), self._ranks)
