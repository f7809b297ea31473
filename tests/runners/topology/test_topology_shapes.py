"""Topologies read from trees of /sys and /proc, one for each shape of host that people run inference on."""

from dataclasses import replace
from pathlib import Path

import pytest
from support.sysfs import GIB, SHAPES, Host, build, shaped, topology

from runners.topology import here, parse_list
from runners.topology.drawing import drawn, listed


@pytest.mark.parametrize("name", SHAPES)
def test_every_core_is_found_once(name: str, tmp_path: Path) -> None:
    shape = SHAPES[name]
    host = topology(tmp_path, shape)
    cpus = [cpu for core in host.cores for cpu in core.all_cpus]
    assert len(cpus) == len(set(cpus))
    assert set(host.cpus) == (set(parse_list(shape.cpuset)) if shape.cpuset else set(host.online))
    assert set(host.online) == {c for core in range(shape.cores) for c in shape.cpus_of_core(core)} - set(shape.offline)
    assert host.smt == shape.smt


@pytest.mark.parametrize(
    ("name", "sockets", "nodes", "cores"),
    [
        ("quad", 2, 2, [48, 48]),
        ("general", 1, 1, [48]),
        ("cloud", 1, 1, [48]),
        ("hbm-snc4", 2, 8, [14] * 8),
        ("snc4", 2, 8, [14] * 8),
        ("hbm-quad", 2, 2, [56, 56]),
        ("snc2", 2, 4, [24] * 4),
        ("uneven", 2, 6, [43, 43, 42, 43, 43, 42]),
        ("nps4", 2, 8, [8] * 8),
        ("twelve-nodes", 2, 12, [10] * 12),
        ("four-sockets", 4, 4, [24] * 4),
        ("offline", 2, 2, [8, 8]),
    ],
)
def test_sockets_nodes_and_cores(name: str, sockets: int, nodes: int, cores: list[int], tmp_path: Path) -> None:
    host = shaped(name)
    assert len(host.sockets) == sockets
    assert len(host.cpu_nodes) == nodes
    assert [len(host.cores_of(node)) for node in host.cpu_nodes] == cores


def test_node_numbers_are_read_as_numbers(tmp_path: Path) -> None:
    """Node 10 and 11 come after 9, and none is taken for node 1."""
    host = shaped("twelve-nodes")
    assert host.cpu_nodes == tuple(range(12))
    assert [core.cpus[0] for core in host.cores_of(11)] == list(range(110, 120))


def test_siblings_in_both_numberings(tmp_path: Path) -> None:
    far, near = shaped("general"), shaped("cloud")
    assert far.cores[1].cpus == (1, 49)
    assert not far.adjacent
    assert near.cores[1].cpus == (2, 3)
    assert near.adjacent


def test_memory_only_nodes_are_paired_by_distance(tmp_path: Path) -> None:
    straight, crossed = shaped("hbm-quad"), shaped("hbm-crossed")
    assert straight.paired == {0: (2,), 1: (3,)}
    assert crossed.paired == {0: (3,), 1: (2,)}
    assert straight.node(2).memory_only
    assert not straight.node(0).memory_only
    assert shaped("quad").paired == {0: (), 1: ()}


def test_a_memory_only_node_that_is_near_to_several_goes_round(tmp_path: Path) -> None:
    shape = Host((4, 4), 1, memory_nodes=(GIB, GIB), near=(0, 1))
    host = topology(tmp_path, shape)
    flat = replace(
        host, nodes=tuple(replace(node, distances={other.number: 20 for other in host.nodes}) for node in host.nodes)
    )
    assert flat.paired == {0: (2,), 1: (3,)}


@pytest.mark.parametrize("version", [1, 2])
def test_cpuset_and_memory_nodes(version: int, tmp_path: Path) -> None:
    shape = replace(SHAPES["cpuset"], cgroup=version)
    host = topology(tmp_path, shape)
    assert host.cpus == tuple(range(8, 16))
    assert len(host.online) == 64
    assert host.memory_nodes == (0,)
    assert host.forbidden == (*range(8), *range(16, 64))


@pytest.mark.parametrize("version", [1, 2])
def test_a_cpuset_that_the_mask_does_not_show(version: int, tmp_path: Path) -> None:
    """A process may have had its affinity widened: the control group still holds."""
    host = topology(tmp_path, Host((8,), cpuset="2-3", affinity="0-7", cgroup=version))
    assert host.cpus == (2, 3)


def test_the_affinity_mask_holds(tmp_path: Path) -> None:
    host = topology(tmp_path, Host((8,), 1, 2, affinity="0-3"))
    assert host.cpus == (0, 1, 2, 3)
    assert [core.cpus for core in host.cores] == [(0,), (1,), (2,), (3,)]
    assert host.cores[0].all_cpus == (0, 8)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("quota", "threads"), [(None, 8), (4.0, 4), (2.5, 2), (0.5, 1), (64.0, 8)])
def test_a_quota_gives_whole_threads(version: int, quota: float | None, threads: int, tmp_path: Path) -> None:
    host = topology(tmp_path, Host((8,), quota=quota, cgroup=version))
    assert host.quota == quota
    assert host.most_threads == threads


@pytest.mark.parametrize("version", [1, 2])
def test_memory_is_bounded_by_the_control_group(version: int, tmp_path: Path) -> None:
    host = topology(tmp_path, Host((4, 4), 2, node_memory=64 * GIB, memory_limit=16 * GIB, cgroup=version))
    assert host.memory_limit == 16 * GIB
    assert host.memory_of((0,)) == 16 * GIB
    assert topology(tmp_path / "b", Host((4,), node_memory=64 * GIB, cgroup=version)).memory_of((0,)) == 64 * GIB


def test_offline_cpus_leave_their_siblings(tmp_path: Path) -> None:
    host = shaped("offline")
    assert host.offline == (3, 16, 17, 20)
    assert [core.cpus for core in host.cores_of(0)] == [(0,), (1,), (2, 18), (4,), (5, 21), (6, 22), (7, 23), (19,)]


def test_node_numbers_may_have_gaps(tmp_path: Path) -> None:
    host = shaped("sparse")
    assert host.cpu_nodes == (0, 8)
    assert host.node(0).distances == {0: 10, 8: 21}


def test_a_virtual_machine_without_packages_is_one_socket(tmp_path: Path) -> None:
    assert topology(tmp_path, Host((4,), package=-1)).sockets == (0,)


def test_efficiency_cores_are_left_out(tmp_path: Path) -> None:
    host = topology(tmp_path, Host((8,), extra={"sys/devices/cpu_atom/cpus": "4-7"}))
    assert host.cpus == (0, 1, 2, 3)
    assert host.slow == (4, 5, 6, 7)
    assert host.forbidden == ()


def test_a_kernel_without_numa_has_one_node(tmp_path: Path) -> None:
    import shutil

    root = build(tmp_path, Host((4,), node_memory=8 * GIB))
    shutil.rmtree(root / "sys/devices/system/node")
    host = here(str(root))
    assert host.cpu_nodes == (0,)
    assert host.node(0).memory == 8 * GIB


def test_a_container_that_sees_only_its_own_control_group(tmp_path: Path) -> None:
    """/proc/self/cgroup names the host's path, and the mount begins at the container's own group."""
    files = {"proc/self/cgroup": "0::/../../kubepods/pod1\n", "sys/fs/cgroup/cpuset.cpus.effective": "1-2",
             "sys/fs/cgroup/cpu.max": "150000 100000"}  # fmt: skip
    host = topology(tmp_path, Host((4,), extra=files))
    assert host.cpus == (1, 2)
    assert host.quota == 1.5


def test_this_host() -> None:
    import os

    host = here()
    assert set(host.cpus) <= os.sched_getaffinity(0)
    assert host.hostname == os.uname().nodename
    assert host.memory_nodes
    assert all(core.node in {node.number for node in host.nodes} for core in host.cores)


def test_the_map(tmp_path: Path) -> None:
    text = drawn(topology(tmp_path, replace(SHAPES["hbm-crossed"], quota=8.0, memory_limit=32 * GIB)))
    assert text.splitlines() == [
        "node1: Example CPU, 2 sockets, 112 cores, 2 CPUs a core, 2 NUMA nodes, 2 memory-only nodes",
        "  socket 0",
        "    node 0: 56 cores 0-55, siblings 112-167; 64 GiB",
        "      node 3: memory only, 64 GiB, distance 13",
        "  socket 1",
        "    node 1: 56 cores 56-111, siblings 168-223; 64 GiB",
        "      node 2: memory only, 64 GiB, distance 13",
        "  quota: 8 CPUs' worth of time",
        "  memory limit: 32.0 GiB",
    ]


@pytest.mark.parametrize("name", SHAPES)
def test_every_map_is_short(name: str, tmp_path: Path) -> None:
    host = shaped(name)
    assert all(len(line) < 130 for line in drawn(host).splitlines())
    assert len(drawn(host).splitlines()) <= 6 + len(host.sockets) + len(host.nodes)


def test_lists_with_equal_distances_are_short() -> None:
    assert listed([0, 2, 4, 6]) == "0-6:2"
    assert listed([0, 1, 2]) == "0-2"
    assert listed([0, 2]) == "0,2"
