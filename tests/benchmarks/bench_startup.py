"""CPU seconds of `tune --help` against those of an empty Python, in turn, so that a busy machine slows both.

With --device DIR also the wall seconds from the start of `tune aio` there to its first measurement, by engine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence


def cpu_seconds(command: Sequence[str]) -> float:
    """User and system time of one run of ``command``, its output thrown away."""
    child = os.fork()
    if child == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os.execvp(command[0], command)
    _, status, usage = os.wait4(child, 0)
    if status != 0:
        raise SystemExit(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime


def to_first_measurement(device: str, engine: str) -> float:
    """Wall seconds until the first measurement begins; the run is ended then."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tuner", "aio", "--device", device, "--engine", engine, "--events", "--json"]
        begun = time.monotonic()
        with subprocess.Popen(
            [*command, "--storage", f"{folder}/s.db"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        ) as run:
            assert run.stderr is not None
            for line in run.stderr:
                if json.loads(line)["event"] == "measuring":
                    taken = time.monotonic() - begun
                    run.terminate()
                    run.communicate()
                    return taken
    raise SystemExit(f"tune aio --device {device} --engine {engine} ended before it measured")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--device")
    options = parser.parse_args()
    runs = options.runs
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "tune --help": [sys.executable, "-m", "tuner", "--help"],
        "tune aio --help": [sys.executable, "-m", "tuner", "aio", "--help"],
        "python -c 'import optuna'": [sys.executable, "-c", "import optuna"],
    }
    for command in commands.values():
        cpu_seconds(command)
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(runs):
        for name, command in commands.items():
            taken[name].append(cpu_seconds(command))
    base = statistics.median(taken["python -c pass"])
    print(f"{'command':28} {'CPU s (median)':>15} {'min':>7} {'max':>7} {'ratio':>7}")
    for name, values in taken.items():
        median = statistics.median(values)
        print(f"{name:28} {median:15.3f} {min(values):7.3f} {max(values):7.3f} {median / base:7.1f}")
    for engine in ("native", "deepspeed") if options.device else ():
        seconds = [to_first_measurement(options.device, engine) for _ in range(5)]
        median = statistics.median(seconds)
        print(f"tune aio --engine {engine:10} {median:6.1f} s to the first measurement (to {max(seconds):.1f})")


if __name__ == "__main__":
    main()
