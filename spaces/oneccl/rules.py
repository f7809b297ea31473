"""What a job and its hosts allow, which settings are the same in effect, and which of equal ones takes least."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from spaces.oneccl.environment import algorithms, assigned, transport_of
from spaces.oneccl.knobs import ALGORITHMS, SIZE_CLASSES, class_of
from spaces.space import Config, Domain, Knob, Rule, Space, Value

# Those that oneCCL cuts into chunks, so that moving one and working on another overlap.
_CHUNKED = frozenset({"ring", "nreduce", "2d", "scatter"})
# Jobs that stay once they are started: a race of five finalists and the baseline keeps all of its own.
WARM = 6
# Runs showed this order of effect: who makes progress and how it waits (500 times and more), transport and shared memory (2 to
# 3), the algorithm (1.5 to 3); chunks, the length of spinning and more workers come behind (1.3 and less).
_MINOR = frozenset({"fabrics", "worker_count", "spin_count", "chunk_count", "pinning", "mnic"})
FUSED_SIZE = 16 << 10  # oneCCL merges messages up to here (CCL_FUSION_BYTES_THRESHOLD)


@dataclass(frozen=True, slots=True)
class Limits:
    """The job, and what its hosts allow; None is not known and rules nothing out.

    ``sizes`` are the workload's message sizes in bytes (none: any), ``element`` the bytes of one element. ``ranks`` is all
    of them, ``local_ranks`` those of a host. ``cores_per_rank`` is what Intel MPI pins a rank to by default,
    ``pinned_cores`` what it does with other values of the knob pinning. ``default_transport`` is oneCCL's own choice.
    ``refused`` gives for each knob's value that can't be had here the reason, as a sentence.
    """

    collective: str = "allreduce"
    sizes: tuple[int, ...] = ()
    element: int = 4
    hosts: int | None = None
    ranks: int | None = None
    local_ranks: int | None = None
    cores_per_rank: int | None = None
    pinned_cores: Mapping[str, int] = field(default_factory=dict)
    default_transport: str = "mpi"
    several_nics: bool | None = None
    refused: Mapping[tuple[str, Value], str] = field(default_factory=dict)


def offloads(config: Config, limits: Limits) -> bool | None:
    """Whether worker threads make progress: by default they do unless they would need all cores of the rank, where oneCCL
    turns them off; None where the cores are not known.
    """
    if config["worker_offload"] != "default":
        return config["worker_offload"] == "1"
    if config["pinning"] == "off":
        return True  # oneCCL counts the cores of a pinned rank only
    cores = _cores(config, limits)
    return None if cores is None else int(config["worker_count"]) != cores


def _cores(config: Config, limits: Limits) -> int | None:
    pinning = str(config["pinning"])
    return limits.cores_per_rank if pinning == "default" else limits.pinned_cores.get(pinning)


def cost(config: Config) -> float:
    """What a setting takes to carry about and from the machine: variables first, then worker threads, then spinning."""
    workers = 0 if config["worker_offload"] == "0" else int(config["worker_count"])
    spins = workers > 0 and config["yield"] in ("pause", "none")
    spins_long = workers > 0 and config["spin_count"] in ("256", "4096")
    return len(assigned(config)) + 0.1 * workers + 0.04 * spins + 0.02 * spins_long


def rules(limits: Limits) -> tuple[Rule, ...]:
    """What must hold before a setting is started; the rest only a run can tell."""

    def available(config: Config) -> str | None:
        reasons = (limits.refused.get((name, value)) for name, value in config.items())
        return next((reason for reason in reasons if reason is not None), None)

    def has_algorithm(config: Config) -> str | None:
        known = ALGORITHMS[limits.collective]
        for algorithm in sorted(algorithms(config) - {"default"}):
            if algorithm not in known:
                return f"{limits.collective} has no algorithm {algorithm}; it has {', '.join(known)}"
        return None

    def direct(config: Config) -> str | None:
        if "direct" in algorithms(config) and transport_of(config, limits.default_transport) != "mpi":
            return "the algorithm direct is MPI's own and needs the transport mpi"
        return None

    def workers(config: Config) -> str | None:
        count, cores = int(config["worker_count"]), _cores(config, limits)
        if cores is None or count <= cores:
            return None
        return f"{count} workers a rank don't fit on the {cores} {'core' if cores == 1 else 'cores'} that a rank is pinned to"

    def apart(config: Config) -> str | None:
        alone = limits.local_ranks == 1
        if config["pinning"] != "off" or config["worker_offload"] == "0" or alone:
            return None
        return "without pinning the workers of all ranks go to the same last cores of a host; worker_offload 0 has none"

    def reaches(config: Config) -> str | None:
        if config["provider"] == "shm" and limits.hosts is not None and limits.hosts > 1:
            return f"the provider shm does not leave a host, and the job has {limits.hosts}: it would wait for ever"
        return None

    def elements(config: Config) -> str | None:
        if limits.ranks is None or limits.collective not in ("allreduce", "reduce"):
            return None
        least = {"nreduce": limits.ranks, "rabenseifner": 1 << (limits.ranks.bit_length() - 1)}
        for size in limits.sizes:
            algorithm = str(config[class_of(size)])
            if size // limits.element < least.get(algorithm, 0):
                count = size // limits.element
                return f"{algorithm} needs {least[algorithm]} elements for {limits.ranks} ranks, and {size} bytes are {count}"
        return None

    def cards(config: Config) -> str | None:
        if config["mnic"] == "none" or limits.several_nics is not False:
            return None
        return f"mnic {config['mnic']} needs several network cards a host, and these hosts have one"

    return (
        Rule("the hosts have it", available),
        Rule("the collective has the algorithm", has_algorithm),
        Rule("direct goes by MPI", direct),
        Rule("workers fit on the rank's cores", workers),
        Rule("workers of different ranks are apart", apart),
        Rule("the provider reaches all hosts", reaches),
        Rule("the algorithm has elements enough", elements),
        Rule("several cards are there", cards),
    )


def for_job(space: Space, limits: Limits) -> Space:
    """``space`` (narrowed or not) with the rules of ``limits``, settings that are the same in effect folded, and the cost.

    Values that no legal setting holds leave a knob's domain as long as others remain, so that a search draws none of them.
    """
    sizes = (0,) if limits.collective == "barrier" else limits.sizes
    classes = {class_of(size) for size in sizes} or {knob for knob, _, _ in SIZE_CLASSES}

    def preferred(name: str) -> Value:
        knob = space[name]
        return knob.default if knob.default in knob.domain.values else knob.domain.values[0]

    def canonical(config: Config) -> Config:
        folded = dict(config)

        def idle(*names: str) -> None:
            folded.update({name: preferred(name) for name in names})

        if folded["transport"] == limits.default_transport and preferred("transport") == "default":
            folded["transport"] = "default"
        idle(*(knob for knob, _, _ in SIZE_CLASSES if knob not in classes))
        if transport_of(folded, limits.default_transport) == "ofi":
            idle("fabrics")
        else:
            idle("shm")
            # shm:ofi is what Intel MPI does by itself; over several hosts it takes shm for shm:ofi, and on one host it leaves
            # ofi alone unless it is told "ofi".
            if folded["fabrics"] == "shm:ofi" or (folded["fabrics"] == "shm" and limits.hosts is not None):
                idle("fabrics")
            if limits.hosts == 1 and folded["fabrics"] != "ofi":
                idle("provider")
        offloaded = offloads(folded, limits)
        if offloaded is False:
            idle("yield", "spin_count")  # read by workers, and by callers that wait for them
        if folded["worker_offload"] != "default" and preferred("worker_offload") == "default":
            by_itself = {**folded, "worker_offload": "default"}
            if offloads(by_itself, limits) == offloaded:
                folded = by_itself
        if limits.collective != "allreduce" or (limits.sizes and min(limits.sizes) > FUSED_SIZE):
            idle("fusion")
        if not {str(folded[knob]) for knob in classes} & (_CHUNKED | {"default"}):
            idle("chunk_count")
        return folded

    knobs = tuple(_possible(knob, limits) for knob in space.knobs)
    # One job holds every algorithm: oneCCL chooses by size, and sizes that differ by a few bytes are timed alike.
    live = frozenset(knob for knob, _, _ in SIZE_CLASSES)
    return replace(space, knobs=knobs, rules=rules(limits), canonical=canonical, cost=cost, live=live, warm=WARM, minor=_MINOR)


def _possible(knob: Knob, limits: Limits) -> Knob:
    """``knob`` without the values that this job can't have, unless none would be left."""

    def can(value: Value) -> bool:
        if (knob.name, value) in limits.refused:
            return False
        if knob.name.startswith("algorithm_"):
            return value == "default" or value in ALGORITHMS[limits.collective]
        return knob.name != "mnic" or value == "none" or limits.several_nics is not False

    kept = tuple(value for value in knob.domain.values if can(value))
    return replace(knob, domain=Domain(knob.domain.kind, kept)) if kept else knob
