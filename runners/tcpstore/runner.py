"""The runner of `tune tcpstore`: a worker with torch in it, what this machine and torch allow, and what was seen beside."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from statistics import median
from typing import Any, cast

from runners.runner import (
    EnvironmentProblem,
    Failure,
    FailureKind,
    Json,
    Measurement,
    Objective,
    Outcome,
    Problem,
)
from runners.tcpstore import checks, figures, fit, network, switches
from runners.tcpstore.diagnosis import Diagnosis, diagnose
from runners.tcpstore.failures import explain
from runners.tcpstore.figures import Start
from runners.tcpstore.job import Job
from runners.tcpstore.names import Lookup
from runners.tcpstore.options import Options
from runners.tcpstore.plausible import doubt, starts_of
from runners.tcpstore.starting import started
from runners.worker import Reply, Worker
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


class StoreRunner:
    """Starts ``world_size`` ranks on this host again and again, with real servers and clients.

    ``message`` is called with a sentence before something takes long.
    """

    objective = Objective("startup_ms", "ms", maximise=False)

    def __init__(self, options: Options, narrowed: Space, host: str, lookup: Lookup) -> None:
        self._options, self._narrowed, self._host, self._lookup = options, narrowed, host, lookup
        self.message: Callable[[str], None] = lambda _text: None
        self._has = fit.machine()
        self._processes = fit.processes(options.world_size, options.processes, self._has)
        self._worker: Worker | None = None
        self._beside: dict[str, Json] = {}
        self._sentences: list[str] = []
        self.space = self._space({})

    @classmethod
    def create(cls, options: Options, space: Space) -> StoreRunner:
        checks.check_options(options)
        host, lookup = checks.examine(options)
        return cls(options, space, host, lookup)

    @property
    def engine(self) -> str:
        return "torch"

    @property
    def engine_reason(self) -> str:
        return ""

    @property
    def emulated(self) -> bool:
        """Whether processes hold several clients."""
        return self._processes < self._options.world_size - 1

    def facts(self) -> Mapping[str, Json]:
        options = self._options
        return {
            "torch": checks.torch_version(),
            "world_size": options.world_size,
            "launch": options.launch,
            "barriers": options.barriers,
            "processes": self._processes + 1,
            "master": {"name": self._host, "ip": self._lookup.ipv4, "loopback": self._lookup.loopback},
            "somaxconn": network.somaxconn(),
            "nofile": self._has.descriptors.soft,
        }

    def check(self) -> list[Problem]:
        found = checks.preflight(self._options, self._host, self._lookup)
        if not any(problem.severity == "error" for problem in found):
            version = checks.torch_version() or ""
            if self._options.launch == "torchrun" and switches.known(version) is None:
                switches.learn(version)
            self._start()
        return found

    def _space(self, can: Mapping[str, Json]) -> Space:
        refused: dict[tuple[str, str], str] = {}
        for backend in ("libuv", "legacy"):
            if can.get(backend):
                refused["backend", backend] = f"this torch has no {backend} server (tried): {can[backend]}"
            elif self._options.launch == "torchrun":
                why = switches.refusal(checks.torch_version() or "", backend)
                if why:
                    refused["backend", backend] = why
        if self._options.launch == "torchrun":
            refused["start", "listening"] = "torchrun makes the store itself and takes no listening socket"
        if can.get("store_barrier"):
            refused["barrier", "store_barrier"] = str(can["store_barrier"])
        able = frozenset(each for each in ("libuv", "legacy") if not can.get(f"listening_{each}"))
        return for_job(self._narrowed, Limits(refused, able, self._options.barriers))

    def _start(self) -> None:
        """The worker, and what its torch can do. Raises EnvironmentProblem."""
        if self._worker is not None and self._worker.alive:
            return
        first = self._worker is None
        self._worker, can = started()
        if first:
            self.space = self._space(can)

    def prepare(self) -> None:
        self._start()
        if self.emulated and not self._beside:
            from runners.tcpstore.beside import correction

            self.message(f"{self._processes} processes hold the clients; measuring what that changes at two smaller sizes")
            found = correction(self._small, self._options.world_size, self._has)
            if found is not None:
                self._beside["correction"] = found.json()
                self._sentences.append(found.sentence())
        sizes = checks.predicted_sizes(self._options)
        if sizes and "prediction" not in self._beside:
            from runners.tcpstore.beside import prediction

            self.message("measuring a ladder of sizes with both servers, to extrapolate from")
            predicted = prediction(self._small, self._options.world_size, sizes, self._has)
            self._beside["prediction"] = predicted.json()
            self._sentences += predicted.sentences()

    def bytes_per_measurement(self) -> int:
        return 0

    def bytes_to_prepare(self) -> int:
        return 0

    @property
    def bytes_prepared(self) -> int:
        return 0

    def measure(self, config: Config, limit: float) -> Outcome:
        """Some starts of the job; their number falls with its size."""
        begun = time.monotonic()
        broken = self.space.broken(config)
        if broken:
            return Failure("infeasible", broken[0])
        rounds = starts_of(self._options.world_size, emulated=self.emulated)
        job = self.job(config, rounds, limit)
        reply = self._ask(job, limit + 5.0)
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
            figures.metrics(starts, operations, self._options.barriers),
            figures.samples(starts, self._options.barriers),
            seconds,
            0,
            self._evidence(starts, servers[-1], operations, found),
        )

    def job(self, config: Config, rounds: int, limit: float) -> Job:
        """What the worker is asked for, for one setting."""
        barriers = self._options.barriers
        return Job(
            backend=str(config["backend"]),
            barrier=str(config["barrier"]),
            host=self._host if config["address"] == "name" else (self._lookup.ipv4 or self._host),
            start=str(config["start"]),
            clients=self._options.world_size,
            processes=self._processes,
            rounds=rounds,
            barriers=min(barriers, _MOST_BARRIERS),
            timeout=max(1.0, limit / rounds - 0.5),
            port=self._options.port,
        )

    def _ask(self, job: Job, limit: float) -> Reply | Failure:
        """The worker's answer to ``job``; a failure is explained. A worker that had to be ended is started anew."""
        try:
            self._start()
        except EnvironmentProblem as problem:
            return Failure("environment", problem.message)
        assert self._worker is not None
        reply = self._worker.call({"do": "measure", **job.json()}, limit)
        if isinstance(reply, Failure):
            return reply
        failed = cast("dict[str, str] | None", reply.get("failure"))
        if failed is None:
            return reply
        kind = cast(FailureKind, failed["kind"])
        return explain(kind, failed["reason"], failed["said"], clients=job.clients, port=job.port, backend=job.backend)

    def _small(self, clients: int, processes: int, backend: str) -> Start | None:
        """One start of another size, the server first; None when it failed."""
        config: Config = {**self._narrowed.default, "backend": backend, "start": "server_first"}
        job = self.job(config, 1, _PATIENCE)
        record = {**job.json(), "clients": clients, "processes": processes, "barriers": 3, "operations": 5}
        reply = self._ask(Job.of(cast("dict[str, Any]", record)), _PATIENCE)
        return None if isinstance(reply, Failure) else Start.of(cast("list[dict[str, Any]]", reply["starts"])[0])

    def _diagnose(self, config: Config, starts: list[Start]) -> Diagnosis:
        return diagnose(
            starts,
            self._options.barriers,
            self._lookup,
            by_name=config["address"] == "name",
            backend=str(config["backend"]),
            cores=self._has.cores,
            ranks=self._options.world_size,
            somaxconn=network.somaxconn(),
        )

    def _evidence(
        self, starts: list[Start], server: Mapping[str, Json], operations: Mapping[str, list[float]], found: Diagnosis
    ) -> dict[str, Json]:
        return {
            "server": "libuv" if server["libuv"] else "legacy",
            "server_threads": server["threads"],
            "descriptors": server["descriptors"],
            "starts": len(starts),
            "processes": self._processes + 1,
            "clients_a_process": -(-(self._options.world_size - 1) // self._processes),
            "split_ms": dict(found.parts),
            "bound_by": found.bound_by,
            "mend": found.mend,
            "server_cpu_ms": [median(each.server_cpu[0] for each in starts), median(each.server_cpu[1] for each in starts)],
            "operations_p90_us": {name: round(1e6 * high, 1) for name, (_, high) in operations.items()},
            "counters": {name: sum(each.counters[name] for each in starts) for name in starts[0].counters},
            "lookup": cast("dict[str, Json]", {**asdict(self._lookup), "addresses": list(self._lookup.addresses)}),
            "warnings": [
                *([f"{found.sentence}: {found.mend}"] if found.outside else []),
                *([] if server["libuv"] else [_OLD]),
                *self._sentences,
            ],
            **self._beside,
        }

    def cross_check(self, config: Config) -> None:
        """There is no other program to ask."""

    def close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()

    def __enter__(self) -> StoreRunner:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
