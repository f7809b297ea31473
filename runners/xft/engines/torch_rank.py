"""One rank of a warm job of the engine torch: builds its part of the decoder, then runs the requests that it is asked for.

Sent to hosts as text, with its neighbours here, and run by a Python there that has torch. Rank 0 takes requests from standard
input, a line of JSON each, and answers on standard output; the others take them from rank 0. Each rank tells what it really
has: CPUs, threads, memory nodes, as Linux says.
"""

from __future__ import annotations

import base64
import json
import os
import resource
import sys
import time
from typing import Any

from runners.oneccl.rank_wire import Wire, meet
from runners.xft.engines import live, placing

_RUNTIMES = ("libiomp5", "libomp", "libgomp")
_TOLD = ("OMP_", "GOMP_", "KMP_")


class Rank:
    """One rank. ``begin`` builds the decoder; ``lead`` and ``follow`` serve until the job ends."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        # Libraries (oneCCL) print to standard output as well: what they say goes where errors go.
        self.out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        self.rank, self.ranks = spec["rank"], spec["ranks"]
        self.idle = self.idle_cpu = 0.0
        self.busy = False
        self.wires: list[Wire] = []

    def say(self, what: dict[str, Any]) -> None:
        self.out.write(json.dumps(what) + "\n")
        self.out.flush()

    def begin(self) -> None:
        begun = time.monotonic()
        cpus = sorted(os.sched_getaffinity(0))
        memory = self.spec["memory"]
        if memory["policy"] != "none":
            placing.set_memory(memory["policy"], memory["nodes"])
        if self.ranks > 1:
            self.wires = meet(self.spec)
        import torch

        from runners.xft.engines.torch_decoder import Decoder
        from runners.xft.engines.torch_talk import talk

        self.talk = talk(self.spec, self.wires)
        length = self.spec["input"] + self.spec["output"]
        self.decoder = Decoder(
            self.spec["shape"],
            self.ranks,
            self.rank,
            self.spec["dtype"],
            self.spec["batch"],
            length,
            self.talk.add_up,
        )
        generator = torch.Generator().manual_seed(1)
        self.prompt = torch.randint(
            self.spec["shape"]["vocabulary"], (self.spec["batch"], self.spec["input"]), generator=generator
        )
        self.about = {
            "node": os.uname().nodename,
            "pid": os.getpid(),
            "cpus": cpus,
            "torch": str(torch.__version__),
            "num_threads": torch.get_num_threads(),
            "omp": {name: value for name, value in os.environ.items() if name.startswith(_TOLD)},
            "runtime": (live.loaded(_RUNTIMES) or ["none"])[0],
            "talk": self.talk.name,
            "built": time.monotonic() - begun,
        }

    def state(self) -> dict[str, Any]:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        idle = self.idle_cpu / self.idle if self.idle > 0.05 else 0.0
        return {
            **self.about,
            "idle": idle,
            "rss": usage.ru_maxrss * 1024,
            "memory": placing.memory(),
            "pages": live.memory_nodes(os.getpid()),
        }

    def request(self) -> dict[str, Any]:
        """One request from its prompt to its last word: milliseconds of the first word and of each that follows."""
        import torch

        now = time.perf_counter_ns
        with torch.inference_mode():
            begun = now()
            words, scores = self.decoder.step(self.prompt, 0)
            first = now() - begun
            following, at = [], self.spec["input"]
            digest = [float(score) for score in scores[:4]]
            for _ in range(self.spec["output"] - 1):
                begun = now()
                words, scores = self.decoder.step(words, at)
                following.append((now() - begun) / 1e6)
                at += 1
        return {"first": first / 1e6, "next": following, "digest": digest}

    def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        """This rank's part of what rank 0 asks for: watch, request, report or state."""
        if order["do"] == "watch":
            self.watch = live.Watch(os.getpid())
            self.watched, self.spent = time.monotonic(), self.talk.spent
            return {}
        if order["do"] == "request":
            return self.request()
        if order["do"] == "report":
            return {
                **self.state(),
                **self.watch.report(),
                "wall": time.monotonic() - self.watched,
                "in_sums": round((self.talk.spent - self.spent) / 1e9, 3),
            }
        return self.state()

    def all_obey(self, do: str) -> list[dict[str, Any]]:
        """What each rank answers, in order."""
        order = {"do": do}
        for wire in self.wires:
            wire.say(order)
        return [self.obey(order), *(wire.hear() for wire in self.wires)]

    def waited(self, hear: Any) -> Any:
        """What ``hear`` gives, with the CPU time that this process took while it had nothing to do kept in mind."""
        begun, cpu = time.monotonic(), time.process_time()
        heard = hear()
        self.idle, self.idle_cpu = time.monotonic() - begun, time.process_time() - cpu
        return heard

    def follow(self) -> None:
        """Any rank but 0."""
        while True:
            order = self.wires[0].hear() if self.busy else self.waited(self.wires[0].hear)
            if order["do"] == "end":
                self.wires[0].say({})
                return
            self.busy = order["do"] in ("watch", "request")
            self.wires[0].say(self.obey(order))

    def lead(self) -> None:
        """Rank 0."""
        while True:
            line = self.waited(sys.stdin.readline)
            if not line:
                return
            request = json.loads(line)
            if request["do"] == "end":
                self.end()
                self.say({})
                return
            if request["do"] == "state":
                self.say({"ranks": self.all_obey("state")})
            else:
                self.say(self.run(request["seconds"], request["least"], request["most"]))

    def end(self) -> None:
        """Lets the other ranks leave."""
        for wire in self.wires:
            wire.say({"do": "end"})
        for wire in self.wires:
            wire.hear()

    def run(self, seconds: float, least: int, most: int) -> dict[str, Any]:
        """Requests for about ``seconds``, ``least`` to ``most`` of them, after one of the same lengths that is not counted."""
        self.all_obey("request")
        self.all_obey("watch")
        begun = time.monotonic()
        found: list[dict[str, Any]] = []
        while len(found) < most and (len(found) < least or time.monotonic() - begun < seconds):
            answers = self.all_obey("request")
            found.append(answers[0])
            if len({tuple(answer["digest"]) for answer in answers}) > 1:
                return {"wrong": "the ranks have different results after the same sums"}
            # What is slow is known well enough for what it is.
            if len(found) > 1 and time.monotonic() - begun > 4 * seconds:
                break
        return {"requests": found, "ranks": self.all_obey("report")}


def main() -> None:
    rank = Rank(json.loads(base64.b64decode(sys.argv[1]).decode()))
    status = 0
    try:
        rank.begin()
        if rank.rank == 0:
            rank.lead()
        else:
            rank.follow()
    except EOFError:
        status = 0  # rank 0 is gone, and who ends the job knows why
    except placing.CantPlace as error:
        sys.stderr.write(f"can't place: {error}\n")
        status = 4
    except MemoryError:
        sys.stderr.write("out of memory: no memory for this rank's part of the model\n")
        status = 5
    sys.stderr.flush()
    # Native libraries may abort while the interpreter is torn down.
    os._exit(status)


if __name__ == "__main__":
    main()
