"""What xFT's scripts choose: golden values of run_benchmark.sh and run.sh 2.1.2, run with stubs of lscpu and mpirun."""

from dataclasses import dataclass

import pytest
from support.sysfs import SHAPES, shaped

from runners.topology import format_list, parse_list
from runners.xft.baseline import Script, choose, of_topology


@dataclass(frozen=True)
class Golden:
    sockets: int
    per_socket: int
    nodes: int
    used: int
    mode: str
    ranks: tuple[tuple[str, int, int], ...]  # cores, first token's node, node of memory
    threads: int
    node3: bool = True
    cloud: bool = False


GOLDEN = [
    Golden(2, 48, 2, 2, "Quad", (("0-47", 0, 0), ("48-95", 1, 1)), 48),
    Golden(1, 48, 1, 1, "General Test", (("0-47", 0, 0),), 48),
    Golden(1, 48, 1, 1, "General Test", (("0-94:2", 0, 0),), 48, cloud=True),
    Golden(
        2, 56, 16, 2, "HBM flat SNC-4", tuple((f"{14 * i}-{14 * i + 13}", i, 8 + i) for i in range(8)), 14
    ),
    Golden(2, 56, 8, 1, "SNC-4", tuple((f"{14 * i}-{14 * i + 13}", i, i) for i in range(4)), 14),
    Golden(2, 56, 4, 2, "HBM flat quad", (("0-55", 0, 2), ("56-111", 1, 3)), 56, node3=False),
    Golden(2, 48, 4, 2, "EMR SNC-2", tuple((f"{24 * i}-{24 * i + 23}", i, i) for i in range(4)), 24),
    Golden(
        2, 128, 6, 2, "SNC-3",
        (("0-42", 0, 0), ("43-85", 1, 1), ("86-127", 2, 2), ("128-170", 3, 3), ("171-213", 4, 4), ("214-255", 5, 5)), 42,
    ),
]  # fmt: skip


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: f"{golden.mode}-{golden.used}s{'-cloud' * golden.cloud}")
def test_golden(golden: Golden) -> None:
    found = choose(
        golden.sockets, golden.per_socket, golden.nodes, used=golden.used, node3_has_cpus=golden.node3, cloud=golden.cloud
    )
    assert isinstance(found, Script)
    assert found.mode == golden.mode
    assert [(rank.cpus, rank.first, rank.node) for rank in found.ranks] == [
        (parse_list(cores), first, node) for cores, first, node in golden.ranks
    ]
    assert {rank.threads for rank in found.ranks} == {golden.threads}


@pytest.mark.parametrize(("sockets", "cores", "nodes"), [(1, 56, 4), (2, 60, 12), (2, 60, 5), (2, 56, 7), (2, 60, 9)])
def test_where_the_script_gives_up(sockets: int, cores: int, nodes: int) -> None:
    assert choose(sockets, cores, nodes, used=sockets) == "Please double check the memory nodes"


@pytest.mark.parametrize(
    ("shape", "mode"),
    [
        ("quad", "Quad"), ("general", "General Test"), ("cloud", "General Test"), ("hbm-snc4", "HBM flat SNC-4"),
        ("snc4", "SNC-4"), ("hbm-quad", "HBM flat quad"), ("snc2", "EMR SNC-2"), ("uneven", "SNC-3"),
        ("four-sockets", "4-socket quad"), ("nps4", "SNC-4"),
    ],
)  # fmt: skip
def test_hosts_that_the_script_knows(shape: str, mode: str) -> None:
    found = of_topology(shaped(shape))
    assert isinstance(found, Script)
    assert found.mode == mode


def test_neighbouring_siblings_get_the_cloud_switch() -> None:
    """The script advises XFT_CLOUD_ENV=1 there; without it half of the cores would be used twice: no fair baseline."""
    found = of_topology(shaped("cloud"))
    assert isinstance(found, Script)
    assert format_list(found.ranks[0].cpus) == format_list(range(0, 96, 2))


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        ("cpuset", "not all of them may be used"),
        ("cpuset-v1", "not all of them may be used"),
        ("offline", "not all of them may be used"),
        ("sparse", "memory to node 1, and there is none"),
        ("twelve-nodes", "gives up on 12 NUMA nodes"),
    ],
)
def test_hosts_where_the_script_would_do_something_else_than_it_means(shape: str, why: str) -> None:
    found = of_topology(shaped(shape))
    assert isinstance(found, str)
    assert why in found


def test_every_shape_has_an_answer() -> None:
    for name in SHAPES:
        found = of_topology(shaped(name))
        if isinstance(found, Script):
            cpus = [cpu for rank in found.ranks for cpu in rank.cpus]
            assert len(cpus) == len(set(cpus))
