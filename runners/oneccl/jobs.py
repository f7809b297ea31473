"""The warm jobs that are kept: one for each set of variables that a process reads at its start, the last used ones."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from statistics import median

from runners.oneccl.warm import Warm
from runners.runner import Failure
from spaces.oneccl import WARM

Start = Callable[[Mapping[str, str], float], Warm | Failure]

# How a process happens to lie in memory is luck that lasts for its life: a race must not take one job's luck for a setting's.
_SERVES, _AGES = 10, 1200.0
_FIRST, _LEAST, _LONGEST, _PATIENCE = 60.0, 20.0, 60.0, 10.0
_SHARE = 0.4


class Jobs:
    """``memory`` are the bytes that jobs may take on a host, ``ppn`` their ranks there."""

    def __init__(self, start: Start, ppn: int, memory: int) -> None:
        self._start, self._ppn, self._memory = start, ppn, memory
        self._kept: OrderedDict[tuple[tuple[str, str], ...], Warm] = OrderedDict()
        self._starts: list[float] = []

    @property
    def start_limit(self) -> float:
        """Seconds that a job may take to start: many times what others took."""
        if not self._starts:
            return _FIRST
        return min(_LONGEST, max(_LEAST, _PATIENCE * median(self._starts)))

    def started(self, seconds: float) -> None:
        """How long a job took to start."""
        self._starts.append(seconds)

    def get(self, env: Mapping[str, str], limit: float | None = None) -> Warm | Failure:
        """A job with the variables ``env``: a kept one, or a new one for which the longest unused may have to go."""
        key = tuple(sorted(env.items()))
        job = self._kept.pop(key, None)
        if job is not None and (job.dead or job.served >= _SERVES or job.age > _AGES):
            job.close()
            job = None
        if job is None:
            while len(self._kept) >= self._room():
                self._kept.popitem(last=False)[1].close()
            started = self._start(env, limit or self.start_limit)
            if isinstance(started, Failure):
                return started
            self.started(started.seconds)
            job = started
        self._kept[key] = job
        return job

    def drop(self, job: Warm) -> None:
        for key, kept in list(self._kept.items()):
            if kept is job:
                del self._kept[key]
        job.close()

    def quiet(self, job: Warm) -> None:
        """After its turn: a job that spins while it has nothing to do would disturb the others, and is not kept."""
        if job.restless:
            self.drop(job)

    def _room(self) -> int:
        largest = max((job.memory for job in self._kept.values()), default=0)
        if not largest:
            return WARM
        return max(1, min(WARM, int(self._memory * _SHARE / (largest * self._ppn))))

    def close(self) -> None:
        kept, self._kept = self._kept, OrderedDict()
        if kept:  # at the same time: where a host is gone each takes a while to see it
            with ThreadPoolExecutor(len(kept)) as pool:
                list(pool.map(Warm.close, kept.values()))
