"""The runner of `tune tcpstore`: starts of the job where it runs, what torch and the hosts allow, and what was seen beside."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from statistics import median
from typing import Any, cast

from runners.runner import Failure, Json, Measurement, Objective, Outcome, Problem, WritesNothing
from runners.tcpstore import checks, figures, fit, kernel, switches
from runners.tcpstore.diagnosis import Diagnosis, diagnose, wanted_backlog
from runners.tcpstore.figures import Start
from runners.tcpstore.job import Job
from runners.tcpstore.options import Options
from runners.tcpstore.places import Place, place
from runners.tcpstore.plausible import doubt, starts_of
from runners.tcpstore.starting import torch_version
from runners.tcpstore.weigh import weights
from spaces.space import Config, Space
from spaces.tcpstore import Limits, for_job

# Seconds for one start of another size.
_PATIENCE = 120.0
# Barriers that are measured; more of them only count more in the objective.
_MOST_BARRIERS = 5
_OLD = (
    "the legacy server is to go from PyTorch, and its cost grows with the square of the ranks: unless it is clearly better, "
    "--backend libuv finds the best without it"
)


class StoreRunner(WritesNothing):
    """Starts ``world_size`` ranks again and again where they shall run, with real servers and clients.

    ``message`` is called with a sentence before something takes long.
    """

    objective = Objective("startup_ms", "ms", maximise=False)

    def __init__(self, options: Options, narrowed: Space, where: Place) -> None:
        self._options, self._narrowed, self.place = options, narrowed, where
        self._weights = weights(options.weigh, options.barriers)
        self.message: Callable[[str], None] = lambda _text: None
        self._beside: dict[str, Json] = {}
        self._sentences: list[str] = []
        self._known = False
        self.space = self._space({})

    @classmethod
    def create(cls, options: Options, space: Space) -> StoreRunner:
        checks.check_options(options)
        return cls(options, space, place(options))

    @property
    def engine(self) -> str:
        return "torch"

    @property
    def engine_reason(self) -> str:
        return ""

    @property
    def emulated(self) -> bool:
        """Whether processes hold several clients."""
        return self.place.emulated(self._options.world_size, self._options.processes)

    def facts(self) -> Mapping[str, Json]:
        options = self._options
        return {
            "world_size": options.world_size,
            "launch": options.launch,
            "barriers": options.barriers,
            **({"weigh": options.weigh} if options.weigh else {}),
            **self.place.facts(),
        }

    def check(self) -> list[Problem]:
        found = self.place.problems()
        if not any(problem.severity == "error" for problem in found):
            version = self.place.found.torch
            if self._options.launch == "torchrun" and switches.known(version) is None and version == torch_version():
                switches.learn(version)
            self._start()
        return found

    def _space(self, can: Mapping[str, Json]) -> Space:
        """The rules; what only the hosts know is in them once they were asked."""
        options = self._options
        version = (self.place.found.torch if self._known else torch_version()) or ""
        refused: dict[tuple[str, str], str] = dict(self.place.found.refused) if self._known else {}
        for backend in ("libuv", "legacy"):
            if can.get(backend):
                refused["backend", backend] = f"this torch has no {backend} server (tried): {can[backend]}"
            elif options.launch == "torchrun":
                why = switches.refusal(version, backend)
                if why:
                    refused["backend", backend] = why
        if options.launch == "torchrun":
            refused["start", "listening"] = "torchrun makes the store itself and takes no listening socket"
        if can.get("store_barrier"):
            refused["barrier", "store_barrier"] = str(can["store_barrier"])
        if not options.system:
            refused["backlog", "raised"] = "the backlog is raised with --system alone"
        able = frozenset(each for each in ("libuv", "legacy") if not can.get(f"listening_{each}"))
        short = not self._known or checks.short(self.place.found.backlogs, options.world_size)
        return for_job(self._narrowed, Limits(refused, able, self._weights.barrier > 0, short or not options.system))

    def _start(self) -> None:
        """The workers, and what their torch can do. Raises EnvironmentProblem."""
        can = self.place.load()
        if not self._known:
            self._known = True
            self.space = self._space(can)

    def prepare(self) -> None:
        self._start()
        options, where = self._options, self.place
        machines = where.machines()
        lean = min(machines, key=lambda has: has.memory)
        if self.emulated and not self._beside:
            from runners.tcpstore.beside import correction

            few = max(where.processes(options.world_size, options.processes))
            a_host = " a host" if where.hosts else ""
            self.message(f"{few} processes{a_host} hold the clients; measuring what that changes at two smaller sizes")
            found = correction(self._small, options.world_size, lean, few, len(where.hosts))
            if found is not None:
                self._beside["correction"] = found.json()
                self._sentences.append(found.sentence())
        sizes = checks.predicted_sizes(options)
        if sizes and "prediction" not in self._beside:
            from runners.tcpstore.beside import prediction

            self.message("measuring a ladder of sizes with both servers, to extrapolate from")
            few = 2 * min(has.cores for has in machines)
            predicted = prediction(self._small, options.world_size, sizes, where.largest(), few, len(where.hosts))
            self._beside["prediction"] = predicted.json()
            self._sentences += predicted.sentences()

    def measure(self, config: Config, limit: float) -> Outcome:
        """Some starts of the job; their number falls with its size."""
        begun = time.monotonic()
        broken = self.space.broken(config)
        if broken:
            return Failure("infeasible", broken[0])
        rounds = starts_of(self._options.world_size, emulated=self.emulated)
        job = self.job(config, rounds, limit)
        reply = self.place.measure(job, self._options.processes, self._backlog(config), limit + 5.0)
        seconds = time.monotonic() - begun
        if isinstance(reply, Failure):
            return Failure(reply.kind, reply.reason, reply.log, seconds)
        starts = [Start.of(cast("dict[str, Any]", each)) for each in cast("list[Json]", reply["starts"])]
        servers = cast("list[dict[str, Any]]", reply["servers"])
        wrong = doubt(config, starts, servers)
        if wrong:
            return Failure("wrong", wrong, "", seconds)
        operations = cast("dict[str, list[float]]", reply["operations"])
        found = self._diagnose(config, starts)
        return Measurement(
            figures.metrics(starts, operations, self._weights),
            figures.samples(starts, self._weights),
            seconds,
            0,
            self._evidence(config, starts, servers[-1], operations, found),
        )

    def job(self, config: Config, rounds: int, limit: float) -> Job:
        """What is asked for, for one setting; each host's share of it is its own."""
        found = self.place.found
        barriers = max(1, round(self._weights.barrier)) if self._weights.barrier else 0
        return Job(
            backend=str(config["backend"]),
            barrier=str(config["barrier"]),
            host=(found.name if config["address"] == "name" else found.ip) or found.name,
            start=str(config["start"]),
            clients=self._options.world_size,
            processes=0,
            rounds=rounds,
            barriers=min(barriers, _MOST_BARRIERS),
            timeout=max(1.0, limit / rounds - 0.5),
            port=self._options.port,
            nofile=self._options.world_size + fit.SPARE if self._options.system else 0,
        )

    def _backlog(self, config: Config) -> int:
        return wanted_backlog(self._options.world_size) if config["backlog"] == "raised" else 0

    def _small(self, clients: int, processes: int, backend: str) -> Start | None:
        """One start of another size, the server first; None when it failed."""
        config: Config = {**self._narrowed.default, "backend": backend, "start": "server_first"}
        job = self.job(config, 1, _PATIENCE)
        record = {**job.json(), "clients": clients, "barriers": 3, "operations": 5}
        reply = self.place.measure(Job.of(cast("dict[str, Any]", record)), processes, 0, _PATIENCE)
        return None if isinstance(reply, Failure) else Start.of(cast("list[dict[str, Any]]", reply["starts"])[0])

    def _diagnose(self, config: Config, starts: list[Start]) -> Diagnosis:
        found = self.place.found
        return diagnose(
            starts,
            self._weights.barrier,
            found.lookup,
            by_name=config["address"] == "name",
            backend=str(config["backend"]),
            ranks=self._options.world_size,
            somaxconn=found.backlogs.get(kernel.SOMAXCONN),
            hosts=self.place.hosts,
        )

    def _evidence(
        self,
        config: Config,
        starts: list[Start],
        server: Mapping[str, Json],
        operations: Mapping[str, list[float]],
        found: Diagnosis,
    ) -> dict[str, Json]:
        options, lookup = self._options, self.place.found.lookup
        counts = self.place.processes(options.world_size, options.processes)
        return {
            "server": "libuv" if server["libuv"] else "legacy",
            "server_threads": server["threads"],
            "descriptors": server["descriptors"],
            "starts": len(starts),
            "processes": sum(counts) + 1,
            "clients_a_process": -(-(options.world_size - 1) // sum(counts)),
            "split_ms": dict(found.parts),
            "bound_by": found.bound_by,
            "mend": found.mend,
            "server_cpu_ms": [median(each.server_cpu[0] for each in starts), median(each.server_cpu[1] for each in starts)],
            "operations_p90_us": {name: round(1e6 * high, 1) for name, (_, high) in operations.items()},
            "counters": {name: sum(each.counters[name] for each in starts) for name in starts[0].counters},
            "lookup": cast("dict[str, Json]", {**asdict(lookup), "addresses": list(lookup.addresses)}),
            **self._over_hosts(starts),
            "backlog": self._backlog(config) or self.place.found.backlogs.get(kernel.SOMAXCONN),
            "warnings": [
                f"{found.sentence}: {found.mend}" if found.outside else f"{found.sentence}; {found.mend}",
                *([] if server["libuv"] else [_OLD]),
                *self._sentences,
            ],
            **self._beside,
        }

    def _over_hosts(self, starts: list[Start]) -> dict[str, Json]:
        """How far the hosts' clocks may be from what is assumed, and how far apart they began, at worst."""
        if not self.place.hosts:
            return {}
        return {
            "hosts": list(self.place.hosts),
            "clocks_unsure_ms": max(each.unsure for each in starts),
            "hosts_began_apart_ms": max(each.apart for each in starts),
        }

    def cross_check(self, config: Config) -> None:
        """There is no other program to ask."""

    def close(self) -> None:
        self.place.close()

    def __enter__(self) -> StoreRunner:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
