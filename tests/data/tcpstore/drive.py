"""Measures settings with the real runner and prints what came out: drive.py JSON.

{"options": {…}, "configs": [{…}, …], "limit": seconds, "nofile": soft limit} -> one JSON object.
"""

import dataclasses
import json
import resource
import sys

from runners.process import descendants
from runners.tcpstore import create, doctor
from runners.tcpstore.options import Options
from spaces.tcpstore import SPACE


def main() -> None:
    asked = json.loads(sys.argv[1])
    if "nofile" in asked:
        resource.setrlimit(resource.RLIMIT_NOFILE, (asked["nofile"], resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    options = Options(**asked["options"])
    answer = {"outcomes": [], "left": []}
    if asked.get("doctor"):
        answer["doctor"] = [dataclasses.asdict(problem) for problem in doctor(options)]
    with create(options, SPACE) as runner:
        if asked.get("check", True):
            answer["problems"] = [dataclasses.asdict(problem) for problem in runner.check()]
        for config in asked.get("configs", []):
            outcome = runner.measure({**SPACE.default, **config}, asked.get("limit", 60))
            answer["outcomes"].append(dataclasses.asdict(outcome))
            assert runner.place.worker is not None
            answer["left"].append(len(descendants(runner.place.worker.pid)))
    import os

    answer["left"].append(len(descendants(os.getpid())))
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
