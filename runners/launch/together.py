"""Jobs that several threads wait for, all of which end when the one that waits for these threads is interrupted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock
from typing import Any, TypeVar

from runners.launch.job import Job, Launcher, Process
from runners.runner import Failure

Item = TypeVar("Item")
Answer = TypeVar("Answer")

_AT_ONCE = 64


class Together:
    """A thread that waits for a host is not interrupted by a signal: without this, Ctrl-C would wait for the slowest host."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._jobs: list[Process] = []
        self._over = False

    @contextmanager
    def start(self, launcher: Launcher, job: Job) -> Iterator[Process]:
        """The job at work, in one of the threads; it ends with the with statement, or at once when all shall end."""
        with launcher.start(job) as running:
            with self._lock:
                over = self._over
                self._jobs.append(running)
            if over:
                running.stop()
            yield running

    def ask(self, launcher: Launcher, job: Job, request: Mapping[str, Any], limit: float) -> dict[str, Any] | Failure:
        """What the job's one rank answers to ``request`` within ``limit`` seconds; both are objects of JSON, a line each."""
        with self.start(launcher, job) as running:
            line = running.ask(json.dumps(request), limit)
        if isinstance(line, Failure):
            return line
        try:
            return dict(json.loads(line))
        except ValueError:
            return Failure("environment", f"{job.hosts[0].name}: what it answers is not understood: {line[:80]!r}")

    def each(self, ask: Callable[[Item], Answer], items: Sequence[Item]) -> list[Answer]:
        """``ask`` of every item, in threads. Interrupted, it ends all jobs and raises what interrupted it."""
        with ThreadPoolExecutor(min(_AT_ONCE, max(1, len(items)))) as pool:
            try:
                return list(pool.map(ask, items))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                self._end()
                raise

    def _end(self) -> None:
        with self._lock:
            self._over = True
            jobs = list(self._jobs)
        if jobs:
            with ThreadPoolExecutor(min(_AT_ONCE, len(jobs))) as pool:
                list(pool.map(lambda job: job.stop(), jobs))
