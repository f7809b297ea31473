"""The emitted run_oneccl.sh against the study's own engine: does a job that was started by hand get what was promised?

    python tests/benchmarks/bench_oneccl_script.py --size 64K [--rounds 9] [--time 60s] [--hosts FILE --ppn 1 ...]

Tunes one size, exports the script, and then times allreduce in shuffled rounds three ways: by a program of its own under the
script, by the study's engine with the recommended setting, and by the engine with the baseline. Other options are those of
`tune oneccl`. The program takes the same median over calls, each of its slowest rank, a barrier before each.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import subprocess
import sys
import tempfile
from dataclasses import fields, replace
from pathlib import Path
from statistics import median
from typing import Any

from runners.oneccl.library import find
from runners.oneccl.options import Options
from runners.oneccl.runner import CclRunner
from runners.oneccl.setup import Setup
from runners.runner import Measurement
from spaces.oneccl import SPACE
from spaces.units import parse_size

_LIMIT = 60.0
_PROGRAM = Path(__file__).parent / "programs" / "allreduce_times.py"


def tune(*words: str) -> Any:
    command = [sys.executable, "-m", "tuner", *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    answer = json.loads(done.stdout)
    if "error" in answer:
        sys.exit(f"tune {words[0]}: {answer['error']['message']}")
    return answer


def scripted(script: Path, library: str, size: int, ssh: str, number: int) -> float | None:
    """Microseconds of a call in a job of the script's own. ``ssh`` is what mpirun is to reach hosts with, if not plain ssh."""
    # What oneAPI's setvars.sh sets in a shell; mpirun hands it on.
    folder, env = script.parent, {**os.environ, **find(Options()).environment()}
    if ssh:
        reach = folder / "ssh"
        reach.write_text(f'#!/bin/sh\nexec {shlex.join(shlex.split(ssh))} "$@"\n')
        reach.chmod(0o700)
        env["I_MPI_HYDRA_BOOTSTRAP_EXEC"] = str(reach)
    command = [script, sys.executable, _PROGRAM, library, folder / f"id{number}", str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT, env=env)
    said = [line for line in done.stdout.splitlines() if line.startswith("us ")]
    if done.returncode or len(said) != 1:
        print(f"the script failed with {done.returncode}: {done.stdout[-6000:]}{done.stderr[-3000:]}", file=sys.stderr)
        return None
    return float(said[0].split()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="64K")
    parser.add_argument("--time", default="60s")
    parser.add_argument("--rounds", type=int, default=9)
    for field in fields(Options):
        if field.name != "sizes":
            parser.add_argument(f"--{field.name.replace('_', '-')}", default=field.default, type=type(field.default))
    given = vars(parser.parse_args())
    size, limit, rounds = given.pop("size"), given.pop("time"), given.pop("rounds")
    options = replace(Options(**given), sizes=size)
    words = [word for name, value in given.items() if value != "" for word in (f"--{name.replace('_', '-')}", str(value))]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        storage = ("--storage", str(folder / "s.db"))
        answer = tune("oneccl", *words, "--sizes", size, "--time", limit, "--study", "bench", *storage)
        print(f"{size}: {answer['decision']}, {answer['gain']}", flush=True)
        # A hand-run job keeps what is recommended also where that is the baseline.
        tune("export", "bench", "--format", "script", "-o", str(folder / "run_oneccl.sh"), *storage)
        script, times = folder / "run_oneccl.sh", {"script": [], "engine": [], "baseline": []}  # type: dict[str, list[float]]
        setup = Setup.of(options)
        with CclRunner(setup, SPACE) as runner:
            for number in range(rounds):
                for way in random.Random(number).sample(list(times), len(times)):
                    if way == "script":
                        taken = scripted(script, str(setup.found.library), parse_size(size), options.ssh, number)
                    else:
                        config = answer["recommended"] if way == "engine" else SPACE.default
                        outcome = runner.measure(config, _LIMIT)
                        taken = outcome.metrics["time_us"] if isinstance(outcome, Measurement) else None
                    if taken is not None:
                        times[way].append(taken)
    for way, found in times.items():
        if found:
            ordered = sorted(found)
            print(
                f"{size}: {way:8s} {median(found):8.1f} us a call ({ordered[0]:.1f} to {ordered[-1]:.1f}), {len(found)} rounds"
            )


if __name__ == "__main__":
    main()
