"""Kernel limits, read from trees as real machines and containers show them."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runners.limits import aio_events, available_memory, container, ipc_lock, memlock

GIB = 1 << 30


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max processes             96295                96295                processes
Max locked memory         {soft:<20} {hard:<20} bytes
Max address space         unlimited            unlimited            bytes
"""


def process(root: Path, soft: str, hard: str, caps: str = "0000000000000000") -> Path:
    status = f"Name:\tpython\nCapPrm:\t0000003fffffffff\nCapEff:\t{caps}\nCapBnd:\t0000003fffffffff\n"
    return write(root, {"self/limits": LIMITS.format(soft=soft, hard=hard), "self/status": status})


def test_locked_memory(tmp_path: Path) -> None:
    limit = memlock(process(tmp_path, "8388608", "unlimited"))
    assert (limit.soft, limit.hard, limit.privileged) == (8388608, None, False)
    assert limit.allows(8388608)
    assert not limit.allows(8388609)


def test_a_privileged_process_has_no_limit(tmp_path: Path) -> None:
    assert memlock(process(tmp_path, "65536", "65536", caps="000001ffffffffff")).allows(1 << 40)
    assert ipc_lock(process(tmp_path / "only", "1", "1", caps="0000000000004000"))
    assert not ipc_lock(process(tmp_path / "all but", "1", "1", caps="000001ffffffbfff"))


def test_unlimited_is_unlimited(tmp_path: Path) -> None:
    assert memlock(process(tmp_path, "unlimited", "unlimited")).allows(1 << 50)


@pytest.mark.system
def test_this_process_agrees_with_getrlimit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    limit = memlock()
    assert [limit.soft, limit.hard] == [None if n == resource.RLIM_INFINITY else n for n in (soft, hard)]


def test_aio_events(tmp_path: Path) -> None:
    write(tmp_path, {"sys/fs/aio-max-nr": "65536\n", "sys/fs/aio-nr": "1152\n"})
    events = aio_events(tmp_path)
    assert events is not None
    assert (events.maximum, events.used, events.free) == (65536, 1152, 64384)
    (tmp_path / "sys/fs/aio-nr").write_text("70000\n")
    lowered = aio_events(tmp_path)
    assert lowered is not None
    assert lowered.free == 0


def test_a_kernel_without_aio(tmp_path: Path) -> None:
    assert aio_events(tmp_path) is None


MEMINFO = "MemTotal:       65536000 kB\nMemFree:         1000000 kB\nMemAvailable:   33554432 kB\n"


def host(tmp_path: Path, membership: str) -> Path:
    return write(tmp_path / "proc", {"meminfo": MEMINFO, "self/cgroup": membership})


def test_memory_of_a_host(tmp_path: Path) -> None:
    assert available_memory(host(tmp_path, "0::/user.slice\n"), tmp_path / "cgroup") == 32 * GIB


def test_the_tightest_group_of_version_2_counts(tmp_path: Path) -> None:
    groups = {
        "job/memory.max": f"{8 * GIB}\n",
        "job/memory.high": "max\n",
        "job/memory.current": f"{3 * GIB}\n",
        "job/memory.stat": f"anon 1\ninactive_file {GIB}\nactive_file 5\n",
        "job/step/memory.max": "max\n",
        "job/step/memory.current": f"{2 * GIB}\n",
        "memory.stat": "inactive_file 1\n",
    }
    write(tmp_path / "cgroup", groups)
    assert available_memory(host(tmp_path, "0::/job/step\n"), tmp_path / "cgroup") == 6 * GIB
    (tmp_path / "cgroup/job/memory.high").write_text(f"{4 * GIB}\n")
    assert available_memory(host(tmp_path, "0::/job/step\n"), tmp_path / "cgroup") == 2 * GIB


def test_version_1_in_a_container_that_sees_only_its_own_part(tmp_path: Path) -> None:
    groups = {
        "memory/memory.limit_in_bytes": f"{4 * GIB}\n",
        "memory/memory.usage_in_bytes": f"{5 * GIB}\n",
        "memory/memory.stat": f"cache 1\ntotal_inactive_file {2 * GIB}\n",
    }
    write(tmp_path / "cgroup", groups)
    membership = "9:cpu,cpuacct:/docker/ab12\n4:memory:/docker/ab12\n0::/\n"
    assert available_memory(host(tmp_path, membership), tmp_path / "cgroup") == GIB


def test_no_limit_of_version_1_is_no_limit(tmp_path: Path) -> None:
    write(
        tmp_path / "cgroup", {"memory/memory.limit_in_bytes": "9223372036854771712\n", "memory/memory.usage_in_bytes": "5\n"}
    )
    assert available_memory(host(tmp_path, "4:memory:/\n"), tmp_path / "cgroup") == 32 * GIB


def test_a_group_name_never_leads_out_of_the_tree(tmp_path: Path) -> None:
    write(tmp_path, {"memory.max": "1\n", "memory.current": "0\n"})
    (tmp_path / "cgroup").mkdir()
    assert available_memory(host(tmp_path, "0::/../\n"), tmp_path / "cgroup") == 32 * GIB


def test_nothing_readable_is_nothing_known(tmp_path: Path) -> None:
    assert available_memory(tmp_path, tmp_path) is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.dictionaries(
    st.sampled_from([
        "proc/meminfo", "proc/self/cgroup", "proc/self/limits", "proc/self/status", "proc/sys/fs/aio-max-nr",
        "proc/sys/fs/aio-nr", "cgroup/memory.max", "cgroup/memory.current", "cgroup/memory.stat", "run/systemd/container",
    ]),
    st.one_of(st.binary(max_size=60), st.sampled_from([b"0::/\n", b"MemAvailable: 5 kB", b"-1", b"9" * 40, b"CapEff: f\n"])),
))  # fmt: skip
def test_garbage_never_raises(tmp_path: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    memlock(tmp_path / "proc")
    aio_events(tmp_path / "proc")
    memory = available_memory(tmp_path / "proc", tmp_path / "cgroup")
    assert memory is None or memory >= 0
    container(tmp_path, {})


@pytest.mark.parametrize(
    ("files", "environ", "kind"),
    [
        ({}, {}, None),
        ({".dockerenv": ""}, {}, "docker"),
        ({"run/.containerenv": ""}, {}, "podman"),
        ({"run/systemd/container": "lxc\n"}, {}, "lxc"),
        ({".dockerenv": ""}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ({}, {"container": "podman"}, "podman"),
        ({}, {"container": "two words\x1b"}, None),
        ({"proc/1/cgroup": "3:memory:/kubepods/besteffort/pod1\n"}, {}, "kubernetes"),
        ({"proc/1/cgroup": "0::/init.scope\n"}, {}, None),
    ],
)
def test_containers(tmp_path: Path, files: dict[str, str], environ: dict[str, str], kind: str | None) -> None:
    assert container(write(tmp_path, files), environ) == kind


@pytest.mark.system
def test_this_machine_has_memory() -> None:
    memory = available_memory()
    assert memory is not None
    assert 1 << 20 < memory <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
