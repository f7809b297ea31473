"""oneCCL's settings: what would hang or abort is refused first, what is the same in effect is one, defaults set nothing."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spaces.oneccl import (
    ALGORITHMS,
    COLLECTIVES,
    SIZE_CLASSES,
    SPACE,
    Limits,
    algorithm_table,
    assigned,
    class_of,
    cost,
    environment,
    for_job,
    interface_environment,
    offloads,
    variables,
)
from spaces.space import BadValue, Config, Value

BASE = {knob.name: knob for knob in SPACE.knobs}
SIZES = st.lists(st.sampled_from([0, 1 << 10, 16 << 10, 64 << 10, 1 << 20, 4 << 20]), max_size=4).map(tuple)
LIMITS = st.builds(
    Limits,
    collective=st.sampled_from(COLLECTIVES),
    sizes=SIZES,
    hosts=st.sampled_from([None, 1, 2]),
    ranks=st.sampled_from([None, 2, 3, 512]),
    cores_per_rank=st.sampled_from([None, 1, 2, 4]),
    pinned_cores=st.sampled_from([{}, {"core": 1, "numa": 8}]),
    default_transport=st.sampled_from(["mpi", "ofi"]),
    several_nics=st.sampled_from([None, True, False]),
)


def setting(**values: Value) -> dict[str, Value]:
    return {**SPACE.default, **values}


def any_setting(draw: st.DataObject) -> dict[str, Value]:
    return {name: draw.draw(st.sampled_from(knob.domain.values), name) for name, knob in BASE.items()}


def test_default_sets_no_variable() -> None:
    assert environment(SPACE.default) == {}
    assert all(environment(SPACE.default, collective) == {} for collective in COLLECTIVES)
    assert SPACE.legal(SPACE.default)
    assert SPACE.canonical(SPACE.default) == SPACE.default


@settings(deadline=None)
@given(st.data())
def test_no_variable_is_the_default_alone(data: st.DataObject) -> None:
    config = any_setting(data)
    names = [each.name for each in assigned(config)]
    assert len(set(names)) == len(names)
    named = {knob for each in assigned(config) for knob in each.knobs}
    assert named == {name for name in BASE if config[name] != BASE[name].default}
    for collective in COLLECTIVES:
        assert set(environment(config, collective)) <= set(variables(collective))


def test_variables_of_a_setting() -> None:
    config = setting(
        transport="mpi", provider="verbs", fabrics="ofi", worker_offload="1", worker_count=2, spin_count="16", chunk_count=4,
        algorithm_small="recursive_doubling", algorithm_large="2d", fusion=True, pinning="core", mnic="local",
        **{"yield": "sched_yield"},
    )  # fmt: skip
    assert environment(config) == {
        "CCL_ATL_TRANSPORT": "mpi",
        "FI_PROVIDER": "verbs;ofi_rxm",
        "I_MPI_OFI_PROVIDER": "verbs;ofi_rxm",
        "I_MPI_FABRICS": "ofi",
        "CCL_WORKER_OFFLOAD": "1",
        "CCL_WORKER_COUNT": "2",
        "CCL_YIELD": "sched_yield",
        "CCL_SPIN_COUNT": "16",
        "CCL_ALLREDUCE": "recursive_doubling:0-16384;2d:1048577-max",
        "CCL_CHUNK_COUNT": "4",
        "CCL_RS_CHUNK_COUNT": "4",
        "CCL_ALLREDUCE_2D_CHUNK_COUNT": "4",
        "CCL_FUSION": "1",
        "I_MPI_PIN_DOMAIN": "core",
        "CCL_MNIC": "local",
    }
    by_ofi = environment(setting(transport="ofi", provider="tcp", shm=True))
    assert by_ofi == {"CCL_ATL_TRANSPORT": "ofi", "FI_PROVIDER": "tcp", "CCL_ATL_SHM": "1"}
    assert environment(setting(provider="tcp"), default_transport="ofi") == {"FI_PROVIDER": "tcp"}
    assert environment(setting(pinning="off")) == {"I_MPI_PIN": "0"}


@pytest.mark.parametrize(
    ("algorithms", "table"),
    [
        (("default", "default", "default"), ""),
        (("ring", "ring", "ring"), "ring:0-max"),
        (("ring", "ring", "default"), "ring:0-1048576"),
        (("default", "ring", "2d"), "ring:16385-1048576;2d:1048577-max"),
        (("ring", "default", "ring"), "ring:0-16384;ring:1048577-max"),
    ],
)
def test_algorithm_table(algorithms: tuple[str, ...], table: str) -> None:
    config = setting(**{knob: each for (knob, _, _), each in zip(SIZE_CLASSES, algorithms, strict=True)})
    assert algorithm_table(config) == table


@settings(deadline=None)
@given(st.data(), st.integers(0, 1 << 33))
def test_table_gives_each_size_its_algorithm(data: st.DataObject, size: int) -> None:
    config = any_setting(data)
    chosen = "default"
    for entry in filter(None, algorithm_table(config).split(";")):
        algorithm, _, span = entry.partition(":")
        first, _, last = span.partition("-")
        if int(first) <= size and (last == "max" or size <= int(last)):
            chosen = algorithm
    assert chosen == config[class_of(size)]


def test_barrier_has_no_sizes() -> None:
    assert environment(setting(algorithm_small="ring", algorithm_large="direct"), "barrier") == {"CCL_BARRIER": "ring"}


def test_interface_goes_with_the_provider() -> None:
    assert interface_environment("", SPACE.default) == {}
    assert interface_environment("e0", SPACE.default) == {"CCL_KVS_IFACE": "e0", "FI_TCP_IFACE": "e0"}
    assert interface_environment("e0", setting(provider="verbs")) == {"CCL_KVS_IFACE": "e0", "FI_VERBS_IFACE": "e0"}
    assert interface_environment("e0", setting(provider="psm3")) == {"CCL_KVS_IFACE": "e0"}


@pytest.mark.parametrize(
    ("values", "limits", "reason"),
    [
        ({"worker_count": 2}, Limits(cores_per_rank=1), "2 workers a rank don't fit on the 1 core that a rank is pinned to"),
        ({"worker_count": 4}, Limits(cores_per_rank=3), "4 workers a rank don't fit on the 3 cores"),
        ({"worker_count": 2, "pinning": "core"}, Limits(cores_per_rank=8, pinned_cores={"core": 1}), "fit on the 1 core"),
        ({"provider": "shm"}, Limits(hosts=2), "the provider shm does not leave a host, and the job has 2"),
        ({"transport": "ofi", "algorithm_large": "direct"}, Limits(), "direct is MPI's own and needs the transport mpi"),
        ({"algorithm_small": "direct"}, Limits(default_transport="ofi"), "needs the transport mpi"),
        ({"algorithm_small": "nreduce"}, Limits(ranks=512, sizes=(1024,)), "nreduce needs 512 elements for 512 ranks"),
        ({"algorithm_small": "rabenseifner"}, Limits(ranks=600, sizes=(1024,)), "rabenseifner needs 512 elements"),
        ({"algorithm_small": "2d"}, Limits("bcast"), "bcast has no algorithm 2d; it has direct, ring, double_tree, naive"),
        ({"mnic": "local"}, Limits(several_nics=False), "mnic local needs several network cards"),
        ({"pinning": "off"}, Limits(local_ranks=2), "the workers of all ranks go to the same last cores"),
        ({"provider": "psm3"}, Limits(refused={("provider", "psm3"): "psm3 says no"}), "psm3 says no"),
    ],
)
def test_refused_before_it_is_started(values: dict[str, Value], limits: Limits, reason: str) -> None:
    (said,) = for_job(SPACE, limits).broken(setting(**values))
    assert reason in said


def test_what_fits_is_not_refused() -> None:
    space = for_job(SPACE, Limits(hosts=1, ranks=4, sizes=(4096,), cores_per_rank=2, several_nics=True))
    for values in ({"worker_count": 2}, {"provider": "shm"}, {"algorithm_small": "nreduce"}, {"mnic": "global"}):
        assert space.legal(setting(**values)), values  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "limits", "same_as"),
    [
        ({"transport": "mpi"}, Limits(), {}),
        ({"transport": "ofi"}, Limits(default_transport="ofi"), {}),
        ({"shm": True}, Limits(), {}),
        ({"transport": "ofi", "fabrics": "ofi"}, Limits(), {"transport": "ofi"}),
        ({"fabrics": "shm:ofi"}, Limits(), {}),
        ({"fabrics": "shm"}, Limits(hosts=2), {}),
        ({"provider": "tcp"}, Limits(hosts=1), {}),
        ({"algorithm_large": "ring"}, Limits(sizes=(1024,)), {}),
        ({"worker_offload": "0", "yield": "sleep", "spin_count": "16"}, Limits(), {"worker_offload": "0"}),
        ({"worker_offload": "0"}, Limits(cores_per_rank=1), {}),
        ({"worker_offload": "1"}, Limits(cores_per_rank=2), {}),
        ({"yield": "sleep"}, Limits(cores_per_rank=1), {}),
        ({"fusion": True}, Limits("bcast"), {}),
        ({"fusion": True}, Limits(sizes=(1 << 20,)), {}),
        ({"chunk_count": 4, "algorithm_small": "direct"}, Limits(sizes=(1024,)), {"algorithm_small": "direct"}),
    ],
)
def test_same_in_effect_is_one_setting(values: dict[str, Value], limits: Limits, same_as: dict[str, Value]) -> None:
    assert for_job(SPACE, limits).canonical(setting(**values)) == setting(**same_as)


@pytest.mark.parametrize(
    ("values", "limits"),
    [
        ({"worker_offload": "1"}, Limits(cores_per_rank=1)),  # oneCCL would turn its worker off, which is worse or better
        ({"worker_offload": "0"}, Limits(cores_per_rank=2)),
        ({"worker_offload": "0", "worker_count": 2}, Limits(cores_per_rank=4)),  # two endpoints, also without threads
        ({"worker_offload": "1", "yield": "sched_yield"}, Limits(cores_per_rank=1)),
        ({"provider": "tcp"}, Limits(hosts=2)),
        ({"provider": "tcp", "fabrics": "ofi"}, Limits(hosts=1)),
        ({"transport": "ofi", "shm": True}, Limits(hosts=1)),
        ({"chunk_count": 4}, Limits(sizes=(1024,))),
        ({"chunk_count": 4, "algorithm_small": "ring"}, Limits(sizes=(1024,))),
        ({"fusion": True}, Limits(sizes=(1024, 1 << 20))),
    ],
)
def test_what_differs_stays_apart(values: dict[str, Value], limits: Limits) -> None:
    assert for_job(SPACE, limits).canonical(setting(**values)) == setting(**values)


def test_who_makes_progress() -> None:
    assert offloads(SPACE.default, Limits()) is None
    assert offloads(SPACE.default, Limits(cores_per_rank=1)) is False
    assert offloads(SPACE.default, Limits(cores_per_rank=2)) is True
    assert offloads(setting(pinning="off"), Limits(cores_per_rank=1)) is True
    assert offloads(setting(worker_offload="1"), Limits(cores_per_rank=1)) is True


@settings(deadline=None)
@given(LIMITS, st.data())
def test_folding_is_stable_and_keeps_what_is_allowed(limits: Limits, data: st.DataObject) -> None:
    space = for_job(SPACE, limits)
    folded = dict(space.canonical(any_setting(data)))
    assert space.canonical(folded) == folded
    assert space.legal(SPACE.default)
    for config in space.pool(random.Random(0), 50):
        assert space.contains(config)
        assert {str(config[knob]) for knob, _, _ in SIZE_CLASSES} <= {"default", *ALGORITHMS[limits.collective]}


def test_narrowed_knobs_stay_narrowed() -> None:
    narrowed = SPACE.narrow({"transport": "mpi", "algorithm_small": "ring,scatter", "pinning": "default"})
    space = for_job(narrowed, Limits(sizes=(1024,), cores_per_rank=1))
    assert space["transport"].domain.values == ("mpi",)
    assert space["algorithm_small"].domain.values == ("ring",)
    configs = space.pool(random.Random(0))
    assert configs
    assert {(config["transport"], config["worker_count"]) for config in configs} == {("mpi", 1)}


def test_only_impossible_values_asked_for_is_said() -> None:
    space = for_job(SPACE.narrow({"algorithm_small": "scatter"}), Limits("allreduce", sizes=(1024,)))
    assert space.broken(setting(algorithm_small="scatter")) == [
        "allreduce has no algorithm scatter; it has direct, rabenseifner, nreduce, ring, double_tree, recursive_doubling, 2d"
    ]


def test_unknown_values_are_refused() -> None:
    with pytest.raises(BadValue, match="--provider foo: is none of default, tcp"):
        SPACE.narrow({"provider": "foo"})


def test_the_cheapest_sets_least_and_spins_least() -> None:
    def ranked(*settings: Config) -> list[int]:
        return sorted(range(len(settings)), key=lambda index: cost(settings[index]))

    assert ranked(setting(algorithm_small="ring", shm=True), setting(algorithm_small="ring"), setting()) == [2, 1, 0]
    assert ranked(setting(worker_count=3), setting(worker_count=2)) == [1, 0]
    assert ranked(setting(**{"yield": "none"}), setting(**{"yield": "sleep"})) == [1, 0]
    assert ranked(setting(spin_count="4096"), setting(spin_count="16")) == [1, 0]
