"""`tune oneccl` with real ranks on this host: right results, proven algorithms, failures with reasons, nothing left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.processes import gone, holders

from runners.launch.marks import MARK
from runners.oneccl import benchmark
from runners.oneccl.checks import of_setup
from runners.oneccl.options import Options
from runners.oneccl.proof import prove
from runners.oneccl.runner import CclRunner
from runners.oneccl.seen import SELECTIONS, selected
from runners.oneccl.setup import Setup
from runners.oneccl.table import layout
from runners.oneccl.warm import Step, Warm
from runners.runner import Failure, Measurement, UsageError
from spaces.oneccl import SPACE
from spaces.oneccl import environment as environment_of

pytestmark = pytest.mark.system
BASE = SPACE.default
PATIENCE = 60.0


def setup(**options: Any) -> Setup:
    return Setup.of(Options(**options))


def warm(of: Setup, env: dict[str, str] | None = None) -> Warm:
    job = of.starter.start(env or {}, PATIENCE)
    assert isinstance(job, Warm), job
    return job


@pytest.mark.parametrize(
    ("collective", "dtype"),
    [("allreduce", "bfloat16"), ("allgather", "int8"), ("bcast", "float32"), ("reduce", "float64"),
     ("reduce_scatter", "int32"), ("alltoall", "float16")],
)  # fmt: skip
def test_results_are_right_for_every_collective(collective: str, dtype: str) -> None:
    job = warm(setup(collective=collective, dtype=dtype, sizes="1K"))
    try:
        answers = job.calls([Step(count, 7, 3, 4) for count in (2, 61, 5000)], 0.001, PATIENCE)
    finally:
        job.close()
    assert not isinstance(answers, Failure), answers
    assert all(len(answer["rounds"]) >= 1 for answer in answers), answers
    assert all(time > 0 for answer in answers for times in answer["rounds"] for time in times)


@pytest.fixture(scope="module")
def runner() -> Iterator[CclRunner]:
    with CclRunner(setup(sizes="1K,64K"), SPACE) as made:
        made.prepare()
        yield made


def measured(runner: CclRunner, **changes: Any) -> Measurement:
    outcome = runner.measure({**BASE, **changes}, PATIENCE)
    assert isinstance(outcome, Measurement), outcome
    return outcome


def test_one_job_times_many_algorithms_and_says_what_ran(runner: CclRunner) -> None:
    plain = measured(runner)
    jobs = len(runner._setup.jobs._kept)
    other = measured(runner, algorithm_small="recursive_doubling", algorithm_medium="nreduce")
    assert len(runner._setup.jobs._kept) == jobs, "no new job for another algorithm"
    assert other.evidence["algorithms"] == {"1K": "recursive_doubling", "64K": "nreduce"}
    assert set(plain.metrics) == {"time_us", "us_1K", "gbs_1K", "us_64K", "gbs_64K"}
    assert plain.metrics["time_us"] == pytest.approx(plain.metrics["us_1K"] + plain.metrics["us_64K"])
    assert plain.evidence["timed_bytes"] == {}
    timed = other.evidence["timed_bytes"]
    assert isinstance(timed, dict)
    assert 1024 - 40 < timed["1K"] < 1024
    assert len(plain.samples) >= 3


def test_settings_arrive_and_the_transport_that_was_used_is_told(runner: CclRunner) -> None:
    found = measured(runner, transport="ofi", provider="tcp", worker_offload="0")
    effective = found.evidence["effective"]
    assert isinstance(effective, dict)
    assert effective["CCL_ATL_TRANSPORT"] == "ofi"
    assert effective["CCL_WORKER_OFFLOAD"] == "0"
    assert "tcp" in str(found.evidence["provider"])


def test_what_cannot_run_is_infeasible_with_its_own_words(runner: CclRunner) -> None:
    for changes, word in (
        ({"transport": "ofi", "algorithm_small": "direct"}, "needs the transport mpi"),
        ({"worker_count": 4}, "4 workers"),
        ({"provider": "opx", "transport": "ofi"}, "opx"),
    ):
        if changes.get("worker_count") and len(os.sched_getaffinity(0)) >= 8:
            continue
        outcome = runner.measure({**BASE, **changes}, PATIENCE)
        assert isinstance(outcome, Failure)
        assert outcome.kind == "infeasible", outcome
        assert word in outcome.reason


def test_a_replaced_algorithm_is_found_out() -> None:
    """By ofi there is no direct: oneCCL takes another one and says so at debug level only."""
    of = setup(sizes="1K")
    entries = layout((1024,), {1024: ("direct", "ring")}, 4)
    proof = prove(of.starter, {"CCL_ATL_TRANSPORT": "ofi"}, entries, PATIENCE)
    assert not isinstance(proof, Failure), proof
    assert proof.against([(1024, "ring")]) == ""
    assert "where direct is set" in proof.against([(1024, "direct")])


class Deadly:
    """Jobs of which a real rank dies when calls of ``count`` elements are asked for, the first ``times`` times."""

    def __init__(self, count: int, times: int) -> None:
        self.count, self.times = count, times
        self.tokens: set[str] = set()
        self._calls = Warm.calls

    def calls(self, job: Warm, steps: Sequence[Step], seconds: float, limit: float) -> list[dict[str, Any]] | Failure:
        if self.times > 0 and any(step.count == self.count for step in steps):
            self.times -= 1
            self.tokens.add(token := job._running._job.token)
            os.kill(max(int(line.split()[0]) for line in holders(f"{MARK}={token}.1") if "python" in line), signal.SIGBUS)
        return self._calls(job, steps, seconds, limit)


@pytest.mark.parametrize(("deaths", "refused"), [(99, True), (2, False)])
def test_an_algorithm_that_ends_its_job_takes_no_other_along(
    monkeypatch: pytest.MonkeyPatch, deaths: int, refused: bool
) -> None:
    """A rank that dies once in a job with all algorithms and once by itself may have had bad luck: that is no refusal."""
    of = setup(sizes="1K")
    entries = layout((1024,), {1024: ("ring", "nreduce", "recursive_doubling")}, 4)
    deadly = Deadly(entries[1024, "nreduce"] // 4, deaths)
    monkeypatch.setattr(Warm, "calls", lambda job, *rest: deadly.calls(job, *rest))
    proof = prove(of.starter, {}, entries, PATIENCE)
    assert not isinstance(proof, Failure), proof
    for algorithm in ("default", "ring", "recursive_doubling"):
        assert proof.against([(1024, algorithm)]) == "", algorithm
    said = proof.against([(1024, "nreduce")])
    assert ("nreduce fails for 1024 bytes here: the job ends with it: a rank died of SIGBUS" in said) is refused, said
    assert len(deadly.tokens) > 1, "it was tried by itself, in a job of its own"
    assert all(gone(f"{MARK}={token}") for token in deadly.tokens)


def test_what_is_emitted_selects_what_was_measured(runner: CclRunner) -> None:
    config = {**BASE, "algorithm_small": "nreduce", "algorithm_medium": "recursive_doubling"}
    found = measured(runner, **config)
    emitted = environment_of(config)
    assert emitted == {"CCL_ALLREDUCE": "nreduce:0-16384;recursive_doubling:16385-1048576"}
    job = warm(runner._setup, {**emitted, "CCL_LOG_LEVEL": "debug"})
    try:
        assert not isinstance(job.calls([Step(256, 1, 1, 1), Step(16384, 1, 1, 1)], 1e-6, PATIENCE), Failure)
        log = job.look(SELECTIONS)
    finally:
        job.close()
    assert isinstance(log, str)
    ran = selected(log, "allreduce")
    assert {"1K": ran[256], "64K": ran[16384]} == found.evidence["algorithms"]


def test_a_killed_rank_is_a_crash_and_the_next_measurement_works(runner: CclRunner) -> None:
    measured(runner)
    (job,) = [kept for kept in runner._setup.jobs._kept.values() if set(kept.env) == {"CCL_ALLREDUCE"}]
    token = job._running._job.token
    ranks = [int(line.split()[0]) for line in holders(f"{MARK}={token}.1") if "python" in line]
    os.kill(max(ranks), signal.SIGKILL)
    outcome = runner.measure(BASE, PATIENCE)
    assert isinstance(outcome, Failure)
    assert outcome.kind == "crash", outcome
    assert gone(f"{MARK}={token}")
    measured(runner)


def test_shells_own_variables_stay_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("CCL_YIELD", "sleep"), ("I_MPI_PIN", "0"), ("FI_PROVIDER", "foo"), ("CCL_ATL_TRANSPORT", "ofi")):
        monkeypatch.setenv(name, value)
    of = setup(sizes="1K")
    assert of.strays == ("CCL_ATL_TRANSPORT", "CCL_YIELD", "FI_PROVIDER", "I_MPI_PIN")
    job = warm(of)
    job.close()
    assert job.seen.values["CCL_YIELD"] == "pause"
    assert job.seen.transport == "mpi"
    assert all(len(cpus) < len(os.sched_getaffinity(0)) for cpus in job.cpus) or len(os.sched_getaffinity(0)) == 1


def test_cores_are_those_asked_for() -> None:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("needs two cores")
    of = setup(sizes="1K", pin=f"{cores[1]},{cores[0]}")
    try:
        assert of.learned.cpus == ((cores[1],), (cores[0],))
    finally:
        of.close()


def test_no_memory_for_the_buffers_is_said_before_any_job() -> None:
    of = setup(sizes="1G", ppn=64)
    assert [each.id for each in of_setup(of) if each.severity == "error"] == ["oneccl-memory"]
    assert "learned" not in vars(of), "nothing was started"


# -- the whole command -------------------------------------------------------------------------------------------------

_PINNED = {"transport": "default", "provider": "default", "fabrics": "default", "worker-offload": "default",
           "worker-count": "1", "yield": "pause", "spin-count": "default", "chunk-count": "1", "fusion": "false",
           "pinning": "default"}  # fmt: skip
SMALL = ("--sizes", "1K", "--algorithm-small", "default,direct,recursive_doubling",
         *(word for name, value in _PINNED.items() for word in (f"--{name}", value)))  # fmt: skip


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "CLUSTERTUNE_STORAGE": str(folder / "studies.db"), "COLUMNS": "200", "CT_TEST": str(folder)}


def tune(folder: Path, *arguments: str, limit: float = 240) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tuner", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment(folder), timeout=limit)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def test_the_command_answers_and_its_files_say_so(tmp_path: Path) -> None:
    done = tune(tmp_path, "oneccl", *SMALL, "--time", "4m", "--trials", "24", "--study", "one", "--json")
    answer = json.loads(done.stdout)
    assert done.returncode in (0, 3), done.stderr
    assert gone(f"CT_TEST={tmp_path}")
    assert answer["target"] == "oneccl"
    assert answer["recommended"]["algorithm_small"] in ("default", "direct", "recursive_doubling")
    assert answer["machine"]["oneccl"].startswith("2022")
    assert answer["machine"]["workload"] == {"1K": 1}
    exported = tune(tmp_path, "export", "one", "-o", str(tmp_path / "out"))
    assert exported.returncode == 0, exported.stderr
    if done.returncode == 0:
        verified = tune(tmp_path, "verify", "one", "--json")
        assert verified.returncode in (0, 3), verified.stderr


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_however_it_ends_nothing_is_left(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "tuner", "oneccl", *SMALL, "--time", "5m", "--study", "cut", "--events"]
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


def test_a_python_that_says_nothing_is_named_and_does_not_hold_up_ctrl_c(tmp_path: Path) -> None:
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nexec sleep 1000\n")
    silent.chmod(0o755)
    command = [sys.executable, "-m", "tuner", "oneccl", "--python", str(silent), "--study", "never"]
    begun = time.monotonic()
    with subprocess.Popen(command, env=environment(tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as run:
        while not any("sleep" in line for line in holders(f"CT_TEST={tmp_path}")):
            assert run.poll() is None, run.communicate()
            time.sleep(0.1)
        asked = time.monotonic()
        run.send_signal(signal.SIGTERM)
        said = run.communicate(timeout=PATIENCE)[1]
    assert run.returncode == 130
    assert b"tune: stopped" in said
    assert time.monotonic() - asked < 45, f"the limit of a host's answer is 90 s; it was asked {asked - begun:.0f} s before"
    assert gone(f"CT_TEST={tmp_path}"), holders(f"CT_TEST={tmp_path}")


def test_a_program_here_is_not_taken_for_one_of_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "dir"  # a name that the PATH has too
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    assert benchmark.find(Options(benchmark="./dir"), None) == str(program)
    program.chmod(0o644)
    with pytest.raises(UsageError, match=r"--benchmark \./dir: there is no such program"):
        benchmark.find(Options(benchmark="./dir"), None)


def test_an_ssh_that_is_not_there_is_named() -> None:
    with pytest.raises(UsageError, match="--ssh /no/such/ssh -4: there is no program /no/such/ssh"):
        setup(hosts="node1.invalid,node2.invalid", ssh="/no/such/ssh -4")


def test_a_run_that_is_stopped_for_longer_than_hosts_wait_goes_on(tmp_path: Path) -> None:
    """Ctrl-Z and fg, or a laptop that sleeps: ranks end meanwhile, which is neither a setting's fault nor the machine's."""
    command = [sys.executable, "-m", "tuner", "oneccl", *SMALL, "--time", "5m", "--trials", "24", "--study", "held", "--json"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, "--events"], env=environment(tmp_path), **pipes) as run:
        assert run.stderr is not None
        for line in run.stderr:
            if '"measured"' in line:
                break
        run.send_signal(signal.SIGSTOP)
        time.sleep(20)
        run.send_signal(signal.SIGCONT)
        told, said = run.communicate(timeout=280)[::-1]
    assert run.returncode in (0, 3), (told, said)
    failures = [event for event in map(json.loads, told.splitlines()) if event.get("failure")]
    assert all(event["failure"] != "environment" for event in failures), failures
    assert gone(f"CT_TEST={tmp_path}"), holders(f"CT_TEST={tmp_path}")


def test_a_study_that_is_being_run_is_not_resumed_beside_it(tmp_path: Path) -> None:
    """The second would close what the first is measuring."""
    command = [sys.executable, "-m", "tuner", "oneccl", *SMALL, "--time", "5m", "--study", "one", "--events"]
    pipes: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment(tmp_path), **pipes) as run:
        assert run.stderr is not None
        for line in run.stderr:
            if '"measured"' in line:
                break
        run.send_signal(signal.SIGSTOP)  # or it may have ended by then
        beside = tune(tmp_path, "resume", "one")
        run.send_signal(signal.SIGCONT)
        assert beside.returncode == 2, beside.stderr
        assert "study one is being run by another process" in beside.stderr
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=PATIENCE)
    assert run.returncode == 130
