"""Records the topologies of hosts, for --topology: ``python -m runners.topology --hosts hosts.txt >hosts.json``."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from runners.hosts import hosts_for
from runners.hosts.host import Host
from runners.launch.direct import Ssh
from runners.launch.job import Job, Rank
from runners.launch.reach import Reach
from runners.runner import Failure, UsageError
from runners.topology import probe
from runners.topology.record import BadRecord, topology, written

_LIMIT = 60.0


def ask(reach: Reach, host: Host) -> dict[str, Any] | Failure:
    """The record of a host; nothing of ours needs to be there."""
    source = Path(probe.__file__).read_text(encoding="utf-8")
    job = Job((Rank(Host(host.name, 1, host.user, host.port), (reach.python, "-c", source, "--serve")),), _LIMIT)
    with Ssh(reach).start(job) as running:
        line = running.ask("{}", _LIMIT)
    if isinstance(line, Failure):
        return line
    try:
        told = dict(json.loads(line))
        topology(told)
    except (ValueError, BadRecord) as error:
        return Failure("environment", f"{host.name}: what it tells of its CPUs can't be used: {error}")
    return told


def main(arguments: list[str] | None = None) -> int:
    """0, or 2 for options that can't be used and 4 for hosts that don't answer, with a sentence on standard error."""
    parser = argparse.ArgumentParser(prog="python -m runners.topology", description=__doc__)
    parser.add_argument("--hosts", default="", metavar="FILE|LIST", help="a hosts file, an inventory, or names like a,b")
    parser.add_argument("--ssh", default="ssh", metavar="COMMAND", help="the ssh command, with options that it needs")
    parser.add_argument("--python", default="python3", metavar="PROGRAM", help="the Python that is started on the hosts")
    given = parser.parse_args(arguments)
    try:
        hosts = hosts_for(given.hosts)
        words = tuple(shlex.split(given.ssh))
    except UsageError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except ValueError:
        sys.stderr.write(f"--ssh {given.ssh}: a quote is not closed\n")
        return 2
    if hosts is None:
        sys.stdout.write(json.dumps(probe.gather(), indent=1) + "\n")
        return 0
    with ThreadPoolExecutor(min(64, len(hosts))) as pool:
        answers = list(pool.map(partial(ask, Reach(words, python=given.python)), hosts))
    records: dict[str, dict[str, Any]] = {}
    for host, answer in zip(hosts, answers, strict=True):
        if isinstance(answer, Failure):
            sys.stderr.write(f"{answer.reason}\n")
            return 4
        records[host.name] = answer
    sys.stdout.write(written(records))
    return 0


if __name__ == "__main__":
    sys.exit(main())
