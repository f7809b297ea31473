import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runners.hosts.host import Host
from runners.launch.direct import Local
from runners.launch.job import Finished, Job, Rank
from runners.launch.marks import holders
from runners.launch.reach import Reach
from runners.launch.sweep import sweep
from runners.runner import Failure

pytestmark = pytest.mark.system

HERE = Host("localhost")
# Stays, with a child in a session of its own, when it is asked to leave.
STUBBORN = (
    "import signal, subprocess, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "subprocess.Popen(['sh', '-c', 'trap \"\" TERM; while :; do sleep 1; done'], start_new_session=True)\n"
    "print('up', flush=True)\n"
    "time.sleep(1000)\n"
)


def rank(code: str, *arguments: str, **options: object) -> Rank:
    return Rank(HERE, (sys.executable, "-c", code, *arguments), **options)  # type: ignore[arg-type]


def job(*ranks: Rank, limit: float = 30, **options: object) -> Job:
    return Job(ranks, limit, **options)  # type: ignore[arg-type]


def failure(of: Finished | Failure, kind: str) -> Failure:
    assert isinstance(of, Failure), of
    assert of.kind == kind, of
    return of


def gone(token: str, within: float = 10) -> bool:
    deadline = time.monotonic() + within
    while holders(token) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not holders(token)


def test_each_rank_gets_its_words_its_environment_its_folder_and_its_cpus(tmp_path: Path) -> None:
    folder = tmp_path / "a b é"
    folder.mkdir()
    cpu = min(os.sched_getaffinity(0))
    code = "import os, sys; print(sys.argv[1:], os.environ['X'], os.getcwd(), os.sched_getaffinity(0))"
    words = ("-x", "$HOME; ls", "", "'", "@here@", "line\nend")
    ranks = [rank(code, *words, env={"X": f"{number}; 'y' \"z\" ü"}, cpus=(cpu,)) for number in range(3)]
    done = Local().run(job(*ranks, cwd=str(folder)))
    assert isinstance(done, Finished), done
    for number, ended in enumerate(done.ranks):
        assert ended.stdout == f"{list(words)} {number}; 'y' \"z\" ü {folder} {{{cpu}}}\n"
        assert (ended.rank, ended.host, ended.node) == (number, "localhost", os.uname().nodename)


def test_much_output_comes_whole_and_apart() -> None:
    code = "import sys; sys.stdout.write('o' * 3_000_000); sys.stderr.write('e' * 1_000_000)"
    done = Local().run(job(rank(code), rank("print('small')")))
    assert isinstance(done, Finished), done
    assert done.ranks[0].stdout == "o" * 3_000_000
    assert done.ranks[0].stderr == "e" * 1_000_000
    assert done.ranks[1].stdout == "small\n"


def test_a_rank_that_fails_is_named_and_ends_the_others() -> None:
    a_job = job(rank(STUBBORN), rank("import sys; print('no such device', file=sys.stderr); sys.exit(3)"), grace=0.2)
    failed = failure(Local().run(a_job), "crash")
    assert failed.reason == "rank 1 on localhost ended with status 3: no such device"
    assert "no such device" in failed.log
    assert failed.seconds < 20
    assert not holders(a_job.token)


def test_a_signal_is_named() -> None:
    failed = failure(Local().run(job(rank("import os; os.kill(os.getpid(), 11)"))), "crash")
    assert "SIGSEGV" in failed.reason


def test_over_the_limit_nothing_is_left_of_those_who_will_not_leave() -> None:
    a_job = job(rank(STUBBORN), rank(STUBBORN), limit=1.5, grace=0.3)
    failed = failure(Local().run(a_job), "timeout")
    assert failed.seconds < 12
    assert not holders(a_job.token)


def test_children_without_the_jobs_mark_are_ended_with_who_started_them(tmp_path: Path) -> None:
    # As programs are that set a title of their own over their environment.
    told = tmp_path / "pid"
    code = (
        "import pathlib, subprocess, sys, time\n"
        "child = subprocess.Popen(['env', '-i', '/bin/sleep', '1000'], start_new_session=True)\n"
        "pathlib.Path(sys.argv[1]).write_text(str(child.pid))\n"
        "time.sleep(1000)\n"
    )
    failure(Local().run(job(rank(code, str(told)), limit=3)), "timeout")
    child, deadline = Path(f"/proc/{told.read_text()}"), time.monotonic() + 10
    while child.exists() and time.monotonic() < deadline:  # until it is buried
        time.sleep(0.02)
    assert not child.exists()


def test_what_a_good_rank_left_in_the_background_is_ended() -> None:
    code = "import subprocess; subprocess.Popen(['sleep', '600'], start_new_session=True)"
    a_job = job(rank(code))
    assert isinstance(Local().run(a_job), Finished)
    assert not holders(a_job.token)


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        (Rank(HERE, ("no-such-program",)), "environment", "its program can't be started"),
        (Rank(HERE, ("a\0b",)), "environment", "its program can't be started"),
        (Rank(HERE, ("true",), cpus=(4000,)), "infeasible", "CPUs"),
        (Rank(HERE, ("true",), cpus=()), "infeasible", "CPUs"),
    ],
)
def test_what_can_not_start(given: Rank, kind: str, words: str) -> None:
    failed = failure(Local().run(job(given)), kind)
    assert words in failed.reason
    assert "rank 0 on localhost" in failed.reason


def test_a_folder_that_is_not_there() -> None:
    failed = failure(Local().run(job(Rank(HERE, ("true",)), cwd="/no/such/folder")), "environment")
    assert "its folder can't be used" in failed.reason


def test_a_warm_job_answers_again_and_again() -> None:
    code = "import sys\nfor line in sys.stdin: print(line.strip() * 2, flush=True)"
    with Local().start(job(rank(code), rank("import sys; sys.stdin.read()"))) as running:
        assert running.ask("a", 20) == "aa"
        assert running.ask("b" * 100_000, 20) == "b" * 200_000


def test_a_warm_job_that_is_left_alone_stays_alive() -> None:
    code = "import sys\nfor line in sys.stdin: print(line.strip(), flush=True)"
    with Local(Reach(silence=1.0)).start(job(rank(code))) as running:
        assert running.ask("a", 20) == "a"
        time.sleep(3)
        assert running.ask("b", 20) == "b"


def test_no_answer_ends_the_job() -> None:
    a_job = job(rank(STUBBORN), grace=0.2)
    with Local().start(a_job) as running:
        running.ask("hello", 20)  # "up"
        failed = running.ask("still there?", 0.5)
        assert isinstance(failed, Failure)
        assert failed.kind == "timeout"
    assert not holders(a_job.token)


def test_a_warm_job_that_dies_says_so() -> None:
    with Local().start(job(rank("import sys; sys.stdin.readline(); sys.exit('broken')"))) as running:
        failed = running.ask("x", 20)
        assert isinstance(failed, Failure)
        assert failed.kind == "crash"
        assert "broken" in failed.reason


def test_an_interrupt_ends_everything() -> None:
    a_job = job(rank(STUBBORN), grace=0.2)

    def interrupt() -> None:
        while not holders(a_job.token):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        Local().run(a_job)
    assert not holders(a_job.token)


def launcher_process(token: str, silence: float) -> subprocess.Popen[bytes]:
    """Another process that runs a job and can be ended like any."""
    code = (
        "import sys; from runners.launch.direct import Local; from runners.launch.job import Job, Rank\n"
        "from runners.launch.reach import Reach; from runners.hosts.host import Host\n"
        f"rank = Rank(Host('localhost'), (sys.executable, '-c', {STUBBORN!r}))\n"
        f"Local(Reach(silence={silence})).run(Job((rank, rank), 600, grace=0.2, token={token!r}))\n"
    )
    root = Path(__file__).resolve().parents[3]
    process = subprocess.Popen([sys.executable, "-c", code], cwd=root)
    deadline = time.monotonic() + 20
    while len(holders(token)) < 4 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(holders(token)) >= 4
    return process


def test_a_launcher_killed_without_a_word_leaves_nothing() -> None:
    token = "a1" * 12
    process = launcher_process(token, 15)
    process.kill()
    process.wait()
    assert gone(token)


def test_a_launcher_that_hangs_loses_its_ranks() -> None:
    token = "a2" * 12
    process = launcher_process(token, 1.0)
    try:
        process.send_signal(signal.SIGSTOP)  # its connections stay open, it just says nothing any more
        assert gone(token, 20)
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def stray() -> Callable[[str], subprocess.Popen[bytes]]:
    return lambda mark: subprocess.Popen(["sleep", "600"], env={"CLUSTERTUNE_JOB": mark}, start_new_session=True)


def test_a_sweep_ends_strays_of_the_job_and_of_no_other(stray: Callable[[str], subprocess.Popen[bytes]]) -> None:
    mine, rank_of_mine, other = stray("b" * 24), stray("b" * 24 + ".3"), stray("b" * 24 + "b")
    try:
        assert sweep(Reach(), (HERE,), "b" * 24) == {HERE: []}
        assert mine.wait(5) == rank_of_mine.wait(5) == -signal.SIGKILL
        assert other.poll() is None
    finally:
        for process in (mine, rank_of_mine, other):
            process.kill()
            process.wait()


def test_a_host_that_can_not_be_reached_is_said_to_be() -> None:
    where = Host("no-such-host.invalid")
    left = sweep(Reach(ssh=("no-such-ssh",)), (where,), "c" * 24)
    assert isinstance(left[where], str)
    failed = failure(Local(Reach(before=("no-such-wrapper",))).run(job(rank("pass"))), "environment")
    assert "no-such-wrapper" in failed.reason
