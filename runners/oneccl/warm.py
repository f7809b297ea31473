"""Jobs of ranks that wait for work: started with one setting's variables, then asked for calls as often as wanted."""

from __future__ import annotations

import base64
import json
import random
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runners.launch.job import Job, Rank
from runners.launch.mpirun import Mpirun
from runners.launch.running import Running
from runners.oneccl import rank, rank_library, rank_values, rank_wire
from runners.oneccl.failures import explain, last_words_lost, port_taken
from runners.oneccl.library import Found
from runners.oneccl.place import Network, Place
from runners.oneccl.seen import LINES, Seen, seen
from runners.oneccl.sent import command
from runners.oneccl.workload import Workload
from runners.runner import Failure

# A job that nobody closes ends by itself.
_LIFE = 3600.0
TOO_MANY = "too many for one command line"
NOT_TOGETHER = "the ranks did not come together"
_PARTING = 10.0
_PORTS = (15000, 30000)  # below those that systems hand out by themselves
_TRIES = 3
# The kernel takes about 2 MB of words for one program; mpirun gets all ranks' at once.
_MOST_WORDS = 1 << 20
_MODULES = (rank_values, rank_library, rank_wire, rank)

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """Calls of ``count`` elements, in ``rounds`` with inputs that ``salt`` makes their own, ``most`` in one round."""

    count: int
    salt: int
    rounds: int
    most: int

    def json(self) -> Json:
        return {"count": self.count, "salt": self.salt, "rounds": self.rounds, "most": self.most}


class Warm:
    """One job at work. ``seen`` is what rank 0 told at its start, ``cpus`` the cores that each rank may use."""

    def __init__(self, running: Running, env: Mapping[str, str], state: Json, seconds: float) -> None:
        self._running, self.env, self.seconds = running, dict(env), seconds
        self.ranks: list[Json] = state["ranks"]
        self.seen: Seen = seen("\n".join(state["log"]))
        self.served = 0
        self._begun = time.monotonic()
        self.dead = False

    @property
    def version(self) -> str:
        return self.seen.release.removeprefix("Gold-") or str(self.ranks[0]["version"])

    @property
    def cpus(self) -> list[list[int]]:
        return [each["cpus"] for each in self.ranks]

    @property
    def memory(self) -> int:
        """Bytes of the largest rank."""
        return max(int(each["rss"]) for each in self.ranks)

    @property
    def age(self) -> float:
        return time.monotonic() - self._begun

    @property
    def restless(self) -> bool:
        """Whether a rank takes CPU time while it has nothing to do, as seen before the last request."""
        return max(float(each["idle"]) for each in self.ranks) > 0.05

    def calls(self, steps: Sequence[Step], seconds: float, limit: float) -> list[Json] | Failure:
        """For each step {"rounds": nanoseconds of each call's slowest rank, by round}, or {"wrong": …} or {"failed": …}."""
        self.served += 1
        reply = self._ask({"do": "run", "seconds": seconds, "steps": [step.json() for step in steps]}, limit)
        return reply if isinstance(reply, Failure) else list(reply["steps"])

    def look(self, pattern: str = LINES, limit: float = 60.0) -> str | Failure:
        """What fits ``pattern`` of rank 0's output since the last look, a line each; the ranks' state is new then."""
        reply = self._ask({"do": "state", "find": pattern}, limit)
        if isinstance(reply, Failure):
            return reply
        self.ranks = reply["ranks"]
        return "\n".join(reply["log"])

    def _ask(self, request: Json, limit: float) -> Json | Failure:
        line = self._running.ask(json.dumps(request), limit)
        if isinstance(line, Failure):
            self.dead = True
            return explain(line, self.env)
        try:
            return dict(json.loads(line))
        except ValueError:
            self.close()
            return Failure("crash", f"rank 0's answer is not understood: {line[:80]!r}")

    def close(self) -> None:
        """Lets the ranks leave in order, so that MPI cleans up behind itself; ends those that don't."""
        if not self.dead:
            self.dead = True
            if not isinstance(self._running.ask(json.dumps({"do": "end"}), _PARTING), Failure):
                self._running.wait()
        self._running.stop()


@dataclass(frozen=True)
class Starter:
    """Starts jobs at one place for one workload."""

    launcher: Mpirun
    found: Found
    place: Place
    network: Network
    workload: Workload
    python: str

    def start(self, env: Mapping[str, str], limit: float) -> Warm | Failure:
        """A job with the variables ``env``; Failure "timeout" where its ranks don't come together within ``limit`` seconds."""
        lost: Failure | None = None
        for _ in range(_TRIES):
            begun = time.monotonic()
            job = self._job(env, limit)
            if sum(len(word) + 1 for each in job.ranks for word in each.argv) > _MOST_WORDS:
                return Failure("environment", f"{len(job.ranks)} ranks are {TOO_MANY} of mpirun")
            running = self.launched(env).start(job)
            line: str | Failure = Failure("crash", "interrupted")
            try:
                line = running.ask(json.dumps({"do": "state", "find": LINES}), limit)
            except BaseException:
                running.stop()
                raise
            if isinstance(line, Failure) and port_taken(line):
                continue
            if isinstance(line, Failure):
                if line.kind == "timeout":
                    reason = f"{NOT_TOGETHER} within {limit:.0f} s: {_told(env)} makes oneCCL or MPI wait for ever"
                    return Failure("timeout", reason, line.log, time.monotonic() - begun)
                failure = explain(line, dict(env))
                if last_words_lost(failure):
                    lost = failure
                    continue
                return failure
            return Warm(running, env, json.loads(line), time.monotonic() - begun)
        if lost is not None:
            reason = f"MPI can't start with {_told(env)}; what it said was lost {_TRIES} times"
            return Failure("infeasible", reason, lost.log, lost.seconds)
        return Failure("environment", f"{_TRIES} ports that ranks might meet at were all in use on {self.network.address}")

    def launched(self, env: Mapping[str, str]) -> Mpirun:
        """mpirun reads some variables itself, and not from what it is to hand to ranks."""
        own = {name: value for name, value in {**env, **self.place.pinned_by_mpirun()}.items() if name.startswith("I_MPI_PIN")}
        if self.launcher.mpi.kind == "intel":
            own["I_MPI_JOB_ABORT_SIGNAL"] = "15"  # so that ranks may pass on what MPI said at its end
        if not own:
            return self.launcher
        reach = self.launcher.reach
        before = (*reach.before, "env", *(f"{name}={value}" for name, value in own.items()))
        return replace(self.launcher, reach=replace(reach, before=before))

    def _job(self, env: Mapping[str, str], limit: float) -> Job:
        given = {**self.found.environment(), "CCL_LOG_LEVEL": "info", **env}
        token = secrets.token_hex(12)
        port = random.SystemRandom().randint(*_PORTS)
        ranks = []
        for number in range(self.place.ranks):
            spec = {
                "rank": number,
                "ranks": self.place.ranks,
                "token": token,
                "patience": limit + 5,
                "host": "" if self.place.alone else self.network.address,
                "port": port,
                "library": str(self.found.library),
                "collective": self.workload.collective,
                "dtype": self.workload.dtype,
                "keep": sorted(given),
            }
            packed = base64.b64encode(json.dumps(spec).encode()).decode()
            argv = command(self.python, _MODULES, packed)
            ranks.append(Rank(self.place.host_of(number), argv, {**given, **self.place.pinned(number)}))
        return Job(tuple(ranks), _LIFE)


def _told(env: Mapping[str, str]) -> str:
    """The variables that decide how ranks reach each other, as a user would set them."""
    names = ("CCL_ATL_TRANSPORT", "FI_PROVIDER", "I_MPI_FABRICS", "FI_TCP_IFACE", "CCL_KVS_IFACE", "CCL_ATL_SHM", "CCL_MNIC")
    return " ".join(f"{name}={env[name]}" for name in names if name in env) or "something in this setting"
