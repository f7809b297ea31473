"""Values of knobs that can do nothing with this engine, or between these hosts: a search must not draw them."""

from __future__ import annotations

from collections.abc import Iterator

from runners.xft.plan import Plan
from spaces.oneccl import ALGORITHMS, class_of
from spaces.space import Space, Value
from spaces.xft import CCL, DEFAULTS

Refused = tuple[tuple[str, Value], str]


def refused(space: Space, plan: Plan, rdma: bool) -> dict[tuple[str, Value], str]:
    """For each value that is impossible, a sentence why. ``rdma``: all hosts have such devices."""
    between = _between(space, plan, rdma) if plan.software.ccl else ()
    return dict([*_runtime(space, plan), *between])


def _runtime(space: Space, plan: Plan) -> Iterator[Refused]:
    if plan.software.openmp == "gomp" and not plan.software.iomp5:
        for value in space["blocktime"].domain.values:
            if value != DEFAULTS["blocktime"]:
                yield ("blocktime", value), "blocktime is libiomp5's, and there is none on these hosts"


def _between(space: Space, plan: Plan, rdma: bool) -> Iterator[Refused]:
    """oneCCL's knobs, for the sums of this model over these hosts."""
    if len(plan.topologies) == 1:
        for name in CCL:
            for value in space[name].domain.values:
                if value != DEFAULTS[name]:
                    yield (name, value), "it matters between hosts, and there is one"
        return
    goal, shape = plan.demand, plan.demand.shape
    sums = {4 * shape.hidden * goal.batch, 4 * shape.hidden * goal.batch * goal.input}
    used = {class_of(size) for size in sums}
    for name in CCL:
        if not name.startswith("algorithm"):
            continue
        for value in space[name].domain.values:
            if value == DEFAULTS[name]:
                continue
            if value not in ALGORITHMS["allreduce"]:
                yield (name, value), f"oneCCL has no {value} for allreduce"
            elif name not in used:
                yield (
                    (name, value),
                    f"no sum of this model has such a size: they are {', '.join(map(str, sorted(sums)))} bytes",
                )
    for value in space["provider"].domain.values:
        if value == "shm":
            yield ("provider", value), "shared memory does not leave a host"
        elif value not in ("default", "tcp") and not rdma:
            yield ("provider", value), "not all hosts have an RDMA device"
