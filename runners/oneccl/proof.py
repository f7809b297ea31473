"""Which algorithm oneCCL really runs for each line of its table: it replaces one that it can't use without a word.

A short job at debug level says so for every call. The choice depends on the table, the transport, the ranks and the size, and
on nothing else that is tuned; a job that is timed writes no such lines, because they cost more than the calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runners.oneccl.seen import SELECTIONS, selected
from runners.oneccl.table import DEFAULT, Layout, table
from runners.oneccl.warm import Starter, Step
from runners.runner import Failure
from spaces.oneccl import variable_of

_LIMIT = 120.0


@dataclass(frozen=True, slots=True)
class Proof:
    """``ran`` has the algorithm that ran, by size and the asked one; ``refused`` what oneCCL said to a call that failed."""

    ran: Mapping[tuple[int, str], str]
    refused: Mapping[tuple[int, str], str]

    def against(self, wanted: Sequence[tuple[int, str]]) -> str:
        """Why these algorithms can't be timed, in a sentence; "" when each one runs."""
        for size, algorithm in wanted:
            if (size, algorithm) in self.refused:
                return f"{algorithm} fails for {size} bytes here: {self.refused[size, algorithm]}"
            ran = self.ran.get((size, algorithm))
            if algorithm != DEFAULT and ran != algorithm:
                return f"oneCCL runs {ran or 'nothing'} for {size} bytes where {algorithm} is set"
        return ""


def prove(starter: Starter, env: Mapping[str, str], entries: Layout, limit: float) -> Proof | Failure:
    """Calls of each entry of ``entries`` in a job with the variables ``env``. What fails is left out of the next attempt."""
    work = starter.workload
    refused: dict[tuple[int, str], str] = {}
    while True:
        left = [key for key in entries if key not in refused]
        lines = table(entries, refused)
        variables = {**env, "CCL_LOG_LEVEL": "debug", **({variable_of(work.selected): lines} if lines else {})}
        job = starter.start(variables, limit)
        if isinstance(job, Failure):
            return job
        try:
            steps = [Step(entries[key] // work.element, 1, 1, 2) for key in left]
            answers = job.calls(steps, 1e-6, _LIMIT)
            if isinstance(answers, Failure):
                return answers
            log = job.look(SELECTIONS)
        finally:
            job.close()
        if isinstance(log, Failure):
            return log
        failed = {key: str(answer.get("failed") or answer.get("wrong")) for key, answer in zip(left, answers, strict=True)
                  if "rounds" not in answer}  # fmt: skip
        if not failed:
            ran = selected(log, work.selected)
            return Proof({key: ran.get(entries[key] // work.element, "") for key in left}, refused)
        # The first to fail may have spoilt those after it.
        first = next(iter(failed))
        refused[first] = failed[first]
