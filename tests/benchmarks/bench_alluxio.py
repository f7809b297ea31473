"""`tune alluxio` against trying everything, on the stand-in for Alluxio's FUSE process over a slow store (20 ms, 15 MB/s).

    python tests/benchmarks/bench_alluxio.py [--loads sequential,random,streams] [--time 3m] [--rounds 9]

The loads and what is printed are those of bench_mounts.py; everything is each part length with each number of parts. Knobs
that the stand-in takes no notice of are held. Needs root to mount.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))

from bench_mounts import CASES, MIB, compared, everything, spread, told, tuned
from support.alluxio_fuse import make_home
from support.store import store

from runners import alluxio
from spaces.alluxio import SPACE

GRID = {"part_length": (MIB // 2, MIB, 2 * MIB, 4 * MIB, 8 * MIB, 16 * MIB), "max_part_number": (1, 2, 4, 8, 16, 32, 64)}
HELD = {"prefetch_threads": "64", "file_length_threshold": "4M", "slow_threads": "256", "slow_part_length": "1M",
        "shared_reads": "false", "preload": "false"}  # fmt: skip
_FILES = {f"part{number}.bin": 64 * MIB for number in range(4)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--loads", default=",".join(case.name for case in CASES))
    parser.add_argument("--time", default="3m")
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ba") as name, store(Path(name) / "store") as made:
        folder = Path(name)
        for file, size in _FILES.items():
            made.add(file, size)
        home = make_home(folder / "alluxio", "enterprise", "3.6", made.config, "slow:data")
        os.environ["ALLUXIO_HOME"] = str(home)
        point = folder / "mnt"
        point.mkdir()
        (script,) = home.rglob("alluxio-fuse")
        subprocess.run([script, "mount", "s3://data/", point], check=True, timeout=60)
        try:
            for case in CASES:
                if case.name in given.loads.split(","):
                    measure(case.name, {"mount": str(point), "load": "fio", "read_time": "2s", **case.options}, given)
        finally:
            subprocess.run([script, "unmount", point], check=False, timeout=60)


def measure(name: str, options: dict[str, Any], given: argparse.Namespace) -> None:
    pairs = {**options, **HELD, "part_length": "512K:16M"}
    words = [word for key, value in pairs.items() for word in (f"--{key.replace('_', '-')}", str(value))]
    ours, seconds, tried = tuned("alluxio", words, given.time)
    print(f"{name}: tune alluxio {seconds:6.1f} s, {tried} settings: {told(ours, SPACE.default)}", flush=True)
    with alluxio.create(alluxio.Options(**options), SPACE) as runner:
        runner.check()
        runner.prepare()
        theirs, spent, count = everything(runner, GRID)
        print(f"{name}: everything   {spent:6.1f} s, {count} settings: {told(theirs, SPACE.default)}", flush=True)
        rounds = compared(runner, [ours, theirs, SPACE.default], given.rounds)
    print(
        f"{name}: {len(rounds)} rounds, MiB/s: ours {median(r[0] for r in rounds):.2f}, everything's best "
        f"{median(r[1] for r in rounds):.2f}, defaults {median(r[2] for r in rounds):.2f}; ours over everything's best "
        f"{spread([r[0] / r[1] for r in rounds])}, over the defaults {spread([r[0] / r[2] for r in rounds])}",
        flush=True,
    )


if __name__ == "__main__":
    main()
