"""A synthetic surface: the true figure of every setting of a space, and measurements of it with noise and outliers."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from runners.runner import Failure, Measurement, Objective, Outcome
from spaces.space import Config, Domain, Knob, Space

Truth = Callable[[Mapping[str, Any]], float]


def knob(name: str, kind: str, values: Sequence[Any], default: Any) -> Knob:
    return Knob(name, Domain(kind, tuple(values)), default, "", "synthetic")  # type: ignore[arg-type]


def space_of(shape: Mapping[str, tuple[str, Sequence[Any]]], default: Sequence[Any]) -> Space:
    """A space from ``{name: (kind, values)}``; kinds as in the reference surfaces: log, int, cat, bool."""
    kinds = {"log": "log2", "int": "int", "cat": "choice", "bool": "flag"}
    knobs = [knob(name, kinds[kind], values, d) for (name, (kind, values)), d in zip(shape.items(), default, strict=True)]
    return Space(tuple(knobs))


@dataclass
class Surface:
    """``truth`` gives the figure of a setting, nan where it can't run; ``sigma`` is the log sd of one measurement.

    ``up`` and ``down`` are the shares of outliers above and below.
    """

    name: str
    space: Space
    truth: Truth
    sigma: float
    priors: list[Config] = field(default_factory=list)
    up: float = 0.01
    down: float = 0.03
    objective: Objective = field(default_factory=lambda: Objective("value", ""))

    @cached_property
    def best(self) -> float:
        """The best true figure there is (of a huge space: the best of many, climbed from)."""
        pick = max if self.objective.maximise else min
        if self.space.size <= 20_000:
            figures = [self.truth(config) for config in self.space.configs()]
            return pick(figure for figure in figures if not math.isnan(figure))
        rng = random.Random(0)
        starts = sorted(self.space.pool(rng, 20_000), key=self.rank)[-20:]
        tops = []
        for config in starts:
            while True:
                step = max(self.space.neighbours(config), key=self.rank)
                if self.rank(step) <= self.rank(config):
                    break
                config = step
            tops.append(self.truth(config))
        return pick(tops)

    def rank(self, config: Config) -> float:
        figure = self.truth(config)
        if math.isnan(figure):
            return -math.inf
        return figure if self.objective.maximise else -figure

    def share(self, config: Config) -> float:
        """True performance over the best possible, 1 at best, 0 where it can't run."""
        figure = self.truth(config)
        if math.isnan(figure):
            return 0.0
        return figure / self.best if self.objective.maximise else self.best / figure

    def measure(self, config: Config, rng: random.Random) -> Outcome:
        figure = self.truth(config)
        if math.isnan(figure):
            return Failure("infeasible", "not on this surface")
        slip = rng.gauss(0, self.sigma)
        u = rng.random()
        if u < self.up:
            slip += math.log(rng.uniform(1.08, 1.25))
        elif u < self.up + self.down:
            slip += math.log(rng.uniform(0.4, 0.85))
        value = figure * math.exp(slip if self.objective.maximise else -slip)
        return Measurement({self.objective.metric: value}, (value,), 1.0)
