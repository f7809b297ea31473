"""CPU seconds of `tune --help` against those of an empty Python, in turn, so that a busy machine slows both."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=11)
    runs = parser.parse_args().runs
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


if __name__ == "__main__":
    main()
