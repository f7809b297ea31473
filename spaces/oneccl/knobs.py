"""The knobs of oneCCL, and the names that oneCCL, libfabric and Intel MPI have for their values."""

from __future__ import annotations

from collections.abc import Mapping

from spaces.space import Knob, Value, choice, flag, integers, log2

_CCL = "oneCCL guide, environment variables"
_MPI = "Intel MPI reference, environment variables"

# What oneCCL has for host buffers, by collective; "direct" hands the call to MPI.
ALGORITHMS: Mapping[str, tuple[str, ...]] = {
    "allreduce": ("direct", "rabenseifner", "nreduce", "ring", "double_tree", "recursive_doubling", "2d"),
    "allgather": ("direct", "naive", "ring", "flat", "multi_bcast"),
    "allgatherv": ("direct", "naive", "ring", "flat", "multi_bcast"),
    "alltoall": ("direct", "naive", "scatter"),
    "alltoallv": ("direct", "naive", "scatter"),
    "bcast": ("direct", "ring", "double_tree", "naive"),
    "broadcast": ("direct", "ring", "double_tree", "naive"),
    "reduce": ("direct", "rabenseifner", "ring", "tree", "double_tree"),
    "reduce_scatter": ("direct", "naive", "ring"),
    "barrier": ("direct", "ring"),
}
COLLECTIVES = tuple(ALGORITHMS)
# Knob, first and last size in bytes (None: no end). Sizes are those that oneCCL selects by: elements times their size.
SIZE_CLASSES: tuple[tuple[str, int, int | None], ...] = (
    ("algorithm_small", 0, 16 << 10),
    ("algorithm_medium", (16 << 10) + 1, 1 << 20),
    ("algorithm_large", (1 << 20) + 1, None),
)

# libfabric's own names; a reliable endpoint on verbs needs the layer ofi_rxm.
PROVIDER_NAMES: Mapping[str, str] = {"verbs": "verbs;ofi_rxm"}
# Variables of Intel MPI's pinning, by the knob's values.
PINNING: Mapping[str, tuple[str, str]] = {
    "auto:scatter": ("I_MPI_PIN_DOMAIN", "auto:scatter"),
    "core": ("I_MPI_PIN_DOMAIN", "core"),
    "numa": ("I_MPI_PIN_DOMAIN", "numa"),
    "off": ("I_MPI_PIN", "0"),
}


def _algorithm(name: str, sizes: str) -> Knob:
    every = dict.fromkeys(algorithm for known in ALGORITHMS.values() for algorithm in known)
    return Knob(
        name, choice("default", *every), "default", f"Algorithm for messages {sizes}; not every collective has all.", _CCL
    )


KNOBS = (
    Knob(
        "transport",
        choice("default", "mpi", "ofi"),
        "default",
        "What moves messages: MPI, or libfabric without it (CCL_ATL_TRANSPORT).",
        _CCL,
    ),
    Knob(
        "provider",
        choice("default", "tcp", "shm", "verbs", "psm3", "mlx", "ucx", "efa", "opx", "cxi"),
        "default",
        "libfabric's way to other ranks (FI_PROVIDER, I_MPI_OFI_PROVIDER); verbs is verbs;ofi_rxm.",
        "libfabric manual, fi_provider(7)",
    ),
    Knob("shm", flag(), False, "Shared memory between ranks of a host, transport ofi only (CCL_ATL_SHM).", _CCL),
    Knob(
        "fabrics",
        choice("default", "shm:ofi", "ofi", "shm"),
        "default",
        "What MPI uses inside a host and between hosts, transport mpi only (I_MPI_FABRICS).",
        _MPI,
    ),
    Knob(
        "worker_offload",
        choice("default", "0", "1"),
        "default",
        "Progress by worker threads (1) or by the calling thread (0) (CCL_WORKER_OFFLOAD).",
        "oneCCL, src/common/env/env.cpp",
    ),
    Knob("worker_count", integers(1, 4), 1, "Worker threads and endpoints of a rank (CCL_WORKER_COUNT).", _CCL, unit="count"),
    Knob(
        "yield",
        choice("pause", "none", "sched_yield", "sleep"),
        "pause",
        "What a thread does between two looks for progress (CCL_YIELD).",
        "oneCCL, src/common/env/env.cpp",
    ),
    Knob(
        "spin_count",
        choice("default", "1", "16", "256", "4096"),
        "default",
        "Looks for progress before a worker yields (CCL_SPIN_COUNT).",
        "oneCCL, src/common/env/env.cpp",
    ),
    _algorithm("algorithm_small", "up to 16 KiB"),
    _algorithm("algorithm_medium", "over 16 KiB up to 1 MiB"),
    _algorithm("algorithm_large", "over 1 MiB"),
    Knob(
        "chunk_count",
        log2(1, 8),
        1,
        "Chunks that ring, nreduce, 2d and scatter cut a message into (CCL_CHUNK_COUNT, CCL_RS_CHUNK_COUNT).",
        _CCL,
        unit="count",
    ),
    Knob("fusion", flag(), False, "Small allreduce calls are merged into one (CCL_FUSION).", _CCL),
    Knob(
        "pinning",
        choice("default", *PINNING),
        "default",
        "Cores of a rank: a share of the host side by side (default), a share spread out, one core, a NUMA node, or any "
        "(I_MPI_PIN_DOMAIN, I_MPI_PIN).",
        _MPI,
    ),
    Knob("mnic", choice("none", "local", "global"), "none", "Workers use several network cards (CCL_MNIC).", _CCL),
)


DEFAULTS: Mapping[str, Value] = {knob.name: knob.default for knob in KNOBS}


def variable_of(collective: str) -> str:
    """The variable that selects a collective's algorithms."""
    return f"CCL_{collective.upper()}"


def class_of(size: int) -> str:
    """The knob that chooses the algorithm of messages of ``size`` bytes."""
    return next(knob for knob, _, last in SIZE_CLASSES if last is None or size <= last)
