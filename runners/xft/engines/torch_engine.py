"""The embedded engine: a decoder of the asked shape on torch, with random weights, started as xFT's ranks are."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cached_property
from typing import Any, cast

from runners.oneccl import library
from runners.runner import Failure, Json, Problem, UsageError
from runners.xft.engines.engine import Report, Run
from runners.xft.engines.torch_shares import UNIT
from runners.xft.engines.warm import Jobs, Warm, start
from runners.xft.goal import Goal, Request
from runners.xft.layout import Layout
from runners.xft.model import ModelShape
from runners.xft.place import Place
from spaces.xft import Software

# Seconds of requests in a measurement, and how many at least and at most.
_SECONDS, _LEAST, _MOST = 1.5, 5, 40
# Of a host's free memory, what warm jobs may keep.
_SHARE = 0.4
OWN_TYPES = ("fp32", "bf16", "fp16")


class TorchEngine:
    """``shape`` is what is computed: the model's, with layers cut where that was asked for. ``dtype`` is what torch computes
    with, ``asked`` what the user asked for, "" for neither.
    """

    name = "torch"
    stand_in = True

    def __init__(self, place: Place, shape: ModelShape, goal: Goal, dtype: str, asked: str) -> None:
        self._place, self._model, self._goal, self.dtype, self._asked = place, shape, goal, dtype, asked
        layers = place.options.layers
        if not 0 <= layers <= shape.layers:
            raise UsageError("layers", layers, f"the model has {shape.layers} layers; name some of them, or 0 for all")
        self.shape = shape.cut(layers)
        if shape.head_size % 2:
            raise UsageError(
                "model", place.options.model, f"heads of {shape.head_size} numbers are odd, and the engine torch turns pairs"
            )
        self._jobs: Jobs | None = None

    @cached_property
    def found(self) -> library.Found | None:
        """The oneCCL by which ranks add up; None: gloo does it."""
        place, found = self._place, self._place.ccl
        names = {topology.hostname for topology in place.topologies.values()}
        # It takes hosts of one name for one host with shared memory, and would wait for ever.
        apart = len(names) == len(place.hosts)
        return found if found and apart and all(told["there"] for told in place.told.values()) else None

    @cached_property
    def software(self) -> Software:
        between = self.found is not None and not self._place.alone
        return Software("torch", "gomp", self._place.iomp5, ccl=between)

    def notes(self) -> tuple[str, ...]:
        model, found = self._model, []
        if self.shape.layers < model.layers:
            found.append(f"figures are of {self.shape.layers} of the model's {model.layers} layers")
        if self._asked and self.dtype != self._asked:
            found.append(f"weights are {self.dtype} where {self._asked} was asked for: torch has no such products")
        if model.experts:
            found.append("the mixture of experts is computed as one expert's MLP")
        if model.kv_values:
            found.append("compressed keys and values are computed as plain ones")
        return tuple(found)

    def facts(self) -> Mapping[str, Json]:
        versions = {told["engines"].get("torch", "none") for told in self._place.told.values()}
        return {"torch": ", ".join(sorted(versions)), "dtype": self.dtype, "layers": self.shape.layers,
                "adds_up_by": "oneccl" if self.found else "gloo"}  # fmt: skip

    def check(self) -> list[Problem]:
        without = [name for name, told in self._place.told.items() if "torch" not in told["engines"]]
        if not without:
            return []
        message = f"the Python of {', '.join(without[:4])} has no torch, which the engine torch computes with"
        return [
            Problem("xft-torch", "error", message, "python -m pip install torch there, or name another Python with --python")
        ]

    def refuses(self, layout: Layout) -> str:
        ranks, columns = len(layout.ranks), max(1, self.shape.inner // UNIT)
        if ranks > self.shape.heads:
            return f"{ranks} ranks share {self.shape.heads} heads: some would have none"
        return f"{ranks} ranks share an MLP of {columns} parts: some would have none" if ranks > columns else ""

    def measure(self, layout: Layout, limit: float) -> Run | Failure:
        begun = time.monotonic()
        jobs = self._jobs = self._jobs or Jobs(self._start, self._room())
        job = jobs.get(layout, limit)
        if isinstance(job, Failure):
            return job
        reply = job.run(_SECONDS, _LEAST, _MOST, max(1.0, limit - (time.monotonic() - begun)))
        if isinstance(reply, Failure):
            jobs.drop(job)
            return reply
        if "wrong" in reply:
            jobs.drop(job)
            return Failure("wrong", str(reply["wrong"]), "", time.monotonic() - begun)
        jobs.settle(job)
        each = cast("list[dict[str, Any]]", reply["requests"])
        requests = tuple(Request(one["first"], tuple(one["next"])) for one in each)
        reports = tuple(cast("list[Report]", reply["ranks"]))
        evidence: dict[str, Json] = {
            "requests": len(requests),
            "adds_up_by": str(reports[0]["talk"]),
            "start_s": round(job.seconds, 2),
        }
        return Run(requests, reports, tuple(each[0]["digest"]), evidence)

    def _start(self, layout: Layout, limit: float) -> Warm | Failure:
        common = self.found.environment() if self.found else {}
        if self.found and self._place.alone:
            # As xFT's sums in shared memory, which nobody but the computing thread makes.
            common["CCL_WORKER_OFFLOAD"] = "0"
        found = self.found
        spec = {
            **described(self.shape, self.dtype, self._goal),
            "talk": "oneccl" if found else "gloo",
            "library": str(found.library) if found else "",
        }
        return start(self._place, layout, common, spec, limit)

    def _room(self) -> int:
        """Bytes that warm jobs may keep: a share of what the leanest host has free, times the hosts."""
        free = min(sum(node.free for node in topology.nodes) for topology in self._place.topologies.values())
        return int(_SHARE * free * len(self._place.hosts))

    def close(self) -> None:
        jobs, self._jobs = self._jobs, None
        if jobs is not None:
            jobs.close()


def described(shape: ModelShape, dtype: str, goal: Goal) -> dict[str, Any]:
    """What every rank is told of the model and the requests."""
    return {
        "shape": {
            "hidden": shape.hidden,
            "heads": shape.heads,
            "kv_heads": shape.kv_heads,
            "head_size": shape.head_size,
            "inner": shape.inner,
            "gated": shape.gated,
            "layers": shape.layers,
            "vocabulary": shape.vocabulary,
        },
        "dtype": dtype,
        "batch": goal.batch,
        "input": goal.input,
        "output": goal.output,
    }
