"""What `tune doctor xft` says of hosts, from what they told."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.sysfs import GIB, SPR, shaped, told

from runners.runner import Failure, Problem, UsageError
from runners.topology import Topology
from runners.xft import check_program, host_checks
from runners.xft.checks import of_model, problems
from runners.xft.known_models import KNOWN
from runners.xft.model import Demand
from runners.xft.options import Options

FINE: dict[str, Any] = {
    "numactl": {"path": "/usr/bin/numactl", "binds": True, "said": ""},
    "xft": {"place": "/x", "version": "2.1.2", "requires": ["torch<2.8.0,>=2.7.0"], "torch": "2.7.1", "files": []},
    "libraries": {"libnuma.so.1": True, "libccl.so.1": True, "libmpi.so.12": True},
    "huge_pages": "madvise",
}


def of_host(host: Topology | None = None, shm: int = 16 * GIB, **change: Any) -> list[Problem]:
    return list(host_checks.of_host("a", {**FINE, **change}, host or shaped("quad"), shm))


def ids(found: list[Problem]) -> dict[str, str]:
    return {problem.id: problem.severity for problem in found}


def test_a_host_where_all_is_well() -> None:
    assert ids(of_host()) == {"xft-package": "note"}


def test_numactl_that_is_not_there() -> None:
    (problem,) = [each for each in of_host(numactl={"path": "", "binds": False, "said": ""}) if each.id == "xft-numactl"]
    assert problem.severity == "warning"
    assert "apt-get install -y numactl" in problem.mend


@pytest.mark.parametrize(("shape", "severity"), [("quad", "error"), ("general", "warning")])
def test_numactl_that_may_not(shape: str, severity: str) -> None:
    """Docker without SYS_NICE: with one node there is nothing to place, with several the baseline can't be had."""
    refused = {"path": "/usr/bin/numactl", "binds": False, "said": "set_mempolicy: Operation not permitted"}
    (problem,) = [each for each in of_host(shaped(shape), numactl=refused) if each.id == "xft-numactl"]
    assert problem.severity == severity
    assert "Operation not permitted" in problem.message
    assert "SYS_NICE" in problem.mend


def test_little_shared_memory() -> None:
    """Docker's default: 64 MB, and a bus error."""
    (problem,) = [each for each in of_host(shm=64 << 20) if each.id == "xft-shm"]
    assert "64 MiB of shared memory" in problem.message
    assert "--shm-size=16g" in problem.mend


@pytest.mark.parametrize(
    ("torch", "fits"),
    [("2.7.0+cpu", True), ("2.7.1", True), ("2.8.0", False), ("2.13.0+cpu", False), ("2.6.0", False), ("", False)],
)
def test_torch_against_the_wheel(torch: str, fits: bool) -> None:
    found = ids(of_host(xft={**FINE["xft"], "torch": torch}))
    assert ("xft-torch" in found) != fits


def test_libraries_that_are_missing() -> None:
    (problem,) = [
        each for each in of_host(libraries={**FINE["libraries"], "libccl.so.1": False}) if each.id == "xft-libraries"
    ]
    assert "finds no libccl.so.1" in problem.message


def test_no_package_is_no_problem() -> None:
    found = of_host(xft={"place": "", "version": "", "requires": [], "torch": "", "files": []})
    assert ids(found) == {"xft-package": "note"}


def test_huge_pages_that_are_off() -> None:
    assert "xft-huge-pages" in ids(of_host(huge_pages="never"))


def test_a_host_that_does_not_answer() -> None:
    (problem,) = host_checks.of_host("a", Failure("environment", "a: Permission denied"), shaped("quad"), 0)
    assert (problem.id, problem.mend) == ("hosts-unreachable", "ssh-copy-id a")


def cores(host: Topology) -> dict[str, Problem]:
    return {problem.id: problem for problem in host_checks.of_topologies({"a": host})}


def test_a_quota() -> None:
    problem = cores(replace(shaped("general"), quota=4.0))["xft-quota"]
    assert problem.severity == "warning"
    assert "4 CPUs' worth of time, so that 4 of 48 cores are used" in problem.message
    assert "4 of" not in cores(replace(shaped("general"), quota=64.0))["xft-quota"].message


def test_isolated_cpus_and_an_old_kernel() -> None:
    host = replace(shaped("quad"), isolated=(4, 5), kernel="5.15.0-91-generic", flags=frozenset(SPR.split()))
    found = cores(host)
    assert "CPUs 4-5" in found["xft-isolated"].message
    assert "kernel 5.15.0-91-generic does not let programs use AMX" in found["xft-kernel"].message
    assert "xft-kernel" not in cores(replace(host, kernel="5.16.0"))
    assert "xft-kernel" not in cores(replace(host, flags=frozenset()))


def test_hosts_that_are_alike_are_told_of_once() -> None:
    hosts = {name: replace(shaped("cloud"), hostname=f"vm{name}") for name in "abcdef"}
    found = [problem for problem in host_checks.of_topologies(hosts) if problem.id == "xft-siblings"]
    assert [problem.message.partition(":")[0] for problem in found] == ["a, b, c and 3 more"]


def test_memory_and_ranks_of_a_model() -> None:
    found = {problem.id: problem for problem in of_model({"a": shaped("hbm-snc4")}, Demand(KNOWN["qwen-72b"]))}
    assert found["xft-memory"].severity == "warning"
    assert "what xFT's scripts would choose can't run: qwen-72b in bf16 takes" in found["xft-memory"].message
    assert "of ranks 1, 2, 4, 8, 16, 32, 64 divide them" in found["xft-ranks"].message


def test_a_model_that_no_number_of_ranks_fits_is_an_error() -> None:
    """A doctor that calls a host ready for what the study then refuses is of no use."""
    small = Demand(KNOWN["deepseek-r1"], "fp32")
    found = {problem.id: problem for problem in of_model({"a": shaped("small")}, small)}
    assert found["xft-memory"].severity == "error"
    assert "no number of ranks fits: deepseek-r1 in fp32 takes" in found["xft-memory"].message
    assert "--layers" in found["xft-memory"].mend


def test_recorded_hosts_are_not_asked(tmp_path: Path) -> None:
    file = tmp_path / "host.json"
    file.write_text(json.dumps(told("quad")))
    options = Options(hosts="192.0.2.1,192.0.2.2", topology=str(file), ssh="/nosuch/ssh")
    found = ids(problems(options))
    assert found.keys() >= {"xft-map", "xft-ranks", "xft-memory", "xft-same-name", "xft-recorded"}
    large = replace(options, model="deepseek-r1", dtype="fp32")
    assert ids(problems(large))["xft-memory"] == "error"
    assert ids(problems(replace(large, layers=4)))["xft-memory"] == "note"


def test_options_that_cannot_be() -> None:
    with pytest.raises(UsageError, match="--dtype fp7: is none of"):
        problems(Options(dtype="fp7"))


def test_the_program_that_is_sent_runs_alone(tmp_path: Path) -> None:
    source = Path(check_program.__file__).read_text()
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", source], input='{"node": 0}\n', capture_output=True, text=True, check=True,
        timeout=60, cwd=tmp_path,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert set(found) == {"numactl", "xft", "libraries", "huge_pages"}
    assert found["xft"]["place"] == ""


def test_the_program_never_imports_xft(tmp_path: Path) -> None:
    """Importing it kills the process on a CPU without AVX-512; here it would raise."""
    package = tmp_path / "xfastertransformer"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')\n")
    (package / "libxfastertransformer.so").touch()
    (tmp_path / "xfastertransformer-2.1.2.dist-info").mkdir()
    (tmp_path / "xfastertransformer-2.1.2.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: xfastertransformer\nVersion: 2.1.2\nRequires-Dist: torch<2.8.0,>=2.7.0\n"
    )
    source = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n" + Path(check_program.__file__).read_text().replace(
        "from __future__ import annotations\n", "", 1
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", source], input='{"node": 0}\n', capture_output=True, text=True, check=True, timeout=60
    )
    found = json.loads(done.stdout)["xft"]
    assert (found["version"], found["requires"]) == ("2.1.2", ["torch<2.8.0,>=2.7.0"])
    assert found["files"] == ["libxfastertransformer.so"]
