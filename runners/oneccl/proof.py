"""Which algorithm oneCCL really runs for each line of its table: it replaces one that it can't use without a word.

A short job at debug level says so for every call. The choice depends on the table, the transport, the ranks and the size, and
on nothing else that is tuned; a job that is timed writes no such lines, because they cost more than the calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runners.oneccl.seen import SELECTIONS, selected
from runners.oneccl.table import DEFAULT, Layout, table
from runners.oneccl.warm import Json, Starter, Step, Warm
from runners.runner import Failure
from spaces.oneccl import variable_of

_LIMIT = 120.0
# Jobs that may end before all is known; one that hangs costs so much more time.
_DEATHS, _HANG = 8, 3


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
    """Calls of each entry of ``entries`` in a job with the variables ``env``. What fails is left out of the next attempt.

    Some calls end the job, or never end: then each is made by itself, so that one algorithm doesn't take the others along.
    Failure where no job starts at all, or a host is gone.
    """
    work = starter.workload
    refused: dict[tuple[int, str], str] = {}
    deaths: Counter[tuple[int, str]] = Counter()
    singly, patience = False, _DEATHS
    while True:
        # oneCCL's own choices first: what they can't do here, no setting should be blamed for.
        left = sorted((key for key in entries if key not in refused), key=lambda key: key[1] != DEFAULT)
        if not left:
            return Proof({}, refused)
        lines = table(entries, refused)
        variables = {**env, "CCL_LOG_LEVEL": "debug", **({variable_of(work.selected): lines} if lines else {})}
        job = starter.start(variables, limit)
        if isinstance(job, Failure):
            return job
        log: str | Failure = ""
        try:
            steps = [Step(entries[key] // work.element, 1, 1, 2) for key in left]
            answers, died = _ask(job, steps, limit if singly else _LIMIT, singly)
            if died is None:
                log = job.look(SELECTIONS)
        finally:
            job.close()
        if isinstance(log, Failure):
            return log
        if died is not None and died.kind == "environment":
            return died
        if died is not None and singly:
            guilty = left[len(answers)]
            deaths[guilty] += 1
            patience -= _HANG if died.kind == "timeout" else 1
            if died.kind == "timeout" or deaths[guilty] > 1:  # a crash may be bad luck once
                refused[guilty] = f"the job ends with it: {died.reason}"
            if patience <= 0:  # what answered so far is all that is tried once more
                why = f"not tried, because jobs ended too often before: {died.reason}"
                refused = {**dict.fromkeys(left[len(answers) :], why), **refused}
        if died is not None:
            singly = True
            continue
        failed = {key: str(answer.get("failed") or answer.get("wrong")) for key, answer in zip(left, answers, strict=True)
                  if "rounds" not in answer}  # fmt: skip
        if not failed:
            ran = selected(log, work.selected)
            return Proof({key: ran.get(entries[key] // work.element, "") for key in left}, refused)
        # The first to fail may have spoilt those after it.
        first = next(iter(failed))
        refused[first] = failed[first]


def _ask(job: Warm, steps: Sequence[Step], limit: float, singly: bool) -> tuple[list[Json], Failure | None]:
    """The steps' answers, by one request or one each; with what ended the job, where it ended before the last."""
    found: list[Json] = []
    for some in [[step] for step in steps] if singly else [steps]:
        answers = job.calls(some, 1e-6, limit)
        if isinstance(answers, Failure):
            return found, answers
        found += answers
    return found, None
