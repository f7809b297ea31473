"""The space of CPU inference: folding, rules, and the variables of a setting."""

import random
from typing import Any

import pytest

from spaces.space import Value
from spaces.xft import CCL, KNOBS, PLACEMENT, SPACE, VARIABLES, XFT, XFT_ONLY, Limits, Software, assigned, for_job, runtime

TORCH = Software("torch", "gomp", "/lib/libiomp5.so", ccl=False)
DEFAULT = SPACE.default


def env(software: Software = XFT, hosts: int = 1, **config: Value) -> dict[str, str]:
    return {each.name: each.value for each in assigned({**DEFAULT, **config}, software, hosts)}


def job(**limits: Any) -> Any:
    return for_job(SPACE, Limits(**limits))


def test_the_default_sets_what_xfts_scripts_set() -> None:
    assert env() == {"LD_PRELOAD": "libiomp5.so"}
    assert env(TORCH) == {}


@pytest.mark.parametrize(
    ("knob", "value", "variables"),
    [
        ("wait_policy", "passive", {"OMP_WAIT_POLICY": "passive"}),
        ("spin_count", "0", {"GOMP_SPINCOUNT": "0"}),
        ("blocktime", "1", {"KMP_BLOCKTIME": "1"}),
        ("bind_threads", True, {"OMP_PROC_BIND": "close", "OMP_PLACES": "threads"}),
        ("huge_pages", True, {"THP_MEM_ALLOC_ENABLE": "1"}),
        ("openmp", "iomp5", {"LD_PRELOAD": "/lib/libiomp5.so"}),
    ],
)
def test_variables_of_a_knob(knob: str, value: Value, variables: dict[str, str]) -> None:
    assert env(TORCH, **{knob: value}) == variables


@pytest.mark.parametrize(
    ("knob", "value", "variables"),
    [
        ("huge_pages", True, {"ENABLE_THP": "1"}),
        ("allreduce", "shm", {"ENABLE_TUNED_COMM": "0"}),
        ("allreduce", "oneccl", {"XFT_ONECCL": "1"}),
        ("kv_trans", False, {"ENABLE_KV_TRANS": "0"}),
        ("cat_mlp", False, {"ENABLE_CAT_MLP": "0"}),
        ("flash_attention", "on", {"FLASH_ATTN_THRESHOLD": "0"}),
        ("flash_attention", "off", {"FLASH_ATTN_THRESHOLD": "-1"}),
        ("moe_engine", "0", {"XFT_MOE_ENGINE": "0"}),
        ("n64", "64", {"XDNN_N64": "64"}),
        ("provider", "tcp", {"FI_PROVIDER": "tcp", "I_MPI_OFI_PROVIDER": "tcp"}),
        ("worker_count", 2, {"CCL_WORKER_COUNT": "2"}),
    ],
)
def test_variables_that_xft_reads(knob: str, value: Value, variables: dict[str, str]) -> None:
    assert {name: text for name, text in env(**{knob: value}).items() if name != "LD_PRELOAD"} == variables


def test_xfts_libgomp_is_no_preload() -> None:
    assert env(openmp="gomp") == {}


def test_across_hosts_there_is_oneccl_alone() -> None:
    assert env(hosts=2)["XFT_ONECCL"] == "1"
    assert "ENABLE_TUNED_COMM" not in env(hosts=2, allreduce="shm")
    assert env(TORCH, hosts=2) == {}


def test_no_dead_variable_is_set() -> None:
    dead = {"XFT_COMM_TIME", "XFT_TIMELINE", "XFT_ONECCL_BF16", "ENABLE_CBLAS_MLP"}
    names = {each.name for knob in KNOBS for value in knob.domain.values for each in assigned({**DEFAULT, knob.name: value})}
    assert not dead & names
    assert not dead & set(VARIABLES)
    own = {name for name in names if not name.startswith(("CCL_", "FI_", "I_MPI_"))}
    assert own <= set(VARIABLES)


def test_each_runtime_has_its_own_way_to_spin() -> None:
    torch = job(software=TORCH)
    assert runtime(DEFAULT, TORCH) == "gomp"
    assert torch.canonical({**DEFAULT, "blocktime": "1"}) == DEFAULT
    assert torch.canonical({**DEFAULT, "openmp": "gomp"}) == DEFAULT
    assert torch.canonical({**DEFAULT, "openmp": "iomp5", "spin_count": "0"})["spin_count"] == "default"
    (reason,) = torch.broken({**DEFAULT, "blocktime": "1"})
    assert reason == "blocktime is libiomp5's, and these ranks have libgomp; spin_count is the same there"
    (reason,) = SPACE.broken({**DEFAULT, "spin_count": "0"})
    assert reason == "spin_count is libgomp's, and these ranks have libiomp5; blocktime is the same there"


def test_one_way_to_wait() -> None:
    torch = job(software=TORCH)
    both = {**DEFAULT, "wait_policy": "passive", "spin_count": "1000"}
    assert torch.canonical(both)["wait_policy"] == "default"
    assert any("say the same thing twice" in reason for reason in torch.broken(both))


def test_named_threads_leave_nothing_to_spare() -> None:
    both = {**DEFAULT, "threads": 4, "spare_cores": 2}
    assert SPACE.canonical(both)["spare_cores"] == 0
    assert any("nothing to leave" in reason for reason in SPACE.broken(both))


def test_an_engine_searches_only_what_it_reads() -> None:
    torch = job(software=TORCH, hosts=1)
    for name in (*XFT_ONLY, *CCL):
        assert torch[name].domain.values == (torch[name].default,), name
    assert "iomp5" in torch["openmp"].domain.values
    assert "iomp5" not in job(software=Software("torch", "gomp", "", ccl=False))["openmp"].domain.values


def test_a_value_that_a_user_names_stays() -> None:
    narrowed = SPACE.narrow({"kv_trans": "false"})
    assert for_job(narrowed, Limits(software=TORCH))["kv_trans"].domain.values == (False,)


def test_mixture_of_experts_and_large_batches() -> None:
    plain = job(experts=False, fp8=False, batch=8)
    for name in ("moe_engine", "moe_balance", "n64", "primitive_cache"):
        assert len(plain[name].domain.values) == 1
    rich = job(experts=True, fp8=True, batch=512)
    for name in ("moe_engine", "moe_balance", "n64", "primitive_cache"):
        assert len(rich[name].domain.values) > 1


@pytest.mark.parametrize(("tokens", "same"), [(512, "off"), (16384, "on")])
def test_flash_attention_that_is_there_anyway(tokens: int, same: str) -> None:
    assert job(input=tokens).canonical({**DEFAULT, "flash_attention": same}) == DEFAULT


def test_across_hosts_allreduce_is_no_choice() -> None:
    assert job(hosts=2).canonical({**DEFAULT, "allreduce": "shm"}) == DEFAULT


def test_folding_is_stable_and_legal() -> None:
    space = job(software=TORCH)
    for config in space.pool(random.Random(5), 300):
        assert space.canonical(config) == config
        assert space.legal(config)


def test_cost_without_hosts() -> None:
    cost = SPACE.cost
    assert cost({**DEFAULT, "ranks": 1, "threads": 1}) < cost({**DEFAULT, "ranks": 1, "threads": 8}) < cost(DEFAULT)
    assert cost({**DEFAULT, "siblings": "both"}) > cost(DEFAULT)


def test_placement_knobs_are_knobs() -> None:
    assert set(PLACEMENT) <= {knob.name for knob in KNOBS}
