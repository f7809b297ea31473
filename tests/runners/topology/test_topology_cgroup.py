"""Real control groups of this machine: the record of a process in one shows what it may use."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runners.topology import probe
from runners.topology.record import topology

pytestmark = [pytest.mark.system, pytest.mark.root]
CGROUP = Path("/sys/fs/cgroup")
# A shell joins the group before it becomes the program, so that nothing of the tests is ever in it.
_JOIN = 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"'


def group(controller: str) -> Iterator[Path]:
    parent = CGROUP / controller
    if os.geteuid() or not (parent / "cgroup.procs").exists():
        pytest.skip(f"needs root and a control group hierarchy {controller} (version 1)")
    folder = parent / f"clustertune-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        yield folder
    finally:
        folder.rmdir()


@pytest.fixture(name="cpuset")
def _cpuset() -> Iterator[Path]:
    yield from group("cpuset")


@pytest.fixture(name="cpu")
def _cpu() -> Iterator[Path]:
    yield from group("cpu")


def told_inside(folder: Path) -> dict[str, Any]:
    source = Path(probe.__file__).read_text()
    words = ["sh", "-c", _JOIN, "join", str(folder), sys.executable, "-I", "-S", "-c", source]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    return dict(json.loads(done.stdout))


def test_a_cpuset(cpuset: Path) -> None:
    first = min(os.sched_getaffinity(0))
    (cpuset / "cpuset.cpus").write_text(str(first))
    (cpuset / "cpuset.mems").write_text("0")
    host = topology(told_inside(cpuset))
    assert host.cpus == (first,)
    assert host.memory_nodes == (0,)
    assert len(host.online) == os.cpu_count()


def test_a_quota(cpu: Path) -> None:
    (cpu / "cpu.cfs_period_us").write_text("100000")
    (cpu / "cpu.cfs_quota_us").write_text("150000")
    host = topology(told_inside(cpu))
    assert host.quota == 1.5
    assert host.most_threads == 1
