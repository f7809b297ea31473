"""Layouts: which cores, threads, memory and environment every rank gets, on every shape of host."""

import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.sysfs import GIB, SHAPES, Host, shaped, topology

from runners.topology import Topology, format_list
from runners.xft.known_models import KNOWN
from runners.xft.layout import Layout, lay_out, on_cores, place
from runners.xft.limits import limits, rank_counts
from runners.xft.model import Demand
from runners.xft.seats import Memory
from spaces.xft import PLACEMENT, SPACE, Software, for_job

SMALL = Demand(KNOWN["llama-2-7b"])
DEFAULT = SPACE.default


def laid(shape: str | Topology, demand: Demand = SMALL, software: Software | None = None, **config: Any) -> Layout:
    host = shaped(shape) if isinstance(shape, str) else shape
    found = lay_out({**DEFAULT, **config}, {"a": host}, demand, software or Software())
    assert isinstance(found, Layout), found
    return found


def refused(shape: str | Topology, demand: Demand = SMALL, **config: Any) -> str:
    host = shaped(shape) if isinstance(shape, str) else shape
    found = lay_out({**DEFAULT, **config}, {"a": host}, demand)
    assert isinstance(found, str), found
    return found


def masks(layout: Layout) -> list[str]:
    return [format_list(rank.cpus) for rank in layout.ranks]


def placements() -> list[Mapping[str, Any]]:
    """Settings of the placement knobs, drawn at random."""
    rng = random.Random(4)
    drawn = [{name: rng.choice(SPACE[name].domain.values) for name in PLACEMENT} for _ in range(150)]
    return [{}, *({"ranks": ranks} for ranks in (1, 2, 4)), *drawn]


@pytest.mark.parametrize("shape", SHAPES)
def test_no_core_serves_two_and_all_is_inside(shape: str) -> None:
    host = shaped(shape)
    core_of = {cpu: number for number, core in enumerate(host.cores) for cpu in core.cpus}
    made = 0
    for config in placements():
        found = lay_out({**DEFAULT, **config}, {"a": host}, SMALL)
        if isinstance(found, str):
            assert found
            continue
        made += 1
        taken = [{core_of[cpu] for cpu in rank.cpus} for rank in found.ranks]
        assert sum(map(len, taken)) == len(set().union(*taken))
        for rank, cores in zip(found.ranks, taken, strict=True):
            assert len(set(rank.cpus)) == len(rank.cpus)
            assert rank.env["OMP_NUM_THREADS"] == str(rank.threads)
            assert rank.threads == len(rank.cpus) or found.scripted
            assert config.get("siblings") == "both" or len(rank.cpus) == len(cores)
            assert set(rank.memory.nodes) <= set(host.memory_nodes)
            spare = {core_of[cpu] for cpu in rank.spare}
            assert not spare & set().union(*taken)
    assert made


@pytest.mark.parametrize("shape", ["quad", "uneven", "nps4", "cloud", "cpuset", "twelve-nodes", "offline"])
def test_one_rank_a_node_leaves_no_core_idle(shape: str) -> None:
    host = shaped(shape)
    layout = laid(shape, ranks=len(host.cpu_nodes), demand=replace(SMALL, shape=replace(SMALL.shape, heads=64)))
    assert sum(rank.threads for rank in layout.ranks) == len(host.cores) == layout.cores
    assert [rank.threads for rank in layout.ranks] == [len(host.cores_of(node)) for node in host.cpu_nodes]


def test_ranks_within_a_node() -> None:
    assert masks(laid("quad", ranks=4)) == ["0-23", "24-47", "48-71", "72-95"]
    assert [rank.memory.nodes for rank in laid("quad", ranks=4).ranks] == [(0,), (0,), (1,), (1,)]


def test_ranks_over_nodes() -> None:
    layout = laid("snc2", ranks=2)
    assert masks(layout) == ["0-47", "48-95"]
    assert [rank.memory for rank in layout.ranks] == [Memory("bind", (0, 1)), Memory("bind", (2, 3))]


def test_a_node_is_not_split_between_ranks_that_have_others() -> None:
    assert "3 ranks can't share 4 nodes without splitting one" in refused("snc2", ranks=3)
    assert "can't share 4 nodes alike" in refused("snc2", ranks=6)


def test_more_ranks_than_cores(tmp_path: Path) -> None:
    assert refused("small", ranks=3) == "3 ranks have 2 cores, and no core serves two"
    lopsided = topology(tmp_path, Host((6, 2), 2))
    assert "3 ranks a node don't fit on the 2 cores of node 1, and no core serves two" in refused(lopsided, ranks=6)


def test_one_socket_alone() -> None:
    layout = laid("quad", sockets=1)
    assert masks(layout) == ["0-47"]
    assert layout.ranks[0].memory == Memory("bind", (0,))
    assert "4 sockets are asked for, and the host has 2" in refused("quad", sockets=4)


def test_threads_take_as_many_cores() -> None:
    layout = laid("quad", threads=8)
    assert masks(layout) == ["0-7", "48-55"]
    assert layout.cores == 16
    assert layout.ranks[0].spare == tuple(range(8, 48))
    assert "49 threads are more than the 48 cores" in refused("quad", threads=49)


def test_both_siblings_only_when_named() -> None:
    assert masks(laid("cloud")) == [format_list(range(0, 96, 2))]
    both = laid("cloud", siblings="both")
    assert masks(both) == ["0-95"]
    assert both.ranks[0].threads == 96
    assert both.cores == 48
    assert "96 threads are more than the 48 cores of a rank (siblings both would use each twice)" in refused(
        "cloud", threads=96
    )
    assert masks(laid("cloud", threads=96, siblings="both")) == ["0-95"]


def test_spare_cores() -> None:
    layout = laid("general", spare_cores=2)
    assert masks(layout) == ["0-45"]
    assert layout.ranks[0].spare == (46, 47)
    assert "2 spare cores leave none" in refused("small", spare_cores=2)


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        ("default", Memory("bind", (2,))),
        ("bind", Memory("bind", (0,))),
        ("hbm", Memory("prefer", (2,))),
        ("interleave", Memory("interleave", (0, 1))),
        ("none", Memory()),
    ],
)
def test_memory_beside_hbm(memory: str, expected: Memory) -> None:
    assert laid("hbm-quad", memory=memory).ranks[0].memory == expected


def test_memory_of_ranks_over_several_hbm_nodes() -> None:
    assert laid("hbm-quad", ranks=1, memory="hbm", demand=replace(SMALL, dtype="int8")).ranks[0].memory == Memory(
        "interleave", (2, 3)
    )


def test_hbm_is_found_by_distance_and_the_scripts_guess_is_said() -> None:
    layout = laid("hbm-crossed")
    assert [rank.memory.nodes for rank in layout.ranks] == [(2,), (3,)]
    assert "binds rank 0 to node 2, though node 3 is nearer" in layout.notes[0]
    assert [rank.memory.nodes for rank in laid("hbm-crossed", memory="hbm").ranks] == [(3,), (2,)]


def test_no_hbm() -> None:
    assert "memory hbm needs" in refused("quad", memory="hbm")
    assert "memory hbm needs" in refused("general", memory="hbm")


def test_one_memory_node_leaves_nothing_to_choose() -> None:
    for memory in ("default", "bind", "interleave", "none"):
        assert laid("general", memory=memory).ranks[0].memory == Memory()


def test_a_node_without_memory_takes_the_nearest() -> None:
    host = shaped("snc2")
    bare = replace(host, nodes=tuple(replace(node, memory=0) if node.number == 1 else node for node in host.nodes))
    assert laid(bare, ranks=4).ranks[1].memory == Memory("bind", (0,))


@pytest.mark.parametrize(("quota", "threads"), [(4.0, [4]), (2.5, [2]), (100.0, [48])])
def test_a_quota_bounds_the_threads(quota: float, threads: list[int]) -> None:
    layout = laid(replace(shaped("general"), quota=quota), ranks=1)
    assert [rank.threads for rank in layout.ranks] == threads
    assert any("control groups allow" in note for note in layout.notes) == (threads != [48])


def test_the_script_knows_no_quota() -> None:
    layout = laid(replace(shaped("general"), quota=4.0))
    assert layout.ranks[0].threads == 48
    assert layout.notes == ("xFT's script starts 48 threads, more than the 4 CPUs' worth of time that control groups allow",)


def test_the_fuller_socket_is_taken_where_one_is_asked_for(tmp_path: Path) -> None:
    host = topology(tmp_path, Host((8, 8), 2, cpuset="6-15", mems="0-1"))
    assert masks(laid(host, sockets=1)) == ["8-15"]


def test_a_quota_that_is_too_small_for_the_ranks() -> None:
    assert "2 ranks have 1.5 CPUs' worth of time" in refused(replace(shaped("general"), quota=1.5), ranks=2)


def test_a_quota_is_shared_by_ranks() -> None:
    layout = laid(replace(shaped("quad"), quota=5.0), ranks=2)
    assert [rank.threads for rank in layout.ranks] == [3, 2]


def test_memory_that_does_not_fit_its_node() -> None:
    host = replace(shaped("quad"), nodes=tuple(replace(node, memory=8 * GIB) for node in shaped("quad").nodes))
    assert refused(host, ranks=1, sockets=1).startswith("llama-2-7b in bf16 takes ")
    assert "node 0 has 8.0 GiB" in refused(host, ranks=1, sockets=1)
    assert "2 ranks are bound there, and node 0 has 8.0 GiB" in refused(host, ranks=4, demand=replace(SMALL, batch=256))
    assert "the host has 16.0 GiB" in refused(host, memory="none", demand=replace(SMALL, dtype="bf16_fp16"))
    assert laid(host)  # half on each


def test_hbm_is_too_small_when_bound_and_spills_when_preferred() -> None:
    big = Demand(KNOWN["qwen-72b"])
    assert "node 8 has 16.0 GiB" in refused("hbm-snc4", demand=big)
    assert laid("hbm-snc4", demand=big, memory="hbm").ranks[0].memory == Memory("prefer", (8,))


def test_memory_of_control_groups() -> None:
    assert "the host has 4.0 GiB" in refused(replace(shaped("general"), memory_limit=4 * GIB))


def test_more_ranks_than_heads() -> None:
    few = Demand(replace(KNOWN["tiny"], heads=4, kv_heads=4))
    assert refused("quad", demand=few, ranks=8) == "8 ranks share 4 heads: some would have none"


def test_uneven_heads_are_said() -> None:
    layout = laid("uneven", ranks=6)
    assert "32 heads don't divide by 6 ranks: 2 of them have 6, the others 5" in layout.notes


def test_ranks_that_divide_the_heads_come_first() -> None:
    counts = rank_counts({"a": shaped("general")}, Demand(replace(KNOWN["tiny"], heads=64, kv_heads=8)))
    first = [count for count, reason in counts if not reason]
    assert first == [1, 2, 4, 8, 16, 32]
    assert dict(counts)[6] == "64 heads don't divide by 6: ranks with 10 heads wait for those with 11"


def test_counts_are_of_all_hosts_together() -> None:
    host = shaped("general")
    counts = rank_counts({"a": host, "b": host, "c": host}, Demand(replace(KNOWN["tiny"], heads=12, kv_heads=12)))
    assert [count for count, reason in counts if not reason] == [1, 2, 4]
    assert dict(counts)[3] == "12 heads don't divide by 9: ranks with 1 head wait for those with 2"


def test_hosts_of_different_shape_get_their_own_cores() -> None:
    found = lay_out({**DEFAULT, "ranks": 1}, {"a": shaped("general"), "b": shaped("cloud")}, SMALL)
    assert isinstance(found, Layout)
    assert masks(found) == ["0-47", format_list(range(0, 96, 2))]
    assert [(rank.rank, rank.host, rank.local) for rank in found.ranks] == [(0, "a", 0), (1, "b", 0)]
    assert all(rank.env["XFT_ONECCL"] == "1" for rank in found.ranks)


def test_a_reason_names_its_host() -> None:
    found = lay_out({**DEFAULT, "ranks": 4}, {"a": shaped("general"), "b": shaped("small")}, SMALL)
    assert found == "b: 4 ranks have 2 cores, and no core serves two"


def test_workers_of_oneccl_get_the_spare_cores() -> None:
    layout = laid("general", ranks=2, spare_cores=2, worker_count=2)
    assert masks(layout) == ["0-21", "24-45"]
    assert {rank.env["CCL_WORKER_AFFINITY"] for rank in layout.ranks} == {"22,23,46,47"}
    assert "CCL_WORKER_AFFINITY" not in laid("general", ranks=2).ranks[0].env
    assert "CCL_WORKER_AFFINITY" not in laid("general", ranks=2, spare_cores=2, worker_offload="0").ranks[0].env


def test_weights_of_mixed_types_have_a_node_each() -> None:
    mixed = replace(SMALL, dtype="bf16_int8", shape=KNOWN["llama-2-7b"])
    env = laid("hbm-quad", demand=mixed).ranks[1].env
    assert (env["FIRST_TOKEN_WEIGHT_LOCATION"], env["NEXT_TOKEN_WEIGHT_LOCATION"]) == ("1", "3")
    assert "FIRST_TOKEN_WEIGHT_LOCATION" not in laid("hbm-quad").ranks[1].env
    assert "FIRST_TOKEN_WEIGHT_LOCATION" not in laid("hbm-quad", demand=mixed, memory="interleave").ranks[1].env


def test_the_baseline_is_the_scripts() -> None:
    layout = laid("uneven")
    assert layout.scripted
    assert {rank.threads for rank in layout.ranks} == {42}
    assert len(layout.ranks[0].cpus) == 43
    assert "xFT's script leaves 4 cores without a thread: its nodes are of different size" in layout.notes
    assert not laid("twelve-nodes", demand=Demand(KNOWN["llama-2-70b"], "int8")).scripted


def test_numactl_of_a_rank() -> None:
    assert laid("quad").ranks[1].numactl() == ("numactl", "--all", "-C", "48-95", "-m", "1")
    assert laid("general").ranks[0].numactl() == ("numactl", "--all", "-C", "0-47")
    assert laid("hbm-quad", memory="hbm").ranks[0].numactl()[-2:] == ("-p", "2")


def test_a_layout_on_other_cores() -> None:
    layout = on_cores(laid("quad"), [(0,), (0,)])
    assert masks(layout) == ["0", "0"]


# -- the space of a job ------------------------------------------------------------------------------------------------


def space_of(shape: str, demand: Demand = SMALL, software: Software | None = None, named: frozenset[int] = frozenset()) -> Any:
    return for_job(SPACE, limits({"a": shaped(shape)}, demand, software or Software(), named))


@pytest.mark.parametrize("shape", ["quad", "cloud", "hbm-quad", "uneven", "cpuset", "small"])
def test_every_proposed_setting_can_be_laid_out(shape: str) -> None:
    space = space_of(shape, software=Software("torch", "gomp", "/lib/libiomp5.so", ccl=False))
    found = space.pool(random.Random(1), 60)
    assert found
    for config in found:
        assert isinstance(lay_out(config, {"a": shaped(shape)}, SMALL), Layout)


def test_settings_that_come_to_the_same_are_one() -> None:
    space = space_of("quad", software=Software("torch", "gomp", "", ccl=False))
    same = [{**DEFAULT, **change} for change in ({"ranks": 2}, {"threads": 48}, {"sockets": 2}, {"memory": "bind"})]
    assert {space.key(space.canonical(config)) for config in same} == {space.key(DEFAULT)}
    placed = [place(config, {"a": shaped("quad")}, SMALL) for config in space.pool(random.Random(2), 200)]
    assert all(not isinstance(each, str) for each in placed)


def test_the_scripts_idle_cores_are_not_folded_away() -> None:
    space = space_of("uneven")
    full = space.canonical({**DEFAULT, "ranks": 6})
    assert full["ranks"] == 6
    assert place(full, {"a": shaped("uneven")}, SMALL) != place(DEFAULT, {"a": shaped("uneven")}, SMALL)


def test_ranks_that_do_not_divide_need_a_name() -> None:
    six = {**DEFAULT, "ranks": 6}
    demand = Demand(replace(KNOWN["tiny"], heads=64, kv_heads=8))
    (reason,) = space_of("general", demand).broken(six)
    assert (
        reason == "64 heads don't divide by 6: ranks with 10 heads wait for those with 11; --ranks 6 measures it all the same"
    )
    assert 6 not in space_of("general", demand)["ranks"].domain.values
    assert space_of("general", demand, named=frozenset({6})).broken(six) == []


@pytest.mark.parametrize("shape", SHAPES)
def test_values_that_no_setting_can_have_are_not_searched(shape: str) -> None:
    host = shaped(shape)
    space = space_of(shape)
    assert all(1 <= int(value) <= len(host.cores) for value in space["ranks"].domain.values if value)
    assert all(int(value) <= len(host.cpus) for value in space["threads"].domain.values)
    assert ("both" in space["siblings"].domain.values) == (host.smt > 1)
    assert ("hbm" in space["memory"].domain.values) == any(host.paired.values())
    assert len(space["memory"].domain.values) > 1 or len(host.memory_nodes) == 1
    assert space.contains(DEFAULT)


def test_a_value_that_does_nothing_may_be_named() -> None:
    narrowed = SPACE.narrow({"memory": "none", "siblings": "both"})
    space = for_job(narrowed, limits({"a": shaped("small")}, SMALL, Software("torch", "gomp", "", ccl=False)))
    assert space.pool(random.Random(3), 500)


def test_fewest_cores_are_cheapest() -> None:
    space = space_of("quad")
    assert space.cost({**DEFAULT, "threads": 8}) < space.cost({**DEFAULT, "threads": 16}) < space.cost(DEFAULT)
    assert space.cost({**DEFAULT, "sockets": 1}) < space.cost(DEFAULT)
    assert space.cost({**DEFAULT, "ranks": 2}) < space.cost({**DEFAULT, "ranks": 4})
    assert space.cost(DEFAULT) < space.cost({**DEFAULT, "huge_pages": True})


def test_workers_stay_off_the_cores_that_compute() -> None:
    space = space_of("general")
    two = {**DEFAULT, "ranks": 2, "worker_count": 2}
    (reason,) = space.broken(two)
    assert reason == "2 communication workers a rank would share the cores that compute; spare_cores 2 keeps them off"
    assert space.broken({**two, "spare_cores": 2}) == []
    assert space.broken({**two, "threads": 20}) == []
    assert space.broken(DEFAULT) == []
