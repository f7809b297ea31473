"""The worker process that holds torch: started alike by a run and by doctor."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Mapping
from typing import cast

from runners.runner import EnvironmentProblem, Failure, Json
from runners.worker import Worker

_LOAD = 120.0
# A process that is to be forked must not have threads.
_ALONE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def started() -> tuple[Worker, Mapping[str, Json]]:
    """A worker, and by name what its torch can't do and why ("" for what it can). Raises EnvironmentProblem."""
    worker = Worker("runners.tcpstore.child", env={**os.environ, **_ALONE})
    try:
        reply = worker.call({"do": "hello"}, _LOAD)
    except BaseException:
        worker.kill()
        raise
    if isinstance(reply, Failure):
        worker.kill()
        raise EnvironmentProblem(f"torch does not start: {reply.reason}", "python -c 'import torch.distributed'")
    return worker, cast("dict[str, Json]", reply["can"])


def torch_version() -> str | None:
    """Of the torch in this Python, by its metadata: importing it takes seconds."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None
