"""Environment variables of a setting that all ranks have alike; what is measured and what is emitted come from here.

Those of a single rank (OMP_NUM_THREADS, weight locations) are in its layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from spaces import oneccl
from spaces.oneccl import Assigned
from spaces.space import Config
from spaces.xft.knobs import CCL, DEFAULTS

Runtime = Literal["gomp", "iomp5"]

# Knob, variable, and the variable's value by the knob's; a value that is not named leaves the variable unset.
PLAIN: tuple[tuple[str, str, Mapping[str, str] | None], ...] = (
    ("wait_policy", "OMP_WAIT_POLICY", None),
    ("spin_count", "GOMP_SPINCOUNT", None),
    ("blocktime", "KMP_BLOCKTIME", None),
    ("kv_trans", "ENABLE_KV_TRANS", {"False": "0"}),
    ("cat_mlp", "ENABLE_CAT_MLP", {"False": "0"}),
    ("flash_attention", "FLASH_ATTN_THRESHOLD", {"on": "0", "off": "-1"}),
    ("amx_rows", "XFT_USE_AMX_M", None),
    ("primitive_cache", "XFT_PRIMITIVE_CACHE_M", None),
    ("moe_engine", "XFT_MOE_ENGINE", None),
    ("moe_balance", "XFT_MOE_SPLIT_BALANCE_DIM", None),
    ("n64", "XDNN_N64", None),
)
BINDING = {"OMP_PROC_BIND": "close", "OMP_PLACES": "threads"}
HUGE_PAGES = {"xft": "ENABLE_THP", "torch": "THP_MEM_ALLOC_ENABLE", "vllm": "THP_MEM_ALLOC_ENABLE"}

# All variables that settings can set, and that a shell must not bring along.
VARIABLES = (
    "OMP_NUM_THREADS", "LD_PRELOAD", *(name for _, name, _ in PLAIN), *BINDING, *dict.fromkeys(HUGE_PAGES.values()),
    "ENABLE_TUNED_COMM", "XFT_ONECCL", "FIRST_TOKEN_WEIGHT_LOCATION", "NEXT_TOKEN_WEIGHT_LOCATION",
    "CCL_WORKER_AFFINITY", "KMP_AFFINITY", "GOMP_CPU_AFFINITY",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Software:
    """What computes: ``engine`` by name, the OpenMP runtime that it takes by itself, and where libiomp5.so lies ("" nowhere).

    ``ccl``: ranks add up by oneCCL, so that its knobs do something.
    """

    engine: str = "xft"
    openmp: Runtime = "iomp5"
    iomp5: str = "libiomp5.so"
    ccl: bool = True


XFT = Software()


def runtime(config: Config, software: Software = XFT) -> Runtime:
    """The OpenMP runtime that the ranks have."""
    return software.openmp if config["openmp"] == "default" else ("iomp5" if config["openmp"] == "iomp5" else "gomp")


def assigned(config: Config, software: Software = XFT, hosts: int = 1) -> tuple[Assigned, ...]:
    """The variables of a setting, with the knobs that they come from; a knob at its default sets none.

    ``hosts``: across several, oneCCL is the only way to add up.
    """
    found: list[Assigned] = []

    def put(name: str, value: str, knob: str) -> None:
        found.append(Assigned(name, value, (knob,)))

    if runtime(config, software) == "iomp5" and software.iomp5 and (config["openmp"] == "iomp5" or software.engine == "xft"):
        put("LD_PRELOAD", software.iomp5, "openmp")
    for knob, name, values in PLAIN:
        if config[knob] != DEFAULTS[knob]:
            text = str(config[knob])
            value = text if values is None else values.get(text)
            if value is not None:
                put(name, value, knob)
    if config["bind_threads"]:
        for name, value in BINDING.items():
            put(name, value, "bind_threads")
    if config["huge_pages"]:
        put(HUGE_PAGES.get(software.engine, "ENABLE_THP"), "1", "huge_pages")
    if config["allreduce"] == "shm" and hosts == 1:
        put("ENABLE_TUNED_COMM", "0", "allreduce")
    if config["allreduce"] == "oneccl" or (hosts > 1 and software.engine == "xft"):
        put("XFT_ONECCL", "1", "allreduce")
    if software.ccl:
        found += oneccl.assigned(ccl(config))
    return tuple(found)


def ccl(config: Config) -> Config:
    """The setting as one of `tune oneccl`."""
    return {**oneccl.SPACE.default, **{name: config[name] for name in CCL}}
