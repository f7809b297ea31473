"""The knobs of CPU inference by ranks: where ranks and their memory are, how threads wait, xFT's switches that do something.

A default is what xFT's own benchmark scripts, the OpenMP runtime and the library do by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from spaces import oneccl
from spaces.space import Domain, Knob, Value, choice, flag

_SCRIPT = "xFT benchmark/run_benchmark.sh, run.sh"
_CODE = "xFT src/utils/environment.h"
_GOMP = "libgomp manual, environment variables"
_IOMP = "LLVM OpenMP runtime reference"

# Knobs that say where ranks, threads and memory are; a layout depends on these alone.
PLACEMENT = ("ranks", "sockets", "threads", "spare_cores", "siblings", "memory")
# oneCCL's own knobs, as `tune oneccl` has them; they matter where ranks add up by oneCCL.
CCL = ("provider", "worker_offload", "worker_count", "yield", "algorithm_small", "algorithm_medium", "algorithm_large")
# Knobs that only xFT reads.
XFT_ONLY = (
    "allreduce", "kv_trans", "cat_mlp", "flash_attention", "amx_rows", "primitive_cache", "moe_engine", "moe_balance", "n64",
)  # fmt: skip


def _or_script(*values: int) -> Domain:
    """0, for what xFT's scripts take, and then some counts."""
    return Domain("int", (0, *values))


def _of_ccl(name: str) -> Knob:
    """A knob of `tune oneccl`, for the one collective that inference has: ranks add up twice a layer."""
    knob = oneccl.SPACE[name]
    if not name.startswith("algorithm_"):
        return knob
    return replace(knob, domain=choice("default", *oneccl.ALGORITHMS["allreduce"]))


KNOBS = (
    Knob(
        "ranks",
        _or_script(1, 2, 3, 4, 6, 8, 12, 16),
        0,
        "Ranks of a host, which share the model's heads; 0: as xFT's scripts, one for each NUMA node that has cores.",
        _SCRIPT,
        unit="count",
        limit=1024,
        lowest=0,
    ),
    Knob(
        "sockets",
        _or_script(1, 2, 4),
        0,
        "Sockets of a host that are used; 0 is all. One alone avoids the way between sockets.",
        _SCRIPT,
        unit="count",
        limit=64,
        lowest=0,
    ),
    Knob(
        "threads",
        _or_script(1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96),
        0,
        "Threads of a rank, each with a core of its own (OMP_NUM_THREADS); 0: as many as it has cores.",
        _SCRIPT,
        unit="count",
        limit=4096,
        lowest=0,
    ),
    Knob(
        "spare_cores",
        _or_script(1, 2, 4),
        0,
        "Cores of a rank's share that stay free, for communication workers and the system.",
        "oneCCL guide, CCL_WORKER_AFFINITY",
        unit="count",
        limit=1024,
        lowest=0,
    ),
    Knob(
        "siblings",
        choice("one", "both"),
        "one",
        "A thread for each core, on one of its siblings, or on all of them: more threads than cores.",
        _SCRIPT,
    ),
    Knob(
        "memory",
        choice("default", "bind", "interleave", "hbm", "none"),
        "default",
        "Memory of a rank: as xFT's scripts (bound to its node; with HBM to the HBM), bound to its cores' nodes, in turn over "
        "all nodes, HBM first and then others, or the system's choice, which is the node of the CPU first.",
        "numactl(8)",
    ),
    Knob(
        "openmp",
        choice("default", "gomp", "iomp5"),
        "default",
        "OpenMP runtime: what the engine takes by itself, libgomp, or libiomp5 (LD_PRELOAD).",
        "xFT README, get_env()",
    ),
    Knob(
        "wait_policy",
        choice("default", "passive", "active"),
        "default",
        "What threads do that wait for work: sleep or spin (OMP_WAIT_POLICY).",
        "OpenMP specification, OMP_WAIT_POLICY",
    ),
    Knob(
        "spin_count",
        choice("default", "0", "1000", "100000"),
        "default",
        "Turns that libgomp spins before it sleeps (GOMP_SPINCOUNT).",
        _GOMP,
    ),
    Knob(
        "blocktime",
        choice("default", "0", "1", "5"),
        "default",
        "Milliseconds that libiomp5 spins before it sleeps (KMP_BLOCKTIME).",
        _IOMP,
    ),
    Knob(
        "bind_threads",
        flag(),
        False,
        "Each thread stays on a CPU of its own (OMP_PROC_BIND=close, OMP_PLACES=threads).",
        "OpenMP specification, OMP_PROC_BIND",
    ),
    Knob(
        "huge_pages",
        flag(),
        False,
        "Weights on transparent huge pages (ENABLE_THP of xFT, THP_MEM_ALLOC_ENABLE of torch).",
        f"{_CODE}; torch c10/core/impl/alloc_cpu.cpp",
    ),
    Knob(
        "allreduce",
        choice("tuned", "shm", "oneccl"),
        "tuned",
        "How ranks of a host add up: whichever xFT's own trial finds quicker, shared memory (ENABLE_TUNED_COMM=0), or oneCCL "
        "(XFT_ONECCL=1).",
        f"{_CODE}, messenger.h",
    ),
    Knob("kv_trans", flag(), True, "Layout of the key/value cache for long sequences (ENABLE_KV_TRANS).", _CODE),
    Knob("cat_mlp", flag(), True, "Gate and up projection in one product (ENABLE_CAT_MLP).", _CODE),
    Knob(
        "flash_attention",
        choice("default", "on", "off"),
        "default",
        "Flash attention: for prompts over 8192 tokens, always, or never (FLASH_ATTN_THRESHOLD).",
        _CODE,
    ),
    Knob(
        "amx_rows",
        choice("1", "8", "32"),
        "1",
        "Rows of a product from which the AMX path is taken (XFT_USE_AMX_M).",
        _CODE,
    ),
    Knob(
        "primitive_cache",
        choice("256", "1024", "4096"),
        "256",
        "Rows up to which oneDNN keeps its compiled products (XFT_PRIMITIVE_CACHE_M).",
        _CODE,
    ),
    Knob(
        "moe_engine",
        choice("1", "0"),
        "1",
        "Mixture of experts: experts of a token together (1), or tokens of an expert (0) (XFT_MOE_ENGINE).",
        _CODE,
    ),
    Knob(
        "moe_balance",
        choice("0", "1"),
        "0",
        "Mixture of experts: work evened out over layers (0) or experts (1) (XFT_MOE_SPLIT_BALANCE_DIM).",
        _CODE,
    ),
    Knob(
        "n64",
        choice("default", "16", "64"),
        "default",
        "Block of xDNN's products for fp8 weights and experts (XDNN_N64).",
        "xFT docs/en/deepseek.md",
    ),
    *(_of_ccl(name) for name in CCL),
)

DEFAULTS: Mapping[str, Value] = {knob.name: knob.default for knob in KNOBS}
