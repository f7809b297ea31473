"""What all files say: who found it, how much it is worth, and each variable with its purpose and its own gain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runners.runner import Json
from spaces.oneccl import interface_environment
from spaces.xft import PLACEMENT, SPACE, assigned, ccl
from tuner.exporters.shell import quoted
from tuner.exporters.xft.options import Launch
from tuner.recommendation import Recommendation

_PURPOSE = {
    "openmp": "the OpenMP runtime",
    "wait_policy": "what threads do that wait for work",
    "spin_count": "turns that a thread spins before it sleeps",
    "blocktime": "milliseconds that a thread spins before it sleeps",
    "bind_threads": "each thread on a CPU of its own",
    "huge_pages": "weights on transparent huge pages",
    "allreduce": "how ranks add up",
    "kv_trans": "layout of the key/value cache",
    "cat_mlp": "gate and up projection in one product",
    "flash_attention": "flash attention above this many tokens (-1: never)",
    "amx_rows": "rows from which the AMX path is taken",
    "primitive_cache": "rows up to which compiled products are kept",
    "moe_engine": "the order of experts and tokens",
    "moe_balance": "what experts' work is evened out over",
    "n64": "block of xDNN's products",
    "provider": "libfabric's provider",
    "worker_offload": "progress by worker threads (1) or by the caller (0)",
    "worker_count": "worker threads of a rank",
    "yield": "what workers do while they wait",
}
_WHAT = {
    "ranks": "ranks of a host",
    "sockets": "sockets that are used",
    "threads": "threads of a rank",
    "spare_cores": "cores of a rank that stay free",
    "siblings": "siblings of a core that compute",
    "memory": "memory of a rank",
}
_STAND_IN = {"torch": "our decoder on torch", "vllm": "vLLM", "command": "the user's own program"}


@dataclass(frozen=True, slots=True)
class Entry:
    """A variable, and what a comment says of it."""

    name: str
    value: str
    comment: str


def head(recommendation: Recommendation, job: Launch) -> list[str]:
    """The first comments of a file, without their signs."""
    source = f"study {recommendation.study}" if recommendation.study else "a dry run: nothing was measured"
    lines = [f"CPU inference{_of(recommendation)} by clustertune ({source})"]
    gain = recommendation.gain
    scripted = job.layout is not None and job.layout.scripted
    if recommendation.decision == "keep":
        lines.append("Nothing beat the baseline, what xFT's own scripts choose." if scripted else "Nothing beat the baseline.")
    elif gain is not None:
        lines.append(
            f"{gain.ratio:.2f}x the performance of the baseline ({gain.low:.2f}x to {gain.high:.2f}x with "
            f"{gain.confidence:.0%} confidence)."
        )
    if recommendation.engine in _STAND_IN:
        lines.append(
            f"Measured with {_STAND_IN[recommendation.engine]}, not with xFT: cores, memory and waiting are as xFT has them, "
            "its own figures may differ."
        )
    lines += [f"{_WHAT[name]}: {worth}" for name in PLACEMENT if (worth := _worth((name,), recommendation))]
    if job.layout is not None:
        lines += job.layout.notes
    # A comment ends where its line does: nothing that a host or a file says may go beyond.
    return ["".join(letter if letter.isprintable() else "?" for letter in line) for line in lines]


def _of(recommendation: Recommendation) -> str:
    model = recommendation.options.get("model")
    return f" of {str(model).rpartition('/')[2]}" if isinstance(model, str) and model.isprintable() and model else ""


def entries(recommendation: Recommendation, job: Launch) -> list[Entry]:
    """The variables that all ranks have alike."""
    config = recommendation.config
    hosts = max(1, len(job.hosts))
    found = []
    for each in assigned(config, job.software, hosts):
        forced = each.name == "XFT_ONECCL" and hosts > 1
        said = (
            "ranks of several hosts add up by oneCCL, never in shared memory"
            if forced
            else _comment(each.knobs, recommendation)
        )
        found.append(Entry(each.name, each.value, said))
    known = {entry.name for entry in found}
    for name, value in job.common.items():
        if name not in known:
            found.append(Entry(name, value, "the cores of oneCCL's workers" if name.startswith("CCL") else "the rank's place"))
    if hosts > 1 and job.software.ccl:
        for name, value in interface_environment(job.iface, ccl(config)).items():
            found.append(Entry(name, value, "the network between the hosts"))
    return found


def ours(recommendation: Recommendation) -> list[Entry]:
    """Knobs that no program reads from the environment, as variables that `tune` reads back from a file."""
    config = recommendation.config
    return [
        Entry(f"CLUSTERTUNE_{name.upper()}", str(config[name]), _comment((name,), recommendation, _WHAT))
        for name in (*PLACEMENT, "openmp")
        if config[name] != SPACE[name].default
    ]


def block(found: Sequence[Entry], before: str = "", between: str = "") -> str:
    """A line NAME=VALUE for each entry below its comment, which stands once where it is the same."""
    text, said = "", ""
    for entry in found:
        if entry.comment != said:
            text += f"{between}# {entry.comment}\n"
            said = entry.comment
        text += f"{before}{entry.name}={quoted(entry.value)}\n"
    return text


def _comment(knobs: Sequence[str], recommendation: Recommendation, purposes: Mapping[str, str] = _PURPOSE) -> str:
    """What a variable is for, and what it was worth where the study knows."""
    text = purposes.get(knobs[0]) or _PURPOSE.get(knobs[0], "the algorithm by message size in bytes")
    worth = _worth(knobs, recommendation)
    if all(recommendation.baseline.get(knob) == recommendation.config[knob] for knob in knobs):
        worth = worth or "as in the baseline"
    return f"{text}: {worth}" if worth else text


def _worth(knobs: Sequence[str], recommendation: Recommendation) -> str:
    gains = recommendation.evidence.get("gains")
    return ", ".join(filter(None, (_gain(knob, gains) for knob in knobs))) if isinstance(gains, Mapping) else ""


def _gain(knob: str, gains: Mapping[str, Json]) -> str:
    gain = gains.get(knob)
    ratio, low, high = (gain.get(key) for key in ("ratio", "low", "high")) if isinstance(gain, Mapping) else (gain, None, None)
    if not isinstance(ratio, int | float) or isinstance(ratio, bool):
        return ""
    if isinstance(low, int | float) and isinstance(high, int | float):
        return f"{ratio:.2f}x ({low:.2f}x to {high:.2f}x)"
    return f"{ratio:.2f}x"
