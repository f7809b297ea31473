"""Cases of users who ran oneCCL or a tuner for it: what they had, and the right answer. Those of files are beside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runners.oneccl.benchmark import arguments
from runners.oneccl.options import Options
from runners.oneccl.runner import CclRunner
from runners.oneccl.setup import Setup
from runners.oneccl.variables import check
from runners.oneccl.workload import Workload
from runners.runner import Failure, UsageError
from spaces.oneccl import SPACE, Limits, for_job

PATIENCE = 60.0


def setup(**options: Any) -> Setup:
    return Setup.of(Options(**{"sizes": "1K", **options}))


def tune(tmp_path: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    environment = {**os.environ, "CLUSTERTUNE_STORAGE": str(tmp_path / "studies.db")}
    command = [sys.executable, "-m", "tuner", "oneccl", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout)


def test_case_workers_over_cores() -> None:
    space = for_job(SPACE, Limits(cores_per_rank=1, local_ranks=2, ranks=2, hosts=1))
    (reason,) = space.broken({**SPACE.default, "worker_count": 2})
    assert "2 workers" in reason
    assert "1 core" in reason


def test_case_worker_list_short() -> None:
    said = check("CCL_WORKER_AFFINITY", "3", ppn=2)
    assert said is None or "2" in said  # alone it is enough for one worker on one rank; with its count it is not
    from runners.oneccl.combinations import Job, conflicts

    (found,) = [each for each in conflicts({"CCL_WORKER_COUNT": "2", "CCL_WORKER_AFFINITY": "3"}, Job(ppn=2))
                if each.name == "CCL_WORKER_AFFINITY"]  # fmt: skip
    assert "4" in found.message
    assert "1" in found.message


@pytest.mark.system
def test_case_workers_over_cores_is_refused_before_a_launch() -> None:
    cores = sorted(os.sched_getaffinity(0))[:1]
    with CclRunner(setup(pin=f"{cores[0]},{cores[0]}"), SPACE) as runner:
        kept = len(runner._setup.jobs._kept) if runner.space else 0
        outcome = runner.measure({**SPACE.default, "worker_count": 2}, PATIENCE)
        assert isinstance(outcome, Failure)
        assert outcome.kind == "infeasible"
        assert "2 workers a rank don't fit on the 1 core" in outcome.reason
        assert len(runner._setup.jobs._kept) == kept


@pytest.mark.system
def test_case_provider_typo_one_host(tmp_path: Path) -> None:
    """Shared memory never looks at the provider; the probe makes it count here too."""
    code, answer = tune(tmp_path, "--provider", "foo")
    assert (code, answer["error"]["kind"]) == (2, "usage")
    assert "--provider foo" in answer["error"]["message"]
    assert "tcp" in answer["error"]["message"]
    found = setup().starter.start({"FI_PROVIDER": "foo", "I_MPI_FABRICS": "ofi"}, PATIENCE)
    assert isinstance(found, Failure)
    assert found.kind == "infeasible"
    assert "the provider foo can't be started here" in found.reason


@pytest.mark.system
def test_case_tcp_rxm() -> None:
    of = setup()
    providers = of.probe(SPACE.narrow({"provider": "default,tcp", "transport": "default"}))
    assert "tcp" in providers.working("mpi")
    from runners.oneccl.failures import explain

    env = {"I_MPI_OFI_PROVIDER": "tcp;ofi_rxm", "I_MPI_FABRICS": "ofi"}
    found = of.starter.start(env, PATIENCE)
    of.close()
    assert isinstance(found, Failure)
    told = explain(found, env, providers.working("mpi"))
    assert told.kind == "infeasible"
    assert "tcp;ofi_rxm" in told.reason
    assert "OFI fi_getinfo() failed" in told.reason
    assert "tcp" in told.reason.rpartition(";")[2]
    assert "does start here" in told.reason


@pytest.mark.system
def test_case_iface_unknown(tmp_path: Path) -> None:
    code, answer = tune(tmp_path, "--iface", "eth99")
    assert (code, answer["error"]["kind"]) == (2, "usage")
    assert answer["error"]["message"].startswith("--iface eth99: localhost has no such interface; localhost has ")
    with pytest.raises(UsageError):
        _ = setup(iface="eth99").network


def test_case_one_iteration() -> None:
    """The program's own policy would time a 4 MiB message once."""
    words = arguments("benchmark", Workload("allreduce", "float32", ((4 << 20, 1.0),)), 16)
    assert words[words.index("-j") + 1] == "off"
    assert words[words.index("-i") + 1] == "16"
    assert words[words.index("-y") + 1] == str(1 << 20)


def test_case_summed_collectives() -> None:
    words = arguments("benchmark", Workload("bcast", "float32", ((1024, 1.0),)), 16)
    assert words[words.index("-l") + 1] == "bcast"
