"""One rank of a warm job: joins oneCCL's communicator, then makes and checks the calls that it is asked for, and times each.

Sent to hosts as text, with its neighbours here, and run by the Python that is there, 3.7 or newer. Rank 0 takes requests from
standard input, a line of JSON each, and answers on standard output; the others take them from rank 0. oneCCL's own output goes
to a file without a name, which is the proof of what it was told; errors go where errors go.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import re
import resource
import sys
import tempfile
import time
from typing import Any

from runners.oneccl.rank_library import CallFailed, Library
from runners.oneccl.rank_values import TYPES, buffers, expected, own_row, spread
from runners.oneccl.rank_wire import Wire, meet

_WARM = 3
_LEAST_ROUNDS, _LATE = 3, 5.0
_FIRST, _GROWTH = 32, 16
# Variables of these families that nobody gave this job are the user's shell's, and not part of the setting.
_FAMILIES = ("CCL_", "FI_", "ATL_")


class Wrong(Exception):
    """A result that is not what it has to be."""


class Rank:
    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.rank, self.ranks = spec["rank"], spec["ranks"]
        self.collective, self.dtype = spec["collective"], spec["dtype"]
        self.number, self.size = TYPES[self.dtype][:2]
        self.most = 0
        self.idle_cpu = self.idle = 0.0

    def join(self, wires: list[Wire], log: Any) -> None:
        begun = time.monotonic()
        self.wires, self.log = wires, log
        self.library = Library(self.spec["library"])
        version = self.library.version()
        if self.rank == 0:
            unique = self.library.unique_id()
            for wire in wires:
                wire.say({"unique": base64.b64encode(unique).decode()})
        else:
            unique = base64.b64decode(wires[0].hear()["unique"])
        self.library.join(unique, self.rank, self.ranks)
        self.tiny = ctypes.create_string_buffer(8 * max(64, self.ranks))
        self.barrier = self.library.call("allreduce", ctypes.addressof(self.tiny), ctypes.addressof(self.tiny), 1, self.number)
        if self.barrier() != 0:
            raise CallFailed("the first call failed")
        self.about = {"version": version, "joined": time.monotonic() - begun}

    def said(self) -> str:
        """What oneCCL and MPI have written to standard output since the last time."""
        self.library.flush()
        data = self.log.read()
        return data.decode(errors="replace") if data else ""

    def found(self, pattern: str) -> list[str]:
        """What of the output since the last time fits ``pattern``, each once: all of it may be megabytes."""
        return list(dict.fromkeys(match.group(0) for match in re.finditer(pattern, self.said())))

    def allocate(self, most: int) -> None:
        """Buffers for calls of up to ``most`` elements, touched, on whole pages."""
        if most <= self.most:
            return
        self.most = most
        self._memory = []
        addresses = []
        for count in buffers(self.collective, self.ranks, most):
            memory = ctypes.create_string_buffer(count * self.size + 8192)
            self._memory.append(memory)
            addresses.append((ctypes.addressof(memory) + 4095) // 4096 * 4096)
        self.sending, self.receiving = addresses

    def run(self, count: int, calls: int, salt: int) -> list[int]:
        """Nanoseconds of each of ``calls`` calls with ``count`` elements, a barrier before each. Raises Wrong, CallFailed."""
        self.allocate(count)
        sent, received = buffers(self.collective, self.ranks, count)
        ctypes.memmove(
            self.sending, spread(own_row(self.dtype, self.rank, self.ranks, salt), self.size, sent), sent * self.size
        )
        right = expected(self.collective, self.dtype, self.rank, self.ranks, count, salt)
        length = received * self.size
        ctypes.memset(self.receiving, 0xA5, length)
        # After each call some places are looked at and spoilt again; after the last one, everything.
        places = sorted({0, received // 2, received - 1}) if right is not None else []
        spots = [(self.receiving + at * self.size, right[at * self.size : (at + 1) * self.size]) for at in places if right]
        call = self.library.call(self.collective, self.sending, self.receiving, count, self.number)
        barrier, now, size = self.barrier, time.perf_counter_ns, self.size
        times = []
        for index in range(calls):
            barrier()
            begun = now()
            result = call()
            times.append(now() - begun)
            if result != 0:
                raise CallFailed(f"a call with {count} elements failed with result {result}")
            for address, value in spots:
                if ctypes.string_at(address, size) != value:
                    raise Wrong(f"call {index + 1} of {calls} with {count} elements gave a wrong result on rank {self.rank}")
                if index < calls - 1:
                    ctypes.memset(address, 0xA5, size)
        if right is not None and ctypes.string_at(self.receiving, length) != right:
            raise Wrong(f"{count} elements: the result on rank {self.rank} is not what the inputs give")
        return times

    def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        """This rank's part of a round of calls."""
        try:
            return {"times": self.run(order["count"], order["calls"], order["salt"])}
        except Wrong as error:
            return {"wrong": str(error)}
        except CallFailed as error:
            return {"failed": str(error)}

    def state(self) -> dict[str, Any]:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        idle = self.idle_cpu / self.idle if self.idle > 0.05 else 0.0
        return {
            **self.about,
            "idle": idle,
            "rss": usage.ru_maxrss * 1024,
            "node": os.uname().nodename,
            "cpus": sorted(os.sched_getaffinity(0)),
        }

    def waited(self, hear: Any) -> Any:
        """What ``hear`` gives, with the CPU time that this process took while it had nothing to do kept in mind."""
        begun, cpu = time.monotonic(), time.process_time()
        heard = hear()
        self.idle, self.idle_cpu = time.monotonic() - begun, time.process_time() - cpu
        return heard

    def follow(self) -> None:
        """Any rank but 0."""
        while True:
            order = self.waited(self.wires[0].hear)
            if order["do"] == "end":
                self.library.leave()
                self.wires[0].say({})
                return
            self.wires[0].say(self.state() if order["do"] == "state" else self.obey(order))

    def lead(self, answer: Any) -> None:
        """Rank 0."""
        while True:
            line = self.waited(sys.stdin.readline)
            if not line:
                return
            request = json.loads(line)
            if request["do"] == "end":
                for wire in self.wires:
                    wire.say({"do": "end"})
                self.library.leave()
                for wire in self.wires:
                    wire.hear()
                answer({})
                return
            if request["do"] == "state":
                for wire in self.wires:
                    wire.say({"do": "state"})
                answer({"ranks": [self.state(), *(wire.hear() for wire in self.wires)], "log": self.found(request["find"])})
            else:
                answer({"steps": [self.step(step, request["seconds"]) for step in request["steps"]]})

    def step(self, step: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Calls of one size for about ``seconds`` of moving, in rounds with their own inputs; the first calls are dropped.

        What is slow gets fewer calls: it is known well enough for what it is.
        """
        begun = time.monotonic()
        count, salt, rounds = step["count"], step["salt"], step["rounds"]
        each: list[int] = []
        for _ in range(_WARM):
            warm = self.together(count, 1, salt)
            if "times" not in warm:
                return warm
            each += warm["times"]
            if time.monotonic() - begun > seconds / 2:
                break
        found: list[list[int]] = []
        most = _FIRST
        for number in range(rounds):
            # By the middle one: where others take the cores now and then, a single call says little about the next.
            middle = max(1e-7, sorted(each)[len(each) // 2] / 1e9)
            calls = int(max(1 if middle > seconds else 2, min(step["most"], most, seconds / rounds / middle)))
            times = self.together(count, calls, salt + 1 + number)
            if "times" not in times:
                return times
            each = times["times"]
            most = _GROWTH * calls
            found.append(each)
            if len(found) >= _LEAST_ROUNDS and time.monotonic() - begun > _LATE * seconds:
                break
        return {"rounds": found}

    def together(self, count: int, calls: int, salt: int) -> dict[str, Any]:
        """Calls on all ranks: of each the time of the slowest rank; or what was wrong on one of them."""
        order = {"do": "run", "count": count, "calls": calls, "salt": salt}
        for wire in self.wires:
            wire.say(order)
        answers = [self.obey(order), *(wire.hear() for wire in self.wires)]
        for answer in answers:
            if "times" not in answer:
                return answer
        return {"times": [max(times) for times in zip(*(answer["times"] for answer in answers))]}  # noqa: B905  newer than 3.7


def scrub(keep: list[str]) -> None:
    """Takes away variables of oneCCL's families that this job was not given."""
    for name in list(os.environ):
        if name.startswith(_FAMILIES) and name not in keep:
            del os.environ[name]


def main() -> None:
    spec = json.loads(base64.b64decode(sys.argv[1]).decode())
    out = os.fdopen(os.dup(1), "w")
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 1)
        reader = open(f"/proc/self/fd/{log.fileno()}", "rb")  # noqa: SIM115, PTH123  a place of its own in the file

        def answer(what: dict[str, Any]) -> None:
            out.write(json.dumps(what) + "\n")
            out.flush()

        scrub(spec["keep"])
        rank = Rank(spec)
        status = 0
        try:
            rank.join(meet(spec), reader)
            if rank.rank == 0:
                rank.lead(answer)
            else:
                rank.follow()
        except EOFError:
            status = 0  # rank 0 is gone, and who ends the job knows why
        except (CallFailed, OSError) as error:
            sys.stderr.write(f"oneCCL: {error}\n")
            status = 3
        sys.stderr.flush()
        # Native libraries may abort while the interpreter is torn down.
        os._exit(status)


if __name__ == "__main__":
    main()
