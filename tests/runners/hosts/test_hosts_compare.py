import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runners.hosts import probe
from runners.hosts.compare import Told, compared

GB = 1 << 30


def facts(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "node": "a",
        "machine": "x86_64",
        "python": "3.11.7",
        "libraries": {"clustertune": "0.1.0"},
        "mpi": "mpirun (Open MPI) 4.1.4\n",
        "processor": {"model": "EPYC", "cpus": 8, "usable": 8, "numa": 1, "memory": 64 * GB},
        "interfaces": {"eth0": {"state": "up", "speed": 10000, "mtu": 1500, "address": "192.0.2.1"}},
        "address": "192.0.2.1",
        "rdma": {},
        "shm": 32 * GB,
        "memlock": None,
        "resolved": {"b": ["192.0.2.2"], "a": ["192.0.2.1"]},
    }
    return {**base, **changes}


OTHER = {"node": "b", "resolved": {"a": ["192.0.2.1"], "b": ["192.0.2.2"]}}


def of(
    first: dict[str, Any], second: dict[str, Any], ahead: float = 0.0, unsure: float = 0.01
) -> dict[str, tuple[str, str, str]]:
    found = compared({"a": Told(first, 0.0, 0.01), "b": Told(second, ahead, unsure)})
    assert all(problem.mend for problem in found)
    return {problem.id: (problem.severity, problem.message, problem.mend) for problem in found}


def test_equal_hosts_have_no_problem() -> None:
    assert of(facts(), facts(**OTHER)) == {}


@pytest.mark.parametrize(
    ("change", "id", "severity", "words"),
    [
        ({"node": "a"}, "hosts-same-name", "error", "a, b all call themselves 'a'"),
        ({"python": "3.9.2"}, "hosts-python", "warning", "3.11 on a; 3.9 on b"),
        ({"mpi": ""}, "hosts-mpirun", "warning", "Open MPI 4.1.4 on a; none on b"),
        ({"libraries": {}}, "hosts-clustertune", "warning", "0.1.0 on a; none on b"),
        ({"libraries": {"clustertune": "0.1.0", "torch": "2.7"}}, "hosts-torch", "warning", "none on a; 2.7 on b"),
        ({"machine": "aarch64"}, "hosts-machine", "warning", "x86_64 on a; aarch64 on b"),
        ({"shm": 64 << 20}, "hosts-shm", "warning", "b has 64M of shared memory"),
        (
            {"resolved": {"a": ["127.0.1.1"], "b": ["192.0.2.2"]}},
            "hosts-loopback-name",
            "error",
            "on b, the name 'a' leads to 127.0.1.1",
        ),
        (
            {"resolved": {"a": ["192.0.2.1"], "b": ["127.0.1.1"]}},
            "hosts-loopback-name",
            "warning",
            "on b, its own name 'b' leads to",
        ),
        ({"resolved": {"a": [], "b": ["192.0.2.2"]}}, "hosts-unknown-name", "warning", "b doesn't know the name 'a'"),
    ],
)
def test_a_difference_is_told(change: dict[str, Any], id: str, severity: str, words: str) -> None:
    found = of(facts(), facts(**{**OTHER, **change}))
    assert set(found) == {id}
    assert found[id][0] == severity
    assert words in found[id][1]


@pytest.mark.parametrize(
    ("key", "value", "id"),
    [
        ("model", "Xeon", "hosts-processor"),
        ("usable", 4, "hosts-cpus"),
        ("numa", 2, "hosts-numa"),
        ("memory", 32 * GB, "hosts-memory"),
    ],
)
def test_hardware_that_differs(key: str, value: object, id: str) -> None:
    found = of(facts(), facts(**OTHER, processor={**facts()["processor"], key: value}))
    assert set(found) == {id}


def test_a_little_memory_less_is_no_difference() -> None:
    assert of(facts(), facts(**OTHER, processor={**facts()["processor"], "memory": 62 * GB})) == {}


def test_links_are_compared_where_we_came_in() -> None:
    slow = {
        "eth0": {"state": "up", "speed": 1000, "mtu": 9000, "address": "192.0.2.2"},
        "eth1": {"state": "up", "speed": 10000, "mtu": 1500, "address": "10.0.0.1"},
    }
    found = of(facts(), facts(**OTHER, interfaces=slow, address="192.0.2.2"))
    assert "10000 Mbit/s on a; 1000 Mbit/s on b" in found["hosts-link-speed"][1]
    assert "1500 on a; 9000 on b" in found["hosts-mtu"][1]


@pytest.mark.parametrize(
    ("ahead", "unsure", "told"), [(0.5, 0.01, False), (2.0, 0.01, True), (-90, 0.2, True), (2.0, 1.5, False)]
)
def test_a_clock_counts_only_beyond_what_the_way_there_makes_unsure(ahead: float, unsure: float, told: bool) -> None:
    assert ("hosts-clock" in of(facts(), facts(**OTHER), ahead, unsure)) == told


@pytest.fixture
def tree(tmp_path: Path) -> Callable[..., Path]:
    """/sys and /proc of a host with RDMA devices."""

    def make(driver: str, state: str) -> Path:
        device = tmp_path / "sys/class/infiniband/rdma_0"
        port = device / "ports/1"
        (port / "gid_attrs/ndevs").mkdir(parents=True)
        (port / "gid_attrs/types").mkdir()
        (port / "state").write_text(state)
        (port / "link_layer").write_text("Ethernet\n")
        (port / "rate").write_text("100 Gb/sec (4X EDR)\n")
        (port / "gid_attrs/ndevs/0").write_text("eth1\n")
        (port / "gid_attrs/types/0").write_text("RoCE v2\n")
        (tmp_path / "drivers" / driver).mkdir(parents=True)
        (device / "device").mkdir()
        (device / "device/driver").symlink_to(tmp_path / "drivers" / driver)
        (device / "device/vendor").write_text("0x1ded\n")
        net = tmp_path / "sys/class/net"
        for name, speed in (("lo", "0"), ("eth1", "25000"), ("down0", "-1")):
            (net / name).mkdir(parents=True)
            (net / name / "speed").write_text(speed + "\n")
            (net / name / "mtu").write_text("8500\n")
            (net / name / "operstate").write_text("up\n")
        (tmp_path / "sys/devices/system/node/node0").mkdir(parents=True)
        (tmp_path / "sys/devices/system/node/node1").mkdir()
        (tmp_path / "proc").mkdir()
        (tmp_path / "proc/cpuinfo").write_text(
            "processor\t: 0\nmodel name\t: Some CPU\n\nprocessor\t: 1\nmodel name\t: Some CPU\n"
        )
        (tmp_path / "proc/meminfo").write_text("MemTotal:       1024 kB\n")
        return tmp_path

    return make


def test_the_probe_reads_a_hosts_tree(tree: Callable[..., Path]) -> None:
    root = str(tree("mlx5_core", "4: ACTIVE\n"))
    assert probe.rdma(root) == {
        "rdma_0": {
            "driver": "mlx5_core",
            "vendor": "0x1ded",
            "ports": {
                "1": {
                    "state": "ACTIVE",
                    "layer": "Ethernet",
                    "rate": "100 Gb/sec (4X EDR)",
                    "netdev": "eth1",
                    "type": "RoCE v2",
                }
            },
        }
    }
    assert {name: each["speed"] for name, each in probe.interfaces(root).items()} == {"eth1": 25000, "down0": None}
    told = probe.processor(root)
    assert (told["model"], told["cpus"], told["numa"], told["memory"]) == ("Some CPU", 2, 2, 1 << 20)


def test_rdma_that_is_down_or_can_not_lock_memory(tree: Callable[..., Path]) -> None:
    devices = probe.rdma(str(tree("mlx5_core", "1: DOWN\n")))
    found = of(facts(rdma=devices, memlock=65536), facts(**OTHER, rdma=devices, memlock=65536))
    assert set(found) == {"hosts-rdma-port", "hosts-memlock"}
    assert "is DOWN" in found["hosts-rdma-port"][1]
    assert "64K" in found["hosts-memlock"][1]


def test_rdma_on_one_host_only(tree: Callable[..., Path]) -> None:
    devices = probe.rdma(str(tree("mlx5_core", "4: ACTIVE\n")))
    assert set(of(facts(rdma=devices), facts(**OTHER))) == {"hosts-rdma"}


def test_erdma_gets_advice_and_no_command_that_changes_anything(tree: Callable[..., Path]) -> None:
    devices = probe.rdma(str(tree("erdma", "4: ACTIVE\n")))
    severity, message, mend = of(facts(rdma=devices), facts(**OTHER, rdma=devices))["hosts-erdma"]
    assert severity == "note"
    for words in ("FI_OFI_RXM_USE_SRX=0", "congestion control", "delayed ACK", "deployment set"):
        assert words in message
    assert "conf" not in mend


@pytest.mark.system
def test_the_probe_answers_a_line_with_a_line() -> None:
    requests = [{"do": "clock"}, {"do": "facts", "names": ["localhost", "no.such.invalid", "a b\ud800"]}]
    code = Path(probe.__file__).read_text()
    done = subprocess.run(
        [sys.executable, "-I", "-c", code],
        input="".join(json.dumps(each) + "\n" for each in requests),
        capture_output=True,
        text=True,
        check=True,
    )
    clock, told = map(json.loads, done.stdout.splitlines())
    assert clock > 1.7e9
    assert told["resolved"]["localhost"]
    assert told["resolved"]["no.such.invalid"] == []
    assert told["processor"]["cpus"] >= 1
    assert compared({"a": Told(told, 0, 0)}) is not None
