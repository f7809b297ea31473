"""Native against DeepSpeed's own op: the same settings on the same device, interleaved, as ratios.

python tests/benchmarks/bench_engines.py --folder /mnt/nvme --rounds 4 --starts 3
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import runners.aio.runner as module
from runners.aio.options import Options
from runners.aio.plan import Volume
from runners.aio.runner import AioRunner
from runners.lock import lock_device
from runners.runner import Failure
from spaces.aio import SPACE
from spaces.space import Config
from spaces.units import parse_size

SETTINGS: list[tuple[int, int, int, bool, bool]] = [
    (128 << 10, 8, 1, False, False),
    (128 << 10, 32, 4, True, True),
    (256 << 10, 32, 1, False, True),
    (1 << 20, 8, 1, False, True),
    (1 << 20, 32, 4, False, True),
    (8 << 20, 32, 4, False, True),
    (64 << 10, 64, 16, False, True),
    (1 << 20, 128, 8, True, False),
]
Found = dict[tuple[int, str], list[dict[str, float]]]
NAMES = ("block_size", "queue_depth", "intra_op_parallelism", "single_submit", "overlap_events")


def measure(runner: AioRunner, config: Config) -> dict[str, float]:
    outcome = runner.measure(config, 120)
    if isinstance(outcome, Failure):
        raise SystemExit(f"{runner.engine} {runner.space.show(config)}: {outcome.kind}: {outcome.reason}")
    return {**outcome.metrics, "seconds": outcome.seconds, "check": float(str(outcome.evidence["check_seconds"])),
            "io": float(str(outcome.evidence["io_seconds"]))}  # fmt: skip


def spread(values: list[float]) -> float:
    """Half the distance of the quartiles over the median, in per cent."""
    low, middle, high = statistics.quantiles(values, n=4)
    return 50 * (high - low) / middle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="a folder on the device")
    parser.add_argument("--rounds", type=int, default=4, help="rounds of each start")
    parser.add_argument("--starts", type=int, default=3, help="fresh processes; buffers differ from start to start")
    parser.add_argument("--tensor-size", default="64M")
    parser.add_argument("--read", default="256M", help="bytes that a measurement reads")
    parser.add_argument("--write", default="128M", help="bytes that a measurement writes")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    configs = [dict(zip(NAMES, setting, strict=True)) for setting in SETTINGS]
    found: Found = {}
    rng = random.Random(arguments.seed)
    for _ in range(arguments.starts):
        race(arguments, configs, rng, found)
    report(configs, found)


def race(arguments: argparse.Namespace, configs: list[dict[str, int]], rng: random.Random, found: Found) -> None:
    """Both engines, all settings, shuffled, on processes of this start alone.

    How contiguous the pages of a buffer lie is chance and moves an engine by more than the engines differ; hence the starts.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=arguments.folder)))
        engines: dict[str, AioRunner] = {}
        for name in rng.sample(("native", "deepspeed"), 2):
            # Both take turns on one device, which two runs of the command never would.
            locks = folder / f"locks-{name}"
            locks.mkdir()
            module.lock_device = partial(lock_device, folder=locks)  # type: ignore[assignment]
            options = Options(device=[str(folder)], engine=name, tensor_size=arguments.tensor_size)  # type: ignore[arg-type]
            runner = stack.enter_context(AioRunner.create(options, SPACE))
            runner.volume = Volume(parse_size(arguments.read), parse_size(arguments.write))
            runner.message = print
            runner.prepare()
            engines[name] = runner
        for turn in range(arguments.rounds + 1):
            order = [(index, name) for index in range(len(configs)) for name in engines]
            rng.shuffle(order)
            for index, name in order:
                result = measure(engines[name], configs[index])
                if turn:  # the first round reads back whole files, which disturbs its neighbours
                    found.setdefault((index, name), []).append(result)


def report(configs: list[dict[str, int]], found: Found) -> None:
    print(f"{'setting':<46} {'':5} {'native':>12} {'deepspeed':>12} {'ratio of pairs':>20}")
    ratios: dict[str, list[float]] = {"read_gbs": [], "write_gbs": []}
    for index, config in enumerate(configs):
        for metric in ("read_gbs", "write_gbs"):
            native = [result[metric] for result in found[index, "native"]]
            deepspeed = [result[metric] for result in found[index, "deepspeed"]]
            pairs = [one / other for one, other in zip(native, deepspeed, strict=True)]
            ratios[metric].append(statistics.median(pairs))
            name = " ".join(SPACE[knob].show(value) for knob, value in config.items()) if metric == "read_gbs" else ""
            print(
                f"{name:<46} {metric[:-4]:5} {statistics.median(native):5.2f} ±{spread(native):3.0f}%  "
                f"{statistics.median(deepspeed):5.2f} ±{spread(deepspeed):3.0f}%  "
                f"{statistics.median(pairs):8.2f} ±{spread(pairs):3.0f}%"
            )
    for metric, values in ratios.items():
        print(
            f"{metric[:-4]}: native/deepspeed {min(values):.2f} to {max(values):.2f}, median {statistics.median(values):.2f}"
        )
    for name in ("native", "deepspeed"):
        results = [result for (_, engine), results in found.items() if engine == name for result in results]
        median = {key: statistics.median(result[key] for result in results) for key in ("seconds", "io", "check")}
        print(
            f"{name}: a measurement takes {median['seconds']:.3f} s, of which timed I/O {median['io']:.3f} s "
            f"and checks {median['check']:.3f} s ({100 * median['check'] / median['io']:.0f} % of the I/O)"
        )


if __name__ == "__main__":
    main()
