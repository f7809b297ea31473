"""Starts of TCPStore jobs of several sizes, both servers in turn: real processes first, then several clients a process.

Run it where names cost nothing (a line `::ffff:ADDRESS NAME` in /etc/hosts): --alone makes namespaces that are so, as root.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[2]
HOSTS = "127.0.0.1 localhost\n::ffff:127.0.0.1 localhost\n"
PARTS = ("creation", "rank0", "barrier", "add_all")
NAMES = ("all in", "rank 0", "barrier", "add all", "CPU", "get", "add", "wait")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", default="16,64,256", help="sizes with a process a client")
    parser.add_argument("--clients", default="256,1024,4096", help="sizes with several clients a process")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--barrier", default="keys")
    parser.add_argument("--start", default="server_first")
    parser.add_argument("--alone", action="store_true")
    asked = parser.parse_args()
    if asked.alone:
        inside = ROOT / "tests" / "data" / "tcpstore" / "inside.py"
        plan = json.dumps({"hosts": HOSTS, "nsswitch": "hosts: files\n"})
        rest = [argument for argument in sys.argv[1:] if argument != "--alone"]
        command = ["unshare", "--net", "--mount", sys.executable, str(inside), plan, sys.executable, __file__, *rest]
        os.execvpe("unshare", command, {**os.environ, "PYTHONPATH": str(ROOT)})
    sys.path.insert(0, str(ROOT))
    from runners.runner import Failure
    from runners.tcpstore.figures import Start
    from runners.tcpstore.job import Job
    from runners.tcpstore.starting import started

    cases = [(int(n), int(n) - 1) for n in asked.processes.split(",") if n]
    few = 2 * len(os.sched_getaffinity(0))
    cases += [(int(n), few) for n in asked.clients.split(",") if n]
    print(f"load {os.getloadavg()[0]:.1f}; {asked.rounds} rounds, servers in turn, {asked.start}, barrier {asked.barrier}")
    print("until all are in, rank 0 in, barrier, add of all at once, server CPU until all are in: ms; get, add, wait: us")
    print(f"{'ranks':>6} {'processes':>9} {'server':>7}" + "".join(f"{name:>10}" for name in NAMES))
    for clients, processes in cases:
        seen: dict[str, list[tuple[Start, dict[str, list[float]]]]] = {"libuv": [], "legacy": []}
        worker, _ = started()
        for _ in range(asked.rounds):
            for server in random.sample(sorted(seen), 2):
                job = Job(server, asked.barrier, "127.0.0.1", asked.start, clients, processes, 1, 3, 200.0)
                reply = worker.call({"do": "measure", **job.json()}, 300.0)
                if isinstance(reply, Failure) or "failure" in reply:
                    print(clients, server, reply)
                    continue
                (start,) = reply["starts"]  # type: ignore[misc]
                seen[server].append((Start.of(start), reply["operations"]))  # type: ignore[arg-type]
        worker.close()
        for server, found in seen.items():
            if not found:
                continue
            values = [median(getattr(start, part) for start, _ in found) for part in PARTS]
            values.append(median(start.server_cpu[0] for start, _ in found))
            values += [1e6 * median(operations[name][0] for _, operations in found) for name in ("get", "add", "wait")]
            shown = "".join(f"{value:10.1f}" for value in values)
            print(f"{clients:6} {processes + 1:9} {server:>7}{shown}", flush=True)
        if all(seen.values()):
            print(f"       legacy / libuv until all are in {_ratio(seen, 'creation')}")
            print(f"       legacy / libuv server CPU       {_ratio(seen, 'server_cpu')}", flush=True)


def _ratio(seen: Any, part: str) -> str:
    """Legacy over libuv, round by round, and who is less in all of them."""
    both = [[getattr(start, part) for start, _ in seen[server]] for server in ("legacy", "libuv")]
    pairs = [(sum(a) / sum(b)) if isinstance(a, tuple) else a / b for a, b in zip(*both, strict=False)]
    verdict = "equal" if min(pairs) < 1 < max(pairs) else "libuv is less" if min(pairs) > 1 else "legacy is less"
    return f"{median(pairs):.2f} ({min(pairs):.2f} to {max(pairs):.2f}, {verdict})"


if __name__ == "__main__":
    main()
