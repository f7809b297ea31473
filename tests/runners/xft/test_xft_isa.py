"""Which CPUs xFT can run on, by their flags."""

from dataclasses import replace

import pytest
from support.sysfs import ICX, SPR, ZEN3, shaped

from runners.runner import Problem
from runners.topology import Topology
from runners.xft import isa


def host(flags: str) -> Topology:
    return replace(shaped("small"), flags=frozenset(flags.split()), model="Example CPU")


def refusal(dtype: str, flags: str) -> Problem:
    found = isa.refusal(dtype, "a", host(flags))
    assert found is not None
    return found


def test_a_cpu_that_has_all() -> None:
    assert isa.able(SPR.split()) == isa.XFT_DTYPES
    assert all(isa.refusal(dtype, "a", host(SPR)) is None for dtype in isa.XFT_DTYPES)


def test_without_avx512_nothing_loads() -> None:
    problem = refusal("fp16", ZEN3)
    assert problem.severity == "error"
    assert "Example CPU has no avx512f, avx512bw, avx512vl, avx512dq, avx512_vnni" in problem.message
    assert "illegal instruction as soon as it is loaded" in problem.message
    assert "4th generation (Sapphire Rapids, 2023)" in problem.message
    assert "--engine torch" in problem.mend
    assert isa.able(ZEN3.split()) == ()


def test_without_amx_the_dtypes_that_work_are_named() -> None:
    problem = refusal("bf16", f"{ICX} avx512_fp16")
    assert "dtype bf16 needs amx_tile, amx_bf16, amx_int8" in problem.message
    assert problem.mend == "--dtype fp16 or int4 or nf4"
    assert "no dtype of xFT works on it" in refusal("bf16", ICX).mend


def test_a_hypervisor_may_hide_flags() -> None:
    assert "(or its hypervisor hides it)" in refusal("bf16", f"{ICX} hypervisor").message
    assert "host-passthrough" in refusal("bf16", f"{ZEN3} hypervisor").mend


@pytest.mark.parametrize(
    ("dtype", "flags"),
    [
        ("bf16_int8", "amx_tile"),
        ("bf16_fp16", "avx512_fp16"),
        ("w8a8_int4", "avx512_fp16"),
        ("fp8_e4m3", "amx_bf16"),
        ("fp16", "avx512_fp16"),
    ],
)
def test_a_mixed_type_needs_both_of_its_parts(dtype: str, flags: str) -> None:
    assert flags in isa.needs(dtype)
    assert set(isa.BASE) <= set(isa.needs(dtype))
    assert flags in isa.missing(dtype, set(isa.needs(dtype)) - {flags})


def test_summaries() -> None:
    assert isa.summary(host(SPR)).startswith("xFT: fp16, bf16")
    assert isa.summary(host(ICX)) == "xFT: no dtype"
    assert "avx512f" in isa.summary(host(ZEN3))
