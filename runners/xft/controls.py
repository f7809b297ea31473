"""What every study is compared with beside its baseline: one thread alone, and one socket alone.

Where threads spin against other programs, or hosts are far apart, less is often faster; nobody would look otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from runners.runner import Failure, Json
from runners.xft.doubts import doubt
from runners.xft.engines.engine import Engine, Run
from runners.xft.goal import Goal
from runners.xft.layout import Layout
from runners.xft.plan import Plan
from spaces.xft import DEFAULTS

_LIMIT = 60.0
# Less gain than this over a control is none to speak of: a control is measured once.
_ALIKE = 1.05
Places = tuple[tuple[str, tuple[int, ...]], ...]
NAMES = {"one_thread": "one thread", "one_socket": "one socket"}


@dataclass(frozen=True, slots=True)
class Controls:
    """The objective of each control, or in ``failed`` why there is none; ``cpus`` are those of each one's ranks, by host."""

    values: Mapping[str, float] = field(default_factory=dict)
    cpus: Mapping[str, Places] = field(default_factory=dict)
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    digest: tuple[float, ...] = ()

    def json(self) -> dict[str, Json]:
        return {
            **{name: dict(found) for name, found in self.metrics.items()},
            **self.failed,
        }

    def against(self, value: float, goal: Goal, layout: Layout) -> list[str]:
        """A sentence for each control that does as well as ``layout``, with ``value`` as its objective."""
        objective = goal.objective
        said = []
        for name, control in self.values.items():
            gain = value / control if objective.maximise else control / value
            if gain >= _ALIKE or self.cpus.get(name) == _places(layout):
                continue
            how = "was better" if gain < 1 / _ALIKE else "did as well"
            figures = f"{control:.4g} {objective.unit} against {value:.4g}"
            said.append(f"{NAMES[name]} alone {how}, measured once before the search: {figures}")
        return said


def _places(layout: Layout) -> Places:
    return tuple((rank.host, rank.cpus) for rank in layout.ranks)


def layouts(plan: Plan, engine: Engine) -> dict[str, Layout | str]:
    """The controls' layouts on the first host; a sentence for one that can't be, or that says nothing new."""
    first = replace(plan, topologies=dict([next(iter(plan.topologies.items()))]))
    found: dict[str, Layout | str] = {"one_thread": first.layout({**DEFAULTS, "ranks": 1, "sockets": 1, "threads": 1})}
    socket = first.layout({**DEFAULTS, "ranks": 1, "sockets": 1})
    usual = plan.layout(DEFAULTS)
    if not isinstance(socket, str) and not isinstance(usual, str) and socket.ranks == usual.ranks:
        socket = "it is what the scripts choose: the baseline"
    elif not isinstance(socket, str) and len(socket.ranks[0].cpus) == 1:
        socket = "it has one core: the same as one thread"
    found["one_socket"] = socket
    for control, layout in found.items():
        if not isinstance(layout, str) and (why := engine.refuses(layout)):
            found[control] = why
    return found


def measure(engine: Engine, goal: Goal, plan: Plan) -> Controls:
    """Each control once."""
    values: dict[str, float] = {}
    metrics: dict[str, dict[str, float]] = {}
    cpus: dict[str, Places] = {}
    failed: dict[str, str] = {}
    digest: tuple[float, ...] = ()
    for name, layout in layouts(plan, engine).items():
        if isinstance(layout, str):
            failed[name] = layout
            continue
        run: Run | Failure = engine.measure(layout, _LIMIT)
        if isinstance(run, Failure):
            failed[name] = f"{run.kind}: {run.reason}"
            continue
        if why := goal.missing(run.requests) or doubt(layout, run, (), plan.demand.dtype, None):
            failed[name] = why
            continue
        metrics[name] = goal.metrics(run.requests)
        values[name] = metrics[name][goal.objective.metric]
        cpus[name] = _places(layout)
        digest = digest or run.digest
    return Controls(values, cpus, metrics, failed, digest)
