"""--predict-nodes: each algorithm measured over a ladder of sizes, and what its own steps and bytes make of that elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from runners.oneccl.figures import Rounds
from runners.oneccl.fit import Fit, Prediction, fit, predict_nodes
from runners.oneccl.options import Options
from runners.oneccl.table import layout, table
from runners.oneccl.warm import Starter, Step, Warm
from runners.runner import Failure, Json, UsageError
from spaces.oneccl import ALGORITHMS, variable_of

_LADDER = (1 << 10, 16 << 10, 256 << 10, 4 << 20)
_SECONDS, _ROUNDS, _MOST = 0.03, 3, 200
_LIMIT = 300.0
_MOST_NODES = 1 << 20


def nodes_of(options: Options, hosts: int) -> tuple[int, ...]:
    """The numbers of --predict-nodes. Raises UsageError."""
    text = options.predict_nodes
    if not text:
        return ()
    if hosts < 2:
        raise UsageError("predict-nodes", text, "takes a measurement between hosts; name at least two with --hosts")
    found = []
    for part in text.split(","):
        if not part.strip().isdecimal() or not hosts < int(part) <= _MOST_NODES:
            why = f"{part.strip()!r} must be a number of hosts above the {hosts} measured; write a list like 16,64"
            raise UsageError("predict-nodes", text, why)
        found.append(int(part))
    return tuple(sorted(set(found)))


@dataclass(frozen=True, slots=True)
class Predicted:
    """``fits`` by algorithm; ``best`` the fastest algorithm's prediction for each number of nodes and size."""

    fits: tuple[Fit, ...]
    best: tuple[tuple[str, Prediction], ...]
    notes: tuple[str, ...] = field(default=())

    def sentences(self) -> list[str]:
        return [f"an extrapolation: {prediction.sentence}" for _, prediction in self.best] or list(self.notes[:1])

    def json(self) -> dict[str, Json]:
        """Latencies in microseconds, bandwidths in GB/s, each with the interval that holds 90 % of the fits drawn again."""
        return {
            "fits": [
                {
                    "algorithm": each.algorithm,
                    "latency_us": round(1e6 * each.latency, 3),
                    "latency_interval_us": [round(1e6 * end, 3) for end in each.latency_interval],
                    "bandwidth_gbs": None if each.bandwidth is None else round(each.bandwidth / 1e9, 4),
                    "bandwidth_interval_gbs": [
                        None if end is None else round(end / 1e9, 4) for end in each.bandwidth_interval
                    ],
                    "largest_error": round(each.error, 4),
                }
                for each in self.fits
            ],
            "extrapolated": [
                {
                    "algorithm": algorithm,
                    "nodes": each.nodes,
                    "size": each.size,
                    "us": round(1e6 * each.seconds, 2),
                    "low_us": round(1e6 * each.low, 2),
                    "high_us": round(1e6 * each.high, 2),
                }
                for algorithm, each in self.best
            ],
        }


def predict(
    starter: Starter, env: Mapping[str, str], transport: str, nodes: Sequence[int], limit: float
) -> Predicted | Failure:
    """One job with the variables ``env`` times every algorithm over the ladder and the workload's own sizes."""
    work, place = starter.workload, starter.place
    whole = [size for size in _LADDER if size % work.element == 0]
    sizes = sorted({*whole, min(work.plain), max(work.plain)})
    algorithms = [each for each in ALGORITHMS[work.selected] if each != "direct" or transport == "mpi"]
    entries = layout(sizes, dict.fromkeys(sizes, algorithms), work.element)
    steps = {
        algorithm: [Step(entries[size, algorithm] // work.element, 3, _ROUNDS, _MOST) for size in sizes]
        for algorithm in algorithms
    }
    timed = _timed(starter, {**env, variable_of(work.selected): table(entries)}, steps, limit)
    if isinstance(timed, Failure):
        return timed
    points = {
        algorithm: [(size, median(times) / 1e9) for size, answer in zip(sizes, answers, strict=True) for times in answer]
        for algorithm, answers in timed.items()
    }
    fits = [found for name, each in points.items() if (found := fit(each, name, work.selected, place.ranks)) is not None]
    best: list[tuple[str, Prediction]] = []
    notes = [f"no prediction for {name}: its calls end the job" for name in algorithms if name not in timed]
    for number in nodes:
        for size in work.plain:
            made = [(each.algorithm, predict_nodes(each, number, place.ppn, size, len(place.hosts))) for each in fits]
            good = [(name, each) for name, each in made if isinstance(each, Prediction)]
            notes += [each for _, each in made if isinstance(each, str)]
            if good:
                best.append(min(good, key=lambda pair: pair[1].seconds))
    return Predicted(tuple(fits), tuple(best), tuple(dict.fromkeys(notes)))


def _timed(
    starter: Starter, env: Mapping[str, str], steps: Mapping[str, Sequence[Step]], limit: float
) -> dict[str, list[Rounds]] | Failure:
    """The rounds of each algorithm's steps. One that ends its job is left out, and the others go on in another job."""
    found: dict[str, list[Rounds]] = {}
    job: Warm | Failure | None = None
    ended: Failure | None = None
    try:
        for algorithm, some in steps.items():
            if job is None:
                job = starter.start(env, limit)
            if isinstance(job, Failure):
                return job
            answers = job.calls(some, _SECONDS, _LIMIT)
            if isinstance(answers, Failure):
                if answers.kind == "environment":
                    return answers
                ended = answers
                job.close()
                job = None
                continue
            found[algorithm] = [answer.get("rounds", []) for answer in answers]
    finally:
        if isinstance(job, Warm):
            job.close()
    return found if found or ended is None else ended
