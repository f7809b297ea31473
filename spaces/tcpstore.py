"""PyTorch's TCPStore: how the ranks of a job find each other, and how they wait for each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from spaces.space import Config, Knob, Rule, Space, Value, choice

SUMMARY = "PyTorch's rendezvous store (TCPStore): libuv or legacy, and what really bounds start-up."

_CODE = "torch/distributed/rendezvous.py"

SPACE = Space(
    knobs=(
        Knob("backend", choice("libuv", "legacy"), "libuv", "Server of the store: one event loop, or a poll over all.", _CODE),
        Knob(
            "barrier",
            choice("keys", "counter", "store_barrier"),
            "keys",
            "How ranks wait for all on the store: as init_process_group does (add, add 0, wait), as torchrun's agents do "
            "(add, wait), or with store.barrier.",
            "torch/distributed/distributed_c10d.py, elastic/utils/store.py",
        ),
        Knob(
            "address",
            choice("name", "ip"),
            "name",
            "Rank 0's host in MASTER_ADDR: its name, which every rank looks up, or its address.",
            "torch/csrc/distributed/c10d/socket.cpp",
        ),
        Knob(
            "start",
            choice("together", "server_first", "listening"),
            "together",
            "What there is when clients first try: nothing sure, a server that listens, or a socket that listens already and "
            "that rank 0 takes over (master_listen_fd).",
            "torch/csrc/distributed/c10d/socket.cpp",
        ),
        Knob(
            "backlog",
            choice("present", "raised"),
            "present",
            "Connections that may wait on rank 0's host (net.core.somaxconn, net.ipv4.tcp_max_syn_backlog): as it is, or one "
            "a rank. Raised only with --system, and put back.",
            "torch/csrc/distributed/c10d/socket.cpp, the kernel's ip-sysctl",
        ),
    )
)

# What it takes to make each setting come about in a job, for ties between settings that start equally fast: a variable is
# easily set, code has to be changed for the others, and the old server is to be removed from torch.
_EFFORT: Mapping[str, Mapping[str, float]] = {
    "backend": {"libuv": 0.0, "legacy": 4.0},
    "barrier": {"keys": 0.0, "counter": 1.5, "store_barrier": 1.0},
    "address": {"name": 0.0, "ip": 0.5},
    "start": {"together": 0.0, "server_first": 1.0, "listening": 2.0},
    "backlog": {"present": 0.0, "raised": 2.5},
}


@dataclass(frozen=True, slots=True)
class Limits:
    """What this torch and this way of starting a job allow.

    ``refused`` gives for each knob's value that can't be had the reason, as a sentence. ``barriers`` False means that no
    barrier counts, ``short`` False that the backlog is long enough as it is.
    """

    refused: Mapping[tuple[str, str], str]
    listening_backends: frozenset[str]
    barriers: bool = True
    short: bool = True


def cost(config: Config) -> float:
    return sum(_EFFORT[name][str(config[name])] for name in _EFFORT)


def _first(knob: Knob) -> Value:
    return knob.default if knob.default in knob.domain.values else knob.domain.values[0]


def for_job(space: Space, limits: Limits) -> Space:
    """``space`` (narrowed or not) with the rules of ``limits``, equal settings folded, and the cost that breaks ties."""

    def available(config: Config) -> str | None:
        reasons = (limits.refused.get((name, str(value))) for name, value in config.items())
        return next((reason for reason in reasons if reason is not None), None)

    def taken_over(config: Config) -> str | None:
        if config["start"] != "listening" or config["backend"] in limits.listening_backends:
            return None
        return f"this torch's {config['backend']} server takes no listening socket (tried)"

    def canonical(config: Config) -> Config:
        folded = [name for name, counts in (("barrier", limits.barriers), ("backlog", limits.short)) if not counts]
        return {**config, **{name: _first(space[name]) for name in folded}}

    rules = (Rule("this torch and launch path have it", available), Rule("the server takes a listening socket", taken_over))
    return replace(space, rules=rules, canonical=canonical, cost=cost)
