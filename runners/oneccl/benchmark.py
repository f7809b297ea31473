"""oneCCL's own benchmark program as the engine: where it is, how it is called, and one run of it under the job's mpirun."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from runners.launch.job import Finished, Job, Rank
from runners.oneccl.benchmark_output import Table, read_table
from runners.oneccl.failures import explain
from runners.oneccl.options import Options
from runners.oneccl.seen import Seen, seen
from runners.oneccl.warm import Starter
from runners.oneccl.workload import Workload
from runners.runner import Failure, UsageError

# Where builds and installations of oneCCL put it, below their root.
_PLACES = ("bin/benchmark", "examples/benchmark/benchmark", "build/examples/benchmark/benchmark",
           "share/doc/ccl/examples/benchmark/benchmark", "_install/examples/benchmark/benchmark")  # fmt: skip
_WARM = 10
_FEWEST, _MOST, _SECONDS = 20, 2000, 0.3


def find(options: Options, root: Path | None) -> str:
    """The program's path, "" where there is none. Raises UsageError for a --benchmark that is none."""
    if options.benchmark:
        given = Path(options.benchmark).expanduser()
        found = shutil.which(given.absolute() if "/" in options.benchmark else given)
        if found is None:
            raise UsageError("benchmark", options.benchmark, "there is no such program; name oneCCL's benchmark")
        return str(Path(found).absolute())
    places = [root / place for place in _PLACES] if root is not None else []
    return next((str(place) for place in places if shutil.which(str(place))), "")


def arguments(program: str, work: Workload, iterations: int, sizes: Sequence[int] = (), *, warmup: int = _WARM) -> list[str]:
    """One collective a call, since the program adds up several; its own policy, which halves the repetitions of large
    messages, off; results checked.
    """
    counts = ",".join(str(size // work.element) for size in sizes or work.plain)
    words = {"-b": "host", "-l": work.collective, "-d": work.dtype, "-r": "sum", "-y": counts, "-i": str(iterations),
             "-w": str(warmup), "-j": "off", "-c": "last", "-p": "0"}  # fmt: skip
    return [program, *(word for pair in words.items() for word in pair)]


def repetitions(seconds: float | None) -> int:
    """How often to repeat messages of which one round takes ``seconds``, None where that is not known yet."""
    if not seconds:
        return _FEWEST
    return int(max(_FEWEST, min(_MOST, _SECONDS / seconds)))


def run(
    program: str,
    starter: Starter,
    env: Mapping[str, str],
    limit: float,
    iterations: int = _FEWEST,
    sizes: Sequence[int] = (),
    warmup: int = _WARM,
) -> tuple[Table, Seen, str] | Failure:
    """One run with the variables ``env``: its table, what oneCCL said of its values, and all of rank 0's output."""
    work, place = starter.workload, starter.place
    given = {**starter.found.environment(), "CCL_LOG_LEVEL": "info", **env}
    words = tuple(arguments(program, work, iterations, sizes, warmup=warmup))
    ranks = [Rank(place.host_of(number), words, {**given, **place.pinned(number)}) for number in range(place.ranks)]
    done = starter.launched(env).run(Job(tuple(ranks), limit))
    if isinstance(done, Failure):
        table = read_table(done.log, 1)  # it knows the program's own ways to fail
        assert isinstance(table, Failure)
        return explain(done, dict(env)) if table.kind == "crash" and done.kind == "crash" else done
    assert isinstance(done, Finished)
    output = done.ranks[0].stdout
    found = read_table(output, 0, done.ranks[0].stderr)
    if isinstance(found, Failure):
        return Failure(found.kind, found.reason, found.log, done.seconds)
    return found, seen(output), output


def times(table: Table, sizes: Sequence[int]) -> dict[int, tuple[float, int]] | Failure:
    """Seconds of the slowest rank's mean, and how many calls it is the mean of, by size; the row's own count holds."""
    rows = {row.size: row for row in table.rows}
    missing = [size for size in sizes if size not in rows]
    if missing:
        return Failure("crash", f"the benchmark printed no row for {missing[0]} bytes")
    return {size: (rows[size].slowest or rows[size].average, rows[size].repetitions or 1) for size in sizes}
