"""The runner of `tune xft`: a model's ranks laid out on real hosts, timed, and seen to have what was laid out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cached_property

from runners.runner import Failure, Json, Measurement, Outcome, Problem, UsageError, WritesNothing
from runners.xft import controls, evidence, host_checks
from runners.xft.choose import Chosen, choose
from runners.xft.controls import Controls
from runners.xft.doubts import doubt
from runners.xft.engines.engine import Engine, Run
from runners.xft.goal import Goal
from runners.xft.layout import Layout
from runners.xft.limits import limits
from runners.xft.model import Demand
from runners.xft.model_files import find
from runners.xft.options import Options
from runners.xft.place import Place
from runners.xft.plan import Plan
from runners.xft.possible import refused
from spaces.space import Config, Rule, Space, Value
from spaces.xft import PLACEMENT, SPACE, for_job


class XftRunner(WritesNothing):
    """Measures any setting of the space. ``message`` is called with a sentence before something takes long."""

    def __init__(self, options: Options, narrowed: Space, before: tuple[str, ...] = ()) -> None:
        self._options, self._narrowed = options, narrowed
        self.goal = Goal.of(options)
        self.objective = self.goal.objective
        self._shape = find(options.model)
        self.place = Place.of(options, before)
        self.message: Callable[[str], None] = lambda _text: None
        self._controls: Controls | None = None
        self._digest: tuple[float, ...] = ()
        self._refusals: dict[tuple[Value, ...], str] = {}

    @classmethod
    def create(cls, options: Options, space: Space) -> XftRunner:
        if options.topology:
            raise UsageError("topology", options.topology, "recorded hosts can't be measured; add --dry-run, or leave it out")
        return cls(options, space)

    # -- what is tuned here --------------------------------------------------------------------------------------------

    @cached_property
    def chosen(self) -> Chosen:
        """The engine, and why that one. Raises UsageError and EnvironmentProblem."""
        return choose(self._options, self.place, self._shape, self.goal)

    @property
    def _engine(self) -> Engine:
        return self.chosen.engine

    @property
    def engine(self) -> str:
        return self._engine.name

    @property
    def engine_reason(self) -> str:
        label = (
            "; a stand-in for xFT: pinning and waiting are real, xFT's own arithmetic is not in it"
            if self._engine.stand_in
            else ""
        )
        return f"{self.chosen.why}{label}"

    @cached_property
    def plan(self) -> Plan:
        """All that layouts are made from."""
        goal, shape = self.goal, self._shape.cut(self._options.layers)
        demand = Demand(shape, self.chosen.dtype, goal.batch, goal.input, goal.output)
        return Plan(self.place.topologies, demand, self._engine.software)

    @cached_property
    def space(self) -> Space:
        """With what these hosts, this model and this engine allow; hosts are asked when it is first wanted."""
        plan = self.plan
        named = self._narrowed["ranks"].domain != SPACE["ranks"].domain
        counts = frozenset(int(value) for value in self._narrowed["ranks"].domain.values) if named else frozenset()
        rdma = all(told["network"]["rdma"] for told in self.place.told.values())
        impossible = refused(self._narrowed, plan, rdma)
        here = for_job(self._narrowed, limits(plan.topologies, plan.demand, plan.software, counts, impossible))
        return here.with_rules([Rule("the engine runs it", self._refused)])

    def _refused(self, config: Config) -> str | None:
        key = tuple(config[name] for name in PLACEMENT)
        if key not in self._refusals:
            layout = self.plan.layout(config)
            self._refusals[key] = "" if isinstance(layout, str) else self._engine.refuses(layout)
        return self._refusals[key] or None

    def facts(self) -> Mapping[str, Json]:
        goal, first = self.goal, next(iter(self.place.topologies.values()))
        return {
            **self.place.facts(),
            "engine": self.engine,
            "model": self._shape.name,
            "batch": goal.batch,
            "input": goal.input,
            "output": goal.output,
            **({"ttft_ms": goal.ttft_ms} if goal.ttft_ms is not None else {}),
            "processor": first.model,
            **self._engine.facts(),
            "plan": self.plan.json(),
        }

    def check(self) -> list[Problem]:
        of_hosts = [each for each in host_checks.of_topologies(self.place.topologies) if each.severity != "note"]
        return [*self._shell(), *of_hosts, *self._engine.check()]

    def _shell(self) -> list[Problem]:
        if not self.place.strays:
            return []
        names = ", ".join(self.place.strays)
        return [
            Problem(
                "xft-shell",
                "warning",
                f"this shell sets {names}: ranks are started without, so that the baseline is that of xFT's scripts",
                "to beat these settings instead, write them to a script: --baseline FILE",
            )
        ]

    def prepare(self) -> None:
        """Measures the controls, once."""
        if self._controls is None:
            self.message("measuring one thread and one socket alone, as controls")
            self._controls = controls.measure(self._engine, self.goal, self.plan)
            self._digest = self._controls.digest

    # -- measuring -----------------------------------------------------------------------------------------------------

    def measure(self, config: Config, limit: float) -> Outcome:
        begun = time.monotonic()
        broken = self.space.broken(config)
        if broken:
            return Failure("infeasible", broken[0])
        layout = self.plan.layout(config)
        if isinstance(layout, str):
            return Failure("infeasible", layout)
        run = self._engine.measure(layout, limit)
        seconds = time.monotonic() - begun
        if isinstance(run, Failure):
            return Failure(run.kind, run.reason, run.log, seconds)
        if run.reports and (why := evidence.other_runtime(layout.ranks[0].env, run.reports)):
            return Failure("infeasible", why, "", seconds)
        if why := self._doubt(layout, run):
            return Failure("wrong", why, "", seconds)
        if why := self.goal.missing(run.requests):
            return Failure("crash", why, "", seconds)
        return self._measured(layout, run, seconds)

    def _doubt(self, layout: Layout, run: Run) -> str:
        plan = self.plan
        known = None if self.engine == "command" else plan.demand
        why = doubt(layout, run, self._digest, plan.demand.dtype, known)
        if not why:
            self._digest = self._digest or run.digest
        return why

    def _measured(self, layout: Layout, run: Run, seconds: float) -> Measurement:
        metrics = self.goal.metrics(run.requests)
        seen = evidence.told(layout, run.reports) if run.reports else evidence.Told({})
        found = self._controls or Controls()
        sentences = [
            *self._labels(),
            *self._engine.notes(),
            *layout.notes,
            *found.against(metrics[self.objective.metric], self.goal, layout),
            *seen.warnings,
        ]
        if late := self.goal.late(run.requests):
            sentences.append(late)
        warnings: list[Json] = list(dict.fromkeys(sentences))
        return Measurement(
            metrics,
            self.goal.samples(run.requests),
            seconds,
            0,
            {**run.evidence, **seen.evidence, "controls": found.json(), "warnings": warnings},
        )

    def _labels(self) -> list[str]:
        if not self._engine.stand_in:
            return []
        return [
            f"measured with the engine {self.engine}, a stand-in for xFT: verify the setting with xFT before you rely on it"
        ]

    def cross_check(self, config: Config) -> None:
        """There is no other program to ask."""

    def close(self) -> None:
        if "chosen" in self.__dict__:
            self._engine.close()

    def __enter__(self) -> XftRunner:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
