"""What all files say: who found it, how much it is worth, and each variable with its purpose and its own gain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from runners.runner import Json
from spaces.oneccl import SPACE, Assigned, assigned, interface_environment, variables
from tuner.errors import WrongUsage
from tuner.exporters.oneccl.options import Launch
from tuner.recommendation import Recommendation

_PURPOSE = {
    "transport": "what moves messages",
    "provider": "libfabric's provider",
    "shm": "shared memory between the ranks of a host",
    "fabrics": "what MPI uses inside a host and between hosts",
    "worker_offload": "progress by worker threads (1) or by the caller (0)",
    "worker_count": "worker threads of a rank",
    "yield": "what threads do while they wait",
    "spin_count": "looks for progress before a worker yields",
    "chunk_count": "chunks that a message is cut into",
    "fusion": "small calls merged into one",
    "pinning": "the cores of a rank",
    "mnic": "the network cards of a host",
}
_SIZES = {"algorithm_small": " up to 16 KiB", "algorithm_medium": " up to 1 MiB", "algorithm_large": " above 1 MiB"}


@dataclass(frozen=True, slots=True)
class Entry:
    """A variable, and what a comment says of it."""

    name: str
    value: str
    comment: str


def head(recommendation: Recommendation, job: Launch) -> list[str]:
    """The first comments of a file, without their signs."""
    where = f"{len(job.hosts)} hosts" if len(job.hosts) > 1 else "one host"
    lines = [f"oneCCL {job.collective} on {where}, {job.ppn} ranks each, by clustertune (study {recommendation.study})"]
    gain = recommendation.gain
    default = dict(recommendation.config) == SPACE.default
    if recommendation.decision == "keep":
        own = "oneCCL with no variable set" if default else "and this is the baseline itself"
        lines.append(f"Nothing beat the baseline, {own}.")
    elif gain is not None:
        lines.append(
            f"{gain.ratio:.2f}x the speed of the baseline ({gain.low:.2f}x to {gain.high:.2f}x with {gain.confidence:.0%} "
            f"confidence), measured with {job.measured}."
        )
    if default and recommendation.decision == "adopt":
        lines.append("No variable is set: oneCCL's own choices are best.")
    return lines


def entries(recommendation: Recommendation, job: Launch) -> list[Entry]:
    """The variables of a recommendation. Raises WrongUsage where the job's MPI can't have them."""
    config = recommendation.config
    found = []
    for each in assigned(config, job.collective, job.transport):
        if each.name == "CCL_ATL_TRANSPORT" and each.value == "mpi" and job.mpi == "openmpi":
            raise WrongUsage(
                "--mpi openmpi: the recommendation needs oneCCL's transport mpi, which works with Intel MPI and MPICH only.",
                "take --mpi intel or --mpi mpich, or a study with --transport ofi",
            )
        found.append(Entry(each.name, each.value, _comment(each, recommendation)))
    for name, value in interface_environment(job.iface, config).items():
        found.append(Entry(name, value, "the network between the hosts"))
    return found


def block(found: Iterable[Entry], line: Callable[[Entry], str], between: str = "") -> str:
    """A line for each entry below its comment, which stands once where it is the same; ``between`` parts comments."""
    text, said = "", ""
    for entry in found:
        if entry.comment != said:
            text += f"{between}# {entry.comment}\n"
            said = entry.comment
        text += line(entry)
    return text


def unset(found: Iterable[Entry], job: Launch) -> str:
    """The line that takes out what a shell may bring along: the study was measured without."""
    kept = {entry.name for entry in found}
    left = [name for name in variables(job.collective) if name not in kept]
    return f"# What the shell may bring along: it was measured without these.\nunset {' '.join(left)}\n"


def _comment(each: Assigned, recommendation: Recommendation) -> str:
    """What a variable is for, and what it was worth where the study knows."""
    text = _PURPOSE.get(each.knobs[0], "the algorithm by message size in bytes")
    gains = recommendation.evidence.get("gains")
    said = [_gain(knob, gains) for knob in each.knobs] if isinstance(gains, Mapping) else []
    worth = ", ".join(filter(None, said))
    if all(recommendation.baseline.get(knob) == recommendation.config[knob] for knob in each.knobs):
        worth = worth or "as in the baseline"
    return f"{text}: {worth}" if worth else text


def _gain(knob: str, gains: Mapping[str, Json]) -> str:
    gain = gains.get(knob)
    ratio, low, high = (gain.get(key) for key in ("ratio", "low", "high")) if isinstance(gain, Mapping) else (gain, None, None)
    if not isinstance(ratio, int | float) or isinstance(ratio, bool):
        return ""
    text = f"{ratio:.2f}x"
    if isinstance(low, int | float) and isinstance(high, int | float):
        text += f" ({low:.2f}x to {high:.2f}x)"
    return text + _SIZES.get(knob, "")
