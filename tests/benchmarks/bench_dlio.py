"""A real training by DLIO (unet3d, two MPI ranks, small records) through a mount of a slow store, before and after tuning.

    python tests/benchmarks/bench_dlio.py [--time 15m] [--rounds 3] [--record 4M] [--computation 0.05] [--tune-reader]

The store is behind 20 ms and 15 MB/s a connection. Prints what `tune rclone --load unet3d` picked and what it took, then the
accelerators' utilisation with the mount's defaults and with the pick, in interleaved rounds of a fresh comparison.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1] / "lib"))

from support.store import Store, store

from runners import rclone
from runners.mlperf.benchmark import generate
from runners.mlperf.installed import find_dlio
from runners.mlperf.launching import Start, find_launcher
from runners.mlperf.workloads import find
from runners.rclone.options import Options
from runners.runner import Failure, Measurement
from spaces.rclone import SPACE
from spaces.space import Config
from spaces.units import parse_size

_LIMIT = 240.0
_STEPS = 50


def tuned(made: Store, scratch: Path, options: Options, limit: str) -> tuple[Config, float, str]:
    """What the command recommends, its seconds, and what it says of them."""
    words = [sys.executable, "-m", "tuner", "rclone", "--remote", options.remote, "--config", options.config]
    words += ["--load", options.load, "--accelerators", str(options.accelerators), "--scratch", str(scratch), "--time", limit]
    words += [word for each in options.load_option for word in ("--load-option", each)]
    words += ["--tune-reader"] if options.tune_reader else []
    begun = time.monotonic()
    done = subprocess.run([*words, "--storage", str(scratch / "s.db"), "--json"], capture_output=True, text=True, check=False)
    answer = json.loads(done.stdout)
    if "recommended" not in answer:
        sys.exit(f"tune rclone: {answer['error']['message']}")
    return answer["recommended"], time.monotonic() - begun, f"{answer['trials']} measurements; {answer['reason']}"


def compared(options: Options, pick: Config, rounds: int) -> None:
    taken: dict[str, list[Measurement]] = {"defaults": [], "tuned": []}
    rng = random.Random(0)
    with rclone.create(options, SPACE) as runner:
        runner.check()
        runner.prepare()
        for number in range(rounds):
            for name, config in rng.sample([("defaults", runner.space.default), ("tuned", dict(pick))], 2):
                outcome = runner.measure(config, _LIMIT)
                if isinstance(outcome, Failure):
                    print(f"round {number + 1}, {name}: {outcome.kind}: {outcome.reason}", flush=True)
                else:
                    taken[name].append(outcome)
    for name, outcomes in taken.items():
        if not outcomes:
            sys.exit(f"{name}: nothing was measured")
        au = [each.metrics["utilisation"] for each in outcomes]
        speed = [each.metrics["samples_s"] for each in outcomes]
        print(f"{name:9} utilisation {median(au):5.1f} % ({min(au):.1f} to {max(au):.1f}), {median(speed):.2f} samples/s")
    pairs = zip(taken["tuned"], taken["defaults"], strict=False)
    ratios = sorted(ours.metrics["samples_s"] / theirs.metrics["samples_s"] for ours, theirs in pairs)
    print(f"tuned trains {median(ratios):.2f} times as fast ({ratios[0]:.2f} to {ratios[-1]:.2f}) in {len(ratios)} rounds")


def split(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


def told(config: Config) -> str:
    changed = [f"{knob.name}={knob.show(config[knob.name])}" for knob in SPACE.knobs if config[knob.name] != knob.default]
    changed += [f"{name}={value}" for name, value in config.items() if name not in SPACE.default]
    return " ".join(changed) or "the defaults"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--time", default="15m")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--record", default="4M")
    parser.add_argument("--computation", default="0.05")
    parser.add_argument("--accelerators", type=int, default=2)
    parser.add_argument("--tune-reader", action="store_true", help="the reader's knobs too, from MLPerf's own values")
    parser.add_argument("--pick", default="", help="compare this setting, NAME=VALUE[,...], without a study")
    given = parser.parse_args()
    parameters = ["reader.batch_size=1", f"train.computation_time={given.computation}"]
    parameters += [] if given.tune_reader else ["reader.read_threads=1"]
    dlio = find_dlio()
    start, workload = Start(dlio, find_launcher(dlio)), find("unet3d", "v1.0", "h100")
    with tempfile.TemporaryDirectory(prefix="ct") as folder, store(Path(folder) / "store") as made:
        scratch = Path(folder)
        length = {"dataset.record_length": str(parse_size(given.record)), "dataset.record_length_stdev": "0"}
        files = _STEPS * given.accelerators
        data = generate(start, workload, made.folder / "unet3d", files, length, ranks=2, scratch=scratch, limit=_LIMIT)
        if isinstance(data, Failure):
            sys.exit(f"{data.reason}\n{data.log}")
        print(f"{files} records of {given.record}, {given.accelerators} accelerators, {start.facts()}", flush=True)
        options = Options(
            remote="slow:data",
            config=str(made.config),
            load="unet3d",
            accelerators=given.accelerators,
            load_option=parameters,
            tune_reader=given.tune_reader,
            scratch=str(scratch),
        )
        if given.pick:
            pick = {**SPACE.default, **{name: SPACE[name].parse(text) for name, text in map(split, given.pick.split(","))}}
        else:
            pick, seconds, why = tuned(made, scratch, options, given.time)
            print(f"tune rclone: {seconds:.0f} s, {why}: {told(pick)}", flush=True)
        compared(options, pick, given.rounds)


if __name__ == "__main__":
    main()
