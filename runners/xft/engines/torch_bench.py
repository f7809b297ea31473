"""The decoder of the engine torch as a program of its own, for launch scripts: prints what xFT's benchmark.py prints.

    run_xft.sh python -m runners.xft.engines.torch_bench --model tiny --output-tokens 32
    mpirun -n 2 python -m runners.xft.engines.torch_bench --meet 192.0.2.1:29517

Every rank runs it; its number and that of all ranks come from mpirun or srun, one rank without.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from runners.oneccl import library
from runners.oneccl.options import Options as CclOptions
from runners.runner import EnvironmentProblem, UsageError
from runners.xft.engines.torch_engine import described
from runners.xft.engines.torch_rank import Rank
from runners.xft.goal import Goal
from runners.xft.model_files import find
from runners.xft.options import Options

_RANKS = (("PMI_RANK", "PMI_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"))
_MEET = "127.0.0.1:29517"
_PATIENCE = 120.0


def place_of(environ: Mapping[str, str]) -> tuple[int, int]:
    """This rank's number and that of all, as its launcher says."""
    for rank, ranks in _RANKS:
        if environ.get(rank, "").isdecimal() and environ.get(ranks, "").isdecimal():
            return int(environ[rank]), int(environ[ranks])
    return 0, 1


def block(name: str, requests: Sequence[Mapping[str, Any]], batch: int, input_tokens: int) -> str:
    """The lines of xFT's benchmark.py (2.1) for requests of {"first": ms, "next": [ms, …]}."""
    firsts = [request["first"] for request in requests]
    following = sorted(time for request in requests for time in request["next"])
    totals = [request["first"] + sum(request["next"]) for request in requests]
    mean = fmean(following)
    lines = [
        "=" * 50 + f"{name} Final Performance" + "=" * 50,
        f"Inference Avg Latency:\t{fmean(totals):.2f} ms",
        f"First token Avg Latency:\t{fmean(firsts):.2f} ms",
        f"Next token Max Latency:\t{following[-1]:.2f} ms",
        f"Next token Min Latency:\t{following[0]:.2f} ms",
        f"Next token P90 Latency:\t{following[int(0.9 * (len(following) - 1))]:.2f} ms",
        f"Next token Avg Latency:\t{mean:.2f} ms",
        f"Average Input Length:\t{float(input_tokens):.1f}",
        f"TTFT:\t{fmean(firsts):.2f} ms",
        f"TPOT:\t{mean:.2f} ms",
        f"Throughput:\t{1000 / mean * batch:.2f} tokens/s",
        "=" * 120,
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="A decoder with random weights on CPU ranks, timed.")
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--layers", type=int, default=0)
    parser.add_argument("--dtype", choices=("fp32", "bf16", "fp16"), default="fp32")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--input-tokens", type=int, default=32)
    parser.add_argument("--output-tokens", type=int, default=32)
    parser.add_argument("--iteration", type=int, default=10, help="requests that count, after one that does not")
    parser.add_argument("--meet", default=_MEET, help="HOST:PORT on rank 0's host where ranks meet")
    parser.add_argument("--sums", choices=("gloo", "oneccl"), default="gloo", help="by what ranks add up")
    given = parser.parse_args()
    try:
        goal = Goal.of(Options(batch=given.batch, input_tokens=given.input_tokens, output_tokens=given.output_tokens))
        shape = find(given.model).cut(given.layers)
        found = library.find(CclOptions()) if given.sums == "oneccl" else None
    except (UsageError, EnvironmentProblem) as error:
        parser.error(str(error))
    if found is not None:
        _with_libraries(found.environment())
    rank, ranks = place_of(os.environ)
    host, _, port = given.meet.rpartition(":")
    if not port.isdecimal() or not host:
        parser.error(f"--meet {given.meet}: write the address and a port, like {_MEET}")
    spec = {
        **described(shape, given.dtype, goal),
        "rank": rank,
        "ranks": ranks,
        "token": "clustertune-bench",
        "patience": _PATIENCE,
        "host": host,
        "port": int(port),
        "memory": {"policy": "none", "nodes": []},
        "talk": given.sums,
        "library": "" if found is None else str(found.library),
    }
    work = Rank(spec)
    work.begin()
    if rank > 0:
        work.follow()
        os._exit(0)
    answer = work.run(0.0, given.iteration, given.iteration)
    work.end()
    if "wrong" in answer:
        sys.exit(f"wrong: {answer['wrong']}")
    work.out.write(block(shape.name, answer["requests"], goal.batch, goal.input))
    work.out.flush()
    os._exit(0)  # native libraries may abort while the interpreter is torn down


def _with_libraries(needed: Mapping[str, str]) -> None:
    """Starts this program again where the loader would not find oneCCL's libraries: it looks at its start alone."""
    if all(os.environ.get(name) for name in needed):
        return
    os.execve(sys.executable, [sys.executable, "-m", __spec__.name, *sys.argv[1:]], {**os.environ, **needed})  # noqa: S606  its own words


if __name__ == "__main__":
    main()
