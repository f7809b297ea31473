"""run_xft.sh under real MPIs and a real numactl: every rank has the host, cores and threads that were laid out."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.mpis import KINDS, folder
from support.rig import Rig

from runners.topology import here
from runners.xft.known_models import KNOWN
from runners.xft.layout import Layout
from runners.xft.model import Demand
from runners.xft.plan import Plan
from spaces.space import Config
from spaces.xft import SPACE, Software
from tuner.exporters import xft
from tuner.exporters.xft.calls import calls
from tuner.recommendation import Recommendation

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(shutil.which("numactl") is None, reason="needs numactl"),
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs"),
]
TORCH = Software("torch", "gomp", "", ccl=False)
SAYS = (
    "import json, os; e = os.environ; "
    'os.write(1, (json.dumps(["rank", os.uname().nodename, sorted(os.sched_getaffinity(0)), '
    'e["OMP_NUM_THREADS"], e.get("OMP_WAIT_POLICY"), e.get("KMP_BLOCKTIME")]) + "\\n").encode())'
)


def script(config: Config, names: tuple[str, ...], kind: str, **machine: Any) -> tuple[Layout, str]:
    plan = Plan(dict.fromkeys(names, here()), Demand(KNOWN["tiny"], "fp32"), TORCH)
    told = {"plan": plan.json(), "launcher": kind, "mpirun": str(folder(kind) / "bin" / "mpirun"), **machine}
    answer = Recommendation("s", "xft", "torch", "adopt", config, SPACE.default, None, "", {}, {}, machine=told)
    (text,) = xft.render(answer, "script", {"job_limit": "100s"}).values()
    layout = plan.layout(config)
    assert isinstance(layout, Layout)
    return layout, text


def ranks(said: str) -> list[list[Any]]:
    return sorted(json.loads(line)[1:] for line in said.splitlines() if line.startswith('["rank"'))


def expected(layout: Layout, node: dict[str, str]) -> list[list[Any]]:
    return sorted([node[rank.host], list(rank.cpus), str(rank.threads), "passive", None] for rank in layout.ranks)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_ranks_of_this_host(kind: str, tmp_path: Path) -> None:
    layout, text = script({**SPACE.default, "ranks": 2, "wait_policy": "passive"}, ("localhost",), kind)
    (tmp_path / "run_xft.sh").write_text(text)
    words = ["sh", str(tmp_path / "run_xft.sh"), sys.executable, "-c", SAYS]
    # What a shell brings along must not reach the ranks.
    environ = {**os.environ, "KMP_BLOCKTIME": "77", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, env=environ)
    assert ranks(done.stdout) == expected(layout, {"localhost": os.uname().nodename}), done.stdout + done.stderr


def test_one_rank_needs_no_mpi(tmp_path: Path) -> None:
    plan = Plan({"localhost": here()}, Demand(KNOWN["tiny"], "fp32"), TORCH)
    config = {**SPACE.default, "ranks": 1, "threads": 1, "wait_policy": "passive"}
    answer = Recommendation(
        "s", "xft", "torch", "adopt", config, SPACE.default, None, "", {}, {}, machine={"plan": plan.json()}
    )
    (text,) = xft.render(answer, "script", {}).values()
    (tmp_path / "run_xft.sh").write_text(text)
    words = ["sh", str(tmp_path / "run_xft.sh"), sys.executable, "-c", SAYS]
    environ = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True, env=environ)
    ((_, cpus, threads, policy, _),) = ranks(done.stdout)
    assert (len(cpus), threads, policy) == (1, "1", "passive")


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_ranks_of_two_hosts(kind: str, two_hosts: Rig, tmp_path: Path) -> None:
    names = two_hosts.names
    config = {**SPACE.default, "ranks": 2, "wait_policy": "passive"}
    layout, text = script(config, names, kind, iface="e0")
    (tmp_path / "run_xft.sh").write_text(text)
    (tmp_path / "agent").write_text(f'#!/bin/sh\nexec {shlex.join(two_hosts.ssh)} "$@"\n')
    (tmp_path / "agent").chmod(0o755)
    agent = {
        "intel": ("I_MPI_HYDRA_BOOTSTRAP_EXEC",),
        "mpich": ("HYDRA_LAUNCHER_EXEC",),
        "openmpi": ("OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"),
    }[kind]
    words = ["env", *(f"{name}={tmp_path}/agent" for name in agent), "sh", tmp_path / "run_xft.sh", sys.executable, "-c", SAYS]
    said = two_hosts[0].run(*words, limit=120, check=False)
    assert ranks(said) == expected(layout, {name: name for name in names}), said


def doctor(hosts: Rig, *words: str) -> dict[str, list[dict[str, str]]]:
    command = [sys.executable, "-m", "tuner", "doctor", "xft", "--hosts", ",".join(hosts.names), "--python", sys.executable,
               "--ssh", shlex.join(hosts.ssh), "--json", *words]  # fmt: skip
    found: dict[str, list[dict[str, str]]] = {}
    for problem in json.loads(hosts[0].run(*command, limit=200, check=False))["problems"]:
        found.setdefault(problem["id"], []).append(problem)
    return found


def test_the_doctor_of_two_hosts(two_hosts: Rig) -> None:
    found = doctor(two_hosts)
    assert [each["message"].splitlines()[0] for each in found["xft-map"]] == list(two_hosts.names)
    assert f"{len(os.sched_getaffinity(0))} cores" in found["xft-map"][0]["message"]
    assert "xft-same-name" not in found
    assert {each["message"].partition(" has ")[0] for each in found["xft-shm"]} == set(two_hosts.names)
    assert "xft-ready" in found


def test_the_doctor_of_hosts_with_one_name(two_hosts: Rig) -> None:
    two_hosts[1].run("hostname", two_hosts.names[0])
    found = doctor(two_hosts)
    (problem,) = found["xft-same-name"]
    assert problem["severity"] == "warning"
    assert f"{', '.join(two_hosts.names)} all call themselves '{two_hosts.names[0]}'" in problem["message"]
    assert "hosts-same-name" not in found


def test_topologies_of_two_hosts_are_recorded_and_laid_out(two_hosts: Rig, tmp_path: Path) -> None:
    names = ",".join(two_hosts.names)
    record = [sys.executable, "-m", "runners.topology", "--hosts", names, "--ssh", shlex.join(two_hosts.ssh), "--python",
              sys.executable]  # fmt: skip
    (tmp_path / "hosts.json").write_text(two_hosts[0].run(*record, limit=120))
    shown = [sys.executable, "-m", "tuner", "xft", "--dry-run", "--hosts", names, "--topology", str(tmp_path / "hosts.json")]
    done = subprocess.run([*shown, "--ranks", "2"], capture_output=True, text=True, check=True, timeout=120)
    found = [(call.host, len(call.cpus or ())) for call in calls(done.stdout)]
    assert sorted(found) == sorted((name, len(rank.cpus)) for name in two_hosts.names for rank in two_ranks().ranks)


def two_ranks() -> Layout:
    layout = Plan({"a": here()}, Demand(KNOWN["tiny"], "fp32"), TORCH).layout({**SPACE.default, "ranks": 2})
    assert isinstance(layout, Layout)
    return layout
