"""The worker process of a run: it holds torch, so that forks of it are ranks at once, and measures one job a request."""

from __future__ import annotations

import gc
import time
from dataclasses import asdict
from typing import Any, cast

from runners.runner import Json
from runners.tcpstore import figures, fit
from runners.tcpstore.able import able
from runners.tcpstore.broken import CrowdFailure, port_taken
from runners.tcpstore.crowd import Crowd
from runners.tcpstore.figures import Part
from runners.tcpstore.job import Job
from runners.worker import Reply, Request, serve

TRIES = 3


def handle(request: Request) -> Reply:
    """A reply, with a "failure" in it where the request could not be met as expected."""
    arguments: dict[str, Any] = dict(request)
    what = arguments.pop("do")
    if what == "hello":
        return able()
    job = Job.of(arguments)
    for attempt in range(TRIES):
        try:
            return _measure(job)
        except CrowdFailure as failure:
            # Between looking for a free port and using it somebody else may take it; torch spells this in two ways.
            if job.port or not port_taken(failure.said) or attempt == TRIES - 1:
                return {"failure": failure.json()}
    raise AssertionError("unreachable")


def _measure(job: Job) -> Reply:
    rounds: list[Part] = []
    begun = time.monotonic()
    cores = fit.cores()
    while not rounds or (len(rounds) < job.rounds and time.monotonic() - begun < job.enough):
        with Crowd(job) as crowd:
            rounds.append(figures.part(crowd.start(), cores))
    return {
        "starts": cast("list[Json]", [asdict(figures.start([each])) for each in rounds]),
        "servers": cast("list[Json]", [each.server for each in rounds]),
        "operations": cast("Json", rounds[-1].operations),
    }


if __name__ == "__main__":
    import torch.distributed  # noqa: F401

    # What is there now belongs to every fork, unchanged.
    gc.collect()
    gc.freeze()
    serve(handle)
