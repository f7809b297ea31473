"""Cases of users who ran xFT or a tuner for it: what they had, and the right answer. Those of layouts are beside it."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support.rig import Rig
from support.sysfs import ICX, SPR, ZEN3, topology
from support.sysfs import Host as Shape

from runners.hosts.host import Host
from runners.launch.job import Finished, Job, Rank
from runners.launch.marks import MARK
from runners.runner import EnvironmentProblem, Failure, Measurement
from runners.xft.choose import choose
from runners.xft.engines import oneshot
from runners.xft.goal import Goal
from runners.xft.model_files import find
from runners.xft.options import Options
from runners.xft.place import Place
from runners.xft.results import Figures, parse
from runners.xft.runner import XftRunner
from spaces.xft import SPACE

PATIENCE = 60.0
# A rank knows its number by its launcher's variable, or by ours where there is no launcher.
WHO = "import os,sys,time\nrank=int(os.environ.get('PMI_RANK',os.environ.get('OMPI_COMM_WORLD_RANK','0')))\n"


def program(folder: Path, text: str) -> str:
    file = folder / "program.py"
    file.write_text(WHO + text)
    return shlex.join([sys.executable, str(file)])


def mpirun() -> str:
    beside = Path(sys.prefix) / "bin" / "mpirun"
    if not beside.exists():
        pytest.skip("needs Intel MPI in this environment (pip install 'clustertune[oneccl]')")
    return str(beside)


def gone(word: str) -> bool:
    """Whether no process has ``word`` among its own words, once they have had time to go."""
    deadline = time.monotonic() + 20
    while any(word.encode() in words for words in command_lines()):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def command_lines() -> list[bytes]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                found.append((folder / "cmdline").read_bytes())
            except OSError:
                continue
    return found


@pytest.mark.system
def test_case_omp_one(tmp_path: Path) -> None:
    """A launcher that sets OMP_NUM_THREADS=1: each rank's own count is set, held, and seen."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("needs two cores")
    launcher = tmp_path / "mpirun"
    launcher.write_text(f'#!/bin/sh\n[ "$1" = --version ] || export OMP_NUM_THREADS=1\nexec {shlex.quote(mpirun())} "$@"\n')
    launcher.chmod(0o755)
    with XftRunner.create(Options(mpi=str(launcher), output_tokens=4, engine="torch"), SPACE) as runner:
        says = (sys.executable, "-c", "import os; print(os.environ.get('OMP_NUM_THREADS'))")
        bare = runner.place.starter().run(Job((Rank(Host("localhost"), says),), PATIENCE))
        assert isinstance(bare, Finished), bare
        assert bare.ranks[0].stdout.strip() == "1", "the launcher does what the case says"
        found = runner.measure({**SPACE.default, "ranks": 1, "threads": 2}, PATIENCE)
    assert isinstance(found, Measurement), found
    (rank,) = found.evidence["ranks"]  # type: ignore[misc]
    assert rank["num_threads"] == 2
    assert rank["cpus"] == f"{cores[0]}-{cores[1]}"


@pytest.mark.system
@pytest.mark.parametrize("status", [1, 0])
def test_case_rank0_dies_here(tmp_path: Path, status: int) -> None:
    """With status 1 it is seen at once; where rank 0 just leaves (benchmark.py's SystemExit) the limit ends the others."""
    text = f"time.sleep(0.5)\nif rank == 0: sys.exit({status})\ntime.sleep(600)\n"
    options = Options(engine="command", program=program(tmp_path, text), mpi=mpirun())
    with XftRunner.create(options, SPACE) as runner:
        config = {**SPACE.default, "ranks": min(2, len(os.sched_getaffinity(0)))}
        if config["ranks"] < 2:
            pytest.skip("needs two cores")
        begun = time.monotonic()
        found = runner.measure(config, 8.0)
    assert isinstance(found, Failure)
    assert found.kind == ("crash" if status else "timeout"), found
    assert time.monotonic() - begun < 30
    if status:
        assert "rank 0" in found.reason
        assert "status 1" in found.reason
    assert gone(str(tmp_path))


@pytest.mark.system
@pytest.mark.root
def test_case_rank0_dies_on_two_hosts(two_hosts: Rig, tmp_path: Path) -> None:
    text = "time.sleep(0.5)\nif rank == 0: sys.exit(1)\ntime.sleep(600)\n"
    options = Options(
        hosts=",".join(two_hosts.names), engine="command", program=program(tmp_path, text), mpi=mpirun(),
        ssh=shlex.join(two_hosts.ssh), python=sys.executable,
    )  # fmt: skip
    with XftRunner(options, SPACE, before=two_hosts[0].inside) as runner:
        begun = time.monotonic()
        found = runner.measure({**SPACE.default, "ranks": 1, "threads": 1}, 40.0)
    assert isinstance(found, Failure)
    assert found.kind == "crash", found
    assert "rank 0 on hbA ended with status 1" in found.reason
    assert time.monotonic() - begun < 40
    deadline = time.monotonic() + 20
    while (left := [line for host in two_hosts.hosts for line in host.processes(MARK)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == []


def test_case_old_branch_output(tmp_path: Path) -> None:
    """Seconds where today's benchmark.py has milliseconds."""
    found = parse(
        "=" * 50 + "m Final Performance" + "=" * 50 + "\nInference Latency:\t1.25 s\nNext token Latency:\t40.00 ms\n"
    )
    assert isinstance(found, Figures)
    assert found.total_ms == 1250.0


@pytest.mark.system
def test_case_old_branch_output_through_a_program(tmp_path: Path) -> None:
    block = "Inference Latency:\\t1.25 s\\nFirst token Avg Latency:\\t90.00 ms\\nNext token Avg Latency:\\t37.42 ms\\n"
    text = f"print('=' * 50 + 'm Final Performance' + '=' * 50)\nprint('{block}')\n"
    options = Options(engine="command", program=program(tmp_path, text), launcher="ssh")
    with XftRunner.create(options, SPACE) as runner:
        assert runner.engine_reason == "--engine names it"
        found = runner.measure({**SPACE.default, "ranks": 1, "threads": 1}, PATIENCE)
    assert isinstance(found, Measurement), found
    assert found.metrics["next_token_ms"] == 37.42
    assert found.metrics["first_token_ms"] == 90.0


def place(tmp_path: Path, flags: str, engines: dict[str, str], **options: Any) -> Place:
    """A place whose only host tells these CPU flags and packages."""
    made = Place.of(Options(**{"launcher": "ssh", **options}))
    told = {"engines": engines, "libraries": {}, "there": [], "network": {"rdma": {}, "shm": 1 << 30}}
    made.__dict__["told"] = {"localhost": told}
    made.__dict__["topologies"] = {"localhost": topology(tmp_path, Shape((2,), 1, flags=flags))}
    return made


def test_case_no_avx512(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """xFT's library kills the process that loads it: it is refused before anything starts, and auto takes another engine."""
    monkeypatch.setattr(oneshot, "run", lambda *_: pytest.fail("nothing may be started"))
    monkeypatch.setattr(shutil, "which", lambda *_: None)
    checkout = tmp_path / "checkout" / "benchmark"
    checkout.mkdir(parents=True)
    (checkout / "benchmark.py").write_text("raise SystemExit('started')\n")
    options = {"engine": "xft", "model": "llama-2-7b", "benchmark": str(checkout.parent)}
    have = {"xfastertransformer": "2.1.2", "torch": "2.7.0"}
    old = place(tmp_path / "old", ZEN3, have, **options)
    with pytest.raises(EnvironmentProblem) as caught:
        choose(old.options, old, find("llama-2-7b"), Goal.of(old.options))
    assert "avx512f" in caught.value.message
    assert "Sapphire Rapids" in caught.value.message
    assert "--engine torch" in caught.value.mend
    assert "xfastertransformer" not in sys.modules
    auto = place(tmp_path / "auto", ZEN3, have, model="tiny")
    chosen = choose(auto.options, auto, find("tiny"), Goal.of(auto.options))
    assert chosen.engine.name == "torch"
    assert chosen.engine.stand_in
    assert "avx512f" in chosen.why
    middle = place(tmp_path / "middle", ICX, have, **options)
    with pytest.raises(EnvironmentProblem, match="amx_tile"):
        choose(middle.options, middle, find("llama-2-7b"), Goal.of(middle.options))


def test_auto_says_what_is_missing_for_xft(tmp_path: Path) -> None:
    none = place(tmp_path / "none", SPR, {"torch": "2.13"})
    assert choose(none.options, none, find("tiny"), Goal.of(none.options)).why == "there is no xfastertransformer here"
    there = place(tmp_path / "there", SPR, {"xfastertransformer": "2.1.2", "torch": "2.7"})
    assert "benchmark.py" in choose(there.options, there, find("tiny"), Goal.of(there.options)).why
