"""What a recommendation says beyond variables: limits, names, and how the job is started, a comment line each."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any, cast

from runners.runner import Json
from runners.tcpstore.diagnosis import wanted_backlog
from runners.tcpstore.fit import SPARE
from spaces.space import Config
from tuner.recommendation import Recommendation

_PORT = 29500
# More hosts than these are told by their number.
_NAMED = 8


def advice(recommendation: Recommendation, launch: str) -> list[str]:
    """The lines, without their signs of comment."""
    machine, config = recommendation.machine, recommendation.config
    ranks = recommendation.options.get("world_size")
    size = f"{ranks} ranks" if isinstance(ranks, int) else "a job"
    lines = [f"TCPStore of {size} started with {launch}, by clustertune (study {recommendation.study})"]
    if isinstance(ranks, int):
        lines += _limits(machine, ranks)
    master = machine.get("master")
    master = master if isinstance(master, dict) else {}
    lines += _names(master, config)
    if isinstance(ranks, int):
        lines += _start(recommendation, launch, ranks, master)
    if config["start"] == "listening":
        lines.append("rank 0 takes over a listening socket: rendezvous.py (--format python) does that")
    return lines


def _limits(machine: Mapping[str, Json], ranks: int) -> Iterator[str]:
    backlog, limit = machine.get("somaxconn"), machine.get("nofile")
    if isinstance(backlog, int) and backlog < ranks:
        most = wanted_backlog(ranks)
        yield f"rank 0's host: sudo sysctl -w net.core.somaxconn={most} net.ipv4.tcp_max_syn_backlog={most}"
    if isinstance(limit, int) and limit < ranks + SPARE:
        yield f"rank 0's process: ulimit -n {ranks + SPARE}"


def _names(master: Mapping[str, Json], config: Config) -> Iterator[str]:
    name, ip = master.get("name"), master.get("ip")
    if name and ip and config["address"] == "ip":
        yield f"MASTER_ADDR is rank 0's address, {ip} where this was measured, not its name"
    if name and ip and not master.get("loopback"):
        yield f"every host's /etc/hosts: a line `::ffff:ADDRESS NAME` for every host, as `::ffff:{ip} {name}`"


def _start(recommendation: Recommendation, launch: str, ranks: int, master: Mapping[str, Json]) -> Iterator[str]:
    """How the job is started on the hosts that it was measured on; where it was one machine, with HOST for rank 0's."""
    config, told = recommendation.config, recommendation.machine.get("hosts")
    hosts = cast("list[dict[str, Any]]", told) if isinstance(told, list) else []
    form = master.get("ip") if config["address"] == "ip" else master.get("name")
    host = shlex.quote(str(form)) if hosts and form else "HOST"
    port = recommendation.options.get("port") or _PORT
    if hosts:
        yield f"rank 0 is on {hosts[0]['name']}; ranks by host: {_placed(hosts)}"
    counts = {int(each["ranks"]) for each in hosts}
    if launch == "torchrun":
        if hosts:
            each = str(counts.pop()) if len(counts) == 1 else "RANKS_OF_THIS_HOST"
            yield (
                f"on every host: torchrun --nnodes={len(hosts)} --nproc-per-node={each} --rdzv-backend=c10d --rdzv-id=JOB "
                f"--rdzv-endpoint={host}:{port} PROGRAM"
            )
        return
    server = 1 if config["backend"] == "libuv" else 0
    url = f"tcp://{host}:{port if hosts else 'PORT'}?use_libuv={server}"
    yield f"or without variables: init_process_group(init_method='{url}', rank=…, world_size={ranks})"


def _placed(hosts: list[dict[str, Any]]) -> str:
    if len(hosts) > _NAMED:
        counts = sorted({int(each["ranks"]) for each in hosts})
        return f"{' or '.join(map(str, counts))} on each of {len(hosts)} hosts"
    return ", ".join(f"{each['name']} {each['ranks']}" for each in hosts)
