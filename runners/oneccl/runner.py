"""The runner of `tune oneccl`: real ranks on oneCCL's C API, warm between measurements, every result checked."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import cast

from runners.oneccl import checks, figures, narrowed
from runners.oneccl.failures import explain
from runners.oneccl.options import Options
from runners.oneccl.predict import nodes_of, predict
from runners.oneccl.proofs import Proofs
from runners.oneccl.providers import Providers
from runners.oneccl.setup import Setup
from runners.oneccl.table import DEFAULT, table
from runners.oneccl.warm import Step, Warm
from runners.oneccl.ways import Ways
from runners.runner import EnvironmentProblem, Failure, Json, Measurement, Objective, Outcome, Problem, WritesNothing
from spaces.oneccl import (
    SPACE,
    class_of,
    environment,
    for_job,
    interface_environment,
    transport_of,
    variable_of,
)
from spaces.space import Config, Rule, Space
from spaces.units import format_size

# Seconds of moving for each size of a measurement, in rounds with inputs of their own.
_SECONDS, _ROUNDS, _MOST_CALLS = 0.06, 6, 600
_LEAST_LIMIT, _PATIENCE = 20.0, 30.0


class CclRunner(WritesNothing):
    """Times a job's collectives with any setting. ``message`` is called with a sentence before something takes long."""

    objective = Objective("time_us", "us", maximise=False)

    def __init__(self, setup: Setup, narrowed: Space) -> None:
        self._setup, self._narrowed = setup, narrowed
        self.message: Callable[[str], None] = lambda _text: None
        self._space: Space | None = None
        self._providers: Providers | None = None
        self._proofs = Proofs(setup, narrowed)
        self._ways = Ways(narrowed.default)
        self._believes_link = True
        self._usual: float | None = None
        self._salt = 0
        self._beside: dict[str, Json] = {}
        self._sentences: list[str] = []

    @classmethod
    def create(cls, options: Options, space: Space) -> CclRunner:
        return cls(Setup.of(options), space)

    # -- what is tuned here --------------------------------------------------------------------------------------------

    @property
    def engine(self) -> str:
        return "embedded"

    @property
    def engine_reason(self) -> str:
        return "our ranks on oneCCL's C API: many settings in one job, every result checked"

    @property
    def space(self) -> Space:
        """With what this place allows; hosts are asked when it is first wanted. Raises EnvironmentProblem, UsageError."""
        if self._space is None:
            limits = self._setup.limits(self._narrowed)
            here = for_job(self._narrowed, limits)
            narrowed.check(here, for_job(SPACE, limits))
            self._space = here.with_rules([Rule("the provider starts here", self._starts)])
        return self._space

    def _starts(self, config: Config) -> str | None:
        if self._providers is None or config["provider"] == DEFAULT:
            return None
        failed = self._providers.failed.get((transport_of(config, self._setup.transport), str(config["provider"])))
        return failed.reason if failed else None

    def facts(self) -> Mapping[str, Json]:
        setup = self._setup
        work = setup.work
        return {
            "oneccl": setup.learned.version,
            "mpi": setup.launcher.mpi.title,
            "launcher": setup.launcher.mpi.kind,
            "mpirun": setup.found.mpirun,
            "collective": work.selected,
            "dtype": work.dtype,
            "workload": {format_size(size): weight for size, weight in work.sizes},
            "hosts": [host.name for host in setup.place.hosts],
            "ppn": setup.place.ppn,
            "pins": [list(pins) for pins in setup.place.pins],
            "iface": setup.network.iface,
            "transport": setup.transport,
        }

    def check(self) -> list[Problem]:
        found = checks.of_setup(self._setup)
        if any(problem.severity == "error" for problem in found):
            return found
        if self._providers is None:
            self._providers = self._setup.probe(self.space)
        return [*found, *checks.of_providers(self._providers)]

    def prepare(self) -> None:
        """Sees which algorithms really run. Raises EnvironmentProblem."""
        self.message("starting short jobs that tell which algorithms run")
        for transport in sorted(self._transports()):
            self._proofs.of(transport)
        nodes = nodes_of(self._setup.options, len(self._setup.place.hosts))
        if nodes and "prediction" not in self._beside:
            self.message("timing every algorithm over a ladder of sizes, to extrapolate from")
            setup = self._setup
            found = predict(setup.starter, setup.interface(), setup.transport, nodes, 2 * setup.jobs.start_limit)
            if isinstance(found, Failure):
                raise EnvironmentProblem(f"what --predict-nodes takes can't be measured: {found.reason}")
            self._beside["prediction"] = found.json()
            self._sentences += found.sentences()

    def _transports(self) -> set[str]:
        return {transport_of({"transport": value}, self._setup.transport) for value in self.space["transport"].domain.values}

    # -- measuring -----------------------------------------------------------------------------------------------------

    def measure(self, config: Config, limit: float) -> Outcome:
        begun = time.monotonic()
        outcome = self._measure(config, limit, begun)
        if isinstance(outcome, Failure) and limit >= _LEAST_LIMIT:
            self._ways.learn(config, outcome)
        return outcome

    def _measure(self, config: Config, limit: float, begun: float) -> Outcome:
        broken = self.space.broken(config)
        if broken:
            return Failure("infeasible", broken[0])
        if known := self._ways.known(config):
            return known
        work, transport = self._setup.work, transport_of(config, self._setup.transport)
        wanted = [(size, str(config[class_of(size)])) for size in work.plain]
        try:
            against = self._proofs.of(transport).against(wanted)
        except EnvironmentProblem as problem:
            return Failure("environment", problem.message)
        if against:
            return Failure("infeasible", against, seconds=time.monotonic() - begun)
        job = self._job(config, transport, limit)
        if isinstance(job, Failure):
            return job
        entries = self._proofs.entries(transport)
        self._salt += _ROUNDS + 1
        steps = [Step(entries[key] // work.element, self._salt, _ROUNDS, _MOST_CALLS) for key in wanted]
        answers = job.calls(steps, _SECONDS, self._limit(limit))
        if isinstance(answers, Failure):
            self._setup.jobs.drop(job)
            return explain(answers, job.env, self._working(transport))
        found = figures.sorted_out(answers, work.plain)
        seconds = time.monotonic() - begun
        if isinstance(found, Failure):
            self._setup.jobs.drop(job)
            return Failure(found.kind, found.reason, "", seconds)
        doubt = self._doubt(config, found)
        if doubt:
            return Failure("wrong", doubt, "", seconds)
        self._setup.jobs.quiet(job)
        self._usual = seconds if self._usual is None else min(self._usual, seconds)
        weights = dict(work.sizes)
        ran = self._proofs.of(transport).ran
        timed = {format_size(size): entries[size, algorithm] for size, algorithm in wanted if entries[size, algorithm] != size}
        return Measurement(
            figures.metrics(found, weights),
            figures.samples(found, weights),
            seconds,
            0,
            {
                **job.seen.json(),
                "microseconds": figures.quantiles(found),
                "algorithms": {format_size(size): ran[size, algorithm] for size, algorithm in wanted},
                "timed_bytes": cast(Json, timed),
                "ranks": self._setup.place.ranks,
                "warnings": list(self._sentences),
                **self._beside,
            },
        )

    def _job(self, config: Config, transport: str, limit: float) -> Warm | Failure:
        """A job with the setting's variables, all of which arrived."""
        env = self.variables(config, transport)
        job = self._setup.jobs.get(env, min(limit, self._setup.jobs.start_limit))
        if isinstance(job, Failure):
            return explain(job, env, self._working(transport))
        missing = job.seen.missing(env) or self._other_provider(config, transport, job)
        if missing:
            self._setup.jobs.drop(job)
            return Failure("infeasible", missing)
        return job

    def variables(self, config: Config, transport: str) -> dict[str, str]:
        """What a job for ``config`` is started with: the setting's own variables, with the table of all algorithms."""
        work = self._setup.work
        name = variable_of(work.selected)
        own = {key: value for key, value in environment(config, work.selected, self._setup.transport).items() if key != name}
        lines = table(self._proofs.entries(transport), self._proofs.of(transport).refused)
        iface = interface_environment(self._setup.network.iface, config)
        return {**own, **iface, **({name: lines} if lines else {})}

    def _other_provider(self, config: Config, transport: str, job: Warm) -> str:
        wanted, used = str(config["provider"]), re.split(r"[;+]", job.seen.provider)
        looked_at = transport == "ofi" or not self._setup.place.alone or config["fabrics"] == "ofi"
        if wanted == DEFAULT or not looked_at or wanted in used:
            return ""
        return f"the provider {wanted} is set and oneCCL moves messages by {job.seen.provider or 'shared memory'}"

    def _working(self, transport: str) -> tuple[str, ...]:
        return self._providers.working(transport) if self._providers else ()

    def _limit(self, limit: float) -> float:
        if self._usual is None:
            return limit
        return min(limit, max(_LEAST_LIMIT, _PATIENCE * self._usual))

    def _doubt(self, config: Config, found: Mapping[int, figures.Rounds]) -> str:
        """Why ``found`` can't be true; where it is the baseline that is too fast for the link, the link's word is not true."""
        place, network, collective = self._setup.place, self._setup.network, self._setup.work.collective
        said = figures.impossible(found, collective, len(place.hosts), network.speed if self._believes_link else None)
        if said and self._believes_link and config == self._narrowed.default:
            self._believes_link = False
            self._sentences.append(f"the interface's own speed is not believed: {said}")
            return self._doubt(config, found)
        return said

    def cross_check(self, config: Config) -> None:
        """There is no other program to ask."""

    def close(self) -> None:
        self._setup.close()

    def __enter__(self) -> CclRunner:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
