"""What xFT's kernels need of a CPU for each type of weights, and which CPUs have it.

xFT's library has AVX-512 instructions in its first function: without them importing it kills the process (SIGILL), whatever
is asked of it. Sources: the wheel 2.1.2 disassembled, xFT's README, reports of users with older CPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from runners.runner import Problem
from runners.topology import Topology
from runners.xft.model import DTYPES

BASE = ("avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_vnni")
_HALF = ("avx512_fp16",)
_TILES = ("amx_tile", "amx_bf16", "amx_int8")
# Weights of 4 bits are widened to fp16.
_NEEDS: Mapping[str, tuple[str, ...]] = {
    "fp16": _HALF, "int4": _HALF, "nf4": _HALF, "bf16": _TILES, "int8": _TILES, "w8a8": _TILES, "fp8_e4m3": _TILES,
}  # fmt: skip
_OLDEST = "Intel Xeon of the 4th generation (Sapphire Rapids, 2023)"
_OLDEST_BASE = "Intel Xeon of the 2nd generation (Cascade Lake, 2019)"
# xFT has no fp32 weights; the engine torch has.
XFT_DTYPES = tuple(dtype for dtype in DTYPES if dtype != "fp32")


def needs(dtype: str) -> tuple[str, ...]:
    """Flags of /proc/cpuinfo that xFT needs for weights of ``dtype``, both parts of a mixed one."""
    parts = (dtype,) if dtype in _NEEDS else tuple(dtype.split("_"))
    return tuple(dict.fromkeys((*BASE, *(flag for part in parts for flag in _NEEDS.get(part, ())))))


def missing(dtype: str, flags: Iterable[str]) -> tuple[str, ...]:
    """Those of ``needs`` that a CPU doesn't have."""
    have = set(flags)
    return tuple(flag for flag in needs(dtype) if flag not in have)


def able(flags: Iterable[str]) -> tuple[str, ...]:
    """The dtypes that xFT has kernels for on a CPU with ``flags``."""
    have = set(flags)
    return tuple(dtype for dtype in XFT_DTYPES if not missing(dtype, have))


def refusal(dtype: str, name: str, host: Topology) -> Problem | None:
    """Why xFT can't compute with ``dtype`` on a host, with what would do; None where it can. Nothing is imported."""
    lacking = missing(dtype, host.flags)
    if not lacking:
        return None
    cpu = host.model or "its CPU"
    if set(lacking) & set(BASE):
        flags = ", ".join(flag for flag in BASE if flag in lacking)
        oldest = _OLDEST if len(needs(dtype)) > len(BASE) else _OLDEST_BASE
        return Problem(
            "xft-cpu",
            "error",
            f"{name}: {cpu} has no {flags}: xFT's library would end with an illegal instruction as soon as it is loaded; the "
            f"oldest CPU that has all that dtype {dtype} needs is an {oldest}",
            f"{'give the virtual machine its CPU as it is (host-passthrough), or ' if 'hypervisor' in host.flags else ''}"
            "measure with --engine torch, which runs on any CPU",
        )
    others = [each for each in able(host.flags) if "_" not in each or each.startswith("fp8")]
    masked = " (or its hypervisor hides it)" if "hypervisor" in host.flags else ""
    works = f"--dtype {' or '.join(others)}" if others else "no dtype of xFT works on it: --engine torch"
    return Problem(
        "xft-dtype",
        "error",
        f"{name}: dtype {dtype} needs {', '.join(lacking)}, which {cpu} doesn't have{masked}; the oldest CPU that has it is "
        f"an {_OLDEST}",
        works,
    )


def summary(host: Topology) -> str:
    """What xFT can do on a host, in some words."""
    if lacking := missing("", host.flags):
        return f"no xFT: {', '.join(lacking)} missing"
    return f"xFT: {', '.join(able(host.flags)) or 'no dtype'}"
