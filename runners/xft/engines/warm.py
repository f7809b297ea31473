"""Jobs of the engine torch that wait for work: started for one layout, then asked for requests as often as wanted."""

from __future__ import annotations

import base64
import json
import random
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from runners.launch.job import Job, Process
from runners.runner import Failure
from runners.xft.engines.engine import ranks_of
from runners.xft.engines.sending import command
from runners.xft.failures import explain, port_taken
from runners.xft.layout import Layout
from runners.xft.place import Place

Json = dict[str, Any]
_MODULES = (
    "runners.topology.probe", "runners.oneccl.rank_wire", "runners.oneccl.rank_library", "runners.xft.engines.placing",
    "runners.xft.engines.live", "runners.xft.engines.torch_shares", "runners.xft.engines.torch_decoder",
    "runners.xft.engines.torch_talk", "runners.xft.engines.torch_rank",
)  # fmt: skip
# A job that nobody closes ends by itself.
_LIFE = 3600.0
_PARTING = 10.0
_PORTS = (15000, 30000)  # below those that systems hand out by themselves
_TRIES = 3
# The kernel takes about 2 MB of words for one program; mpirun gets all ranks' at once.
_MOST_WORDS = 1 << 20
# How a process happens to lie in memory is luck that lasts for its life: a race must not take one job's luck for a setting's.
_SERVES, _AGES = 4, 900.0
# A race of five finalists and the baseline keeps all of its jobs, where memory allows: idle ones keep their weights.
_MOST = 6


class Warm:
    """One job at work. ``ranks`` is what each rank told of itself at its start, or since."""

    def __init__(self, running: Process, state: Json, seconds: float) -> None:
        self._running, self.seconds = running, seconds
        self.ranks: list[Json] = state["ranks"]
        self.served = 0
        self.dead = False
        self._begun = time.monotonic()

    @property
    def memory(self) -> int:
        """Bytes of all ranks."""
        return sum(int(each["rss"]) for each in self.ranks)

    @property
    def worn(self) -> bool:
        return self.dead or self.served >= _SERVES or time.monotonic() - self._begun > _AGES

    @property
    def restless(self) -> bool:
        """Whether a rank takes CPU time while it has nothing to do, as seen before the last request."""
        return max(float(each["idle"]) for each in self.ranks) > 0.05

    def run(self, seconds: float, least: int, most: int, limit: float) -> Json | Failure:
        """{"requests": …, "ranks": reports} or {"wrong": why}; see runners.xft.engines.torch_rank."""
        self.served += 1
        return self._ask({"do": "run", "seconds": seconds, "least": least, "most": most}, limit)

    def rest(self, limit: float = 20.0) -> None:
        """Waits a moment and sees whether the ranks do so too: those that spin would disturb what is measured next."""
        time.sleep(0.1)
        reply = self._ask({"do": "state"}, limit)
        if not isinstance(reply, Failure):
            self.ranks = reply["ranks"]

    def _ask(self, request: Json, limit: float) -> Json | Failure:
        line = self._running.ask(json.dumps(request), limit)
        if isinstance(line, Failure):
            self.dead = True
            return explain(line)
        try:
            return dict(json.loads(line))
        except ValueError:
            self.close()
            return Failure("crash", f"rank 0's answer is not understood: {line[:80]!r}")

    def close(self) -> None:
        """Lets the ranks leave in order; ends those that don't."""
        if not self.dead:
            self.dead = True
            if not isinstance(self._running.ask(json.dumps({"do": "end"}), _PARTING), Failure):
                self._running.wait()
        self._running.stop()


def start(place: Place, layout: Layout, common: Mapping[str, str], spec: Mapping[str, Any], limit: float) -> Warm | Failure:
    """A job whose ranks have built their parts; ``spec`` is what all ranks are told (runners.xft.engines.torch_rank)."""
    for _ in range(_TRIES):
        begun = time.monotonic()
        token, port = secrets.token_hex(12), random.SystemRandom().randint(*_PORTS)
        commands = []
        for number, rank in enumerate(layout.ranks):
            own = {
                **spec,
                "rank": number,
                "ranks": len(layout.ranks),
                "token": token,
                "patience": limit + 5,
                "host": "" if place.alone else place.network.address,
                "port": port,
                "memory": {"policy": rank.memory.policy, "nodes": list(rank.memory.nodes)},
            }
            packed = base64.b64encode(json.dumps(own).encode()).decode()
            commands.append(command(place.python, _MODULES, packed))
        if sum(len(word) + 1 for words in commands for word in words) > _MOST_WORDS:
            return Failure("environment", f"{len(layout.ranks)} ranks are too many for one command line of mpirun")
        running = place.starter().start(Job(ranks_of(place, layout, commands, common), _LIFE))
        line: str | Failure = Failure("crash", "interrupted")
        try:
            line = running.ask(json.dumps({"do": "state"}), limit)
        except BaseException:
            running.stop()
            raise
        if isinstance(line, Failure):
            if port_taken(line):
                continue
            if line.kind == "timeout":
                reason = f"the ranks had not met and built their parts within {limit:.0f} s; fewer --layers take less"
                return Failure("timeout", reason, line.log, line.seconds)
            return explain(line)
        return Warm(running, json.loads(line), time.monotonic() - begun)
    return Failure("environment", f"{_TRIES} ports that ranks might meet at were all in use on {place.network.address}")


class Jobs:
    """The jobs that are kept, the last used ones, by layout and variables; ``room`` are the bytes that they may take."""

    def __init__(self, starts: Callable[[Layout, float], Warm | Failure], room: int) -> None:
        self._starts, self._room = starts, room
        self._kept: OrderedDict[object, Warm] = OrderedDict()

    def get(self, layout: Layout, limit: float) -> Warm | Failure:
        key = tuple((rank.host, rank.cpus, rank.memory, tuple(sorted(rank.env.items()))) for rank in layout.ranks)
        job = self._kept.pop(key, None)
        if job is not None and job.worn:
            job.close()
            job = None
        if job is None:
            while self._kept and (len(self._kept) >= _MOST or self._full()):
                self._kept.popitem(last=False)[1].close()
            started = self._starts(layout, limit)
            if isinstance(started, Failure):
                return started
            job = started
        self._kept[key] = job
        return job

    def _full(self) -> bool:
        largest = max(job.memory for job in self._kept.values())
        return sum(job.memory for job in self._kept.values()) + largest > self._room

    def drop(self, job: Warm) -> None:
        for key, kept in list(self._kept.items()):
            if kept is job:
                del self._kept[key]
        job.close()

    def settle(self, job: Warm) -> None:
        """After its turn: a job that spins while it has nothing to do, or takes too much memory, is not kept."""
        job.rest()
        if job.dead or job.restless or 2 * job.memory > self._room:
            self.drop(job)

    def close(self) -> None:
        kept, self._kept = self._kept, OrderedDict()
        if kept:  # at the same time: where a host is gone each takes a while to see it
            with ThreadPoolExecutor(len(kept)) as pool:
                list(pool.map(lambda job: job.close(), kept.values()))
