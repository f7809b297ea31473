"""What an independent program makes of a setting, and of the device with a deep queue: is the winner's figure plausible?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from runners.aio.fio import run_fio
from runners.aio.plan import Job
from runners.runner import Failure
from spaces.space import Config

# Enough in flight for any one drive; what fio reaches with it is as good a ceiling as a user can measure.
_DEEP: Config = {"block_size": 1 << 20, "queue_depth": 64, "intra_op_parallelism": 4}
_PASSES = 4
_LIMIT = 60.0


def cross_check(config: Config, folder: Path, job: Job) -> dict[str, Mapping[str, float]] | Failure:
    """fio's GB/s by direction, under "same setting" and "deep queue"; writes a file of the largest tensor a rank.

    Only inside ``folder``, our scratch. A Failure where fio is absent or fails.
    """
    found: dict[str, Mapping[str, float]] = {}
    for name, setting in (("same setting", config), ("deep queue", {**config, **_DEEP})):
        metrics: dict[str, float] = {}
        for read, wanted in ((True, job.reads), (False, job.writes)):
            if wanted:
                size = max(job.sizes)
                outcome = run_fio(setting, folder, read=read, size=size, ranks=job.ranks, passes=_PASSES, limit=_LIMIT)
                if isinstance(outcome, Failure):
                    return outcome
                metrics.update(outcome.metrics)
        found[name] = metrics
    return found
