"""Starts over hosts: real ranks behind a real sshd on two hosts, hit while they run, and the whole command on one of them."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from support.rig import Rig, RigHost

from runners.hosts.host import Host
from runners.launch.direct import Ssh
from runners.launch.reach import Reach
from runners.launch.seat import HostFailure
from runners.runner import EnvironmentProblem
from runners.tcpstore import meeting
from runners.tcpstore.crew import Crew
from runners.tcpstore.figures import Start
from runners.tcpstore.job import Job

pytestmark = [pytest.mark.system, pytest.mark.root]

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "tcpstore"
HOSTS = (Host("hbA"), Host("hbB"))
SOMAXCONN = "/proc/sys/net/core/somaxconn"
SILENT = "nameserver 10.99.0.77\noptions timeout:2 attempts:1\n"
AHEAD = 5000  # seconds that the second host's clock is ahead


def reach(rig: Rig, python: str = sys.executable, silence: float = 15.0) -> Ssh:
    return Ssh(Reach(ssh=rig.ssh, before=rig[0].inside, python=python, silence=silence))


@contextmanager
def crew_on(rig: Rig, python: str = sys.executable) -> Iterator[Crew]:
    crew = Crew.connect(HOSTS, reach(rig), python)
    try:
        crew.load()
        yield crew
    finally:
        crew.close()
        assert left(rig) == []


@pytest.fixture
def behind() -> Iterator[ThreadPoolExecutor]:
    """A thread that measures while the test does something to the hosts."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def left(rig: Rig) -> list[str]:
    return [line for host in rig.hosts for line in host.processes("CLUSTERTUNE_JOB")]


def until(true: Callable[[], object], limit: float = 60.0) -> None:
    deadline = time.monotonic() + limit
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def a_job(**changes: object) -> Job:
    given = {
        "backend": "libuv", "barrier": "keys", "host": "hbA", "start": "server_first", "clients": 9, "processes": 0,
        "rounds": 1, "barriers": 3, "timeout": 60.0,
    }  # fmt: skip
    return Job.of({**given, **changes})


def measured(crew: Crew, job: Job) -> Start:
    found = crew.measure(job, [4, 4], 0)
    assert not isinstance(found, HostFailure), found.failure
    (start,) = found["starts"]  # type: ignore[misc]
    return Start.of(start)  # type: ignore[arg-type]


def ranks(host: RigHost) -> list[int]:
    """The processes of the host's ranks, by its own numbers, in the order of their starts: its worker's children."""
    code = (
        "import os\nfor pid in sorted(map(int, filter(str.isdigit, os.listdir('/proc')))):\n"
        "    try:\n"
        "        if b'CLUSTERTUNE_JOB=' in open(f'/proc/{pid}/environ', 'rb').read():\n"
        "            print(pid, open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[1])\n"
        "    except OSError:\n        pass\n"
    )
    pairs = [tuple(map(int, line.split())) for line in host.run(sys.executable, "-c", code).splitlines()]
    marked = {pid for pid, _ in pairs}
    return [pid for pid, parent in pairs if parent in marked]


@pytest.mark.parametrize("start", ["together", "server_first", "listening"])
def test_ranks_of_two_hosts_join_and_wait_for_each_other(start: str, two_hosts: Rig) -> None:
    with crew_on(two_hosts) as crew:
        for backend in ("libuv", "legacy"):
            found = crew.measure(a_job(start=start, backend=backend, rounds=2), [4, 4], 0)
            assert not isinstance(found, HostFailure), found.failure
            assert [each["libuv"] for each in found["servers"]] == [backend == "libuv"] * len(found["starts"])  # type: ignore[index,arg-type,call-overload,union-attr]
            for each in map(Start.of, found["starts"]):  # type: ignore[arg-type]
                assert each.early == ""
                assert each.creation >= each.middle > 0
                assert each.barrier > 0
                assert each.unsure < 1000
            assert set(found["operations"]) == {"get", "add", "wait", "set"}  # type: ignore[arg-type]
        assert len(ranks(two_hosts[0])) == len(ranks(two_hosts[1])) == 0


@pytest.mark.parametrize("late", [2, 7])
def test_hosts_whose_clocks_differ_are_told_apart(late: int, two_hosts: Rig, tmp_path: Path) -> None:
    """hbB's clock is ahead by more than an hour; a rank of either host that comes late holds up the ranks of both."""
    if subprocess.run(["unshare", "--time", "--fork", "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs a kernel with namespaces of time")
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\n[ "$(hostname)" = hbB ] && exec unshare --time --monotonic {AHEAD} --fork --kill-child '
        f'{sys.executable} "$@"\nexec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    with crew_on(two_hosts, str(python)) as crew:
        quick = measured(crew, a_job())
        assert crew.seats[1].clock.ahead(time.monotonic()) == pytest.approx(AHEAD, abs=0.5)
        assert abs(crew.seats[0].clock.ahead(time.monotonic())) < 0.5
        slow = measured(crew, a_job(late_rank=late, late_seconds=3.0, late_to="join"))
        held = measured(crew, a_job(late_rank=late, late_seconds=3.0, barriers=1))
    assert quick.creation < 1000 * AHEAD
    assert slow.creation >= 3000
    assert held.creation < 1000 * AHEAD
    # The others wait for the late one, and what it costs counts from its coming: all but what is unsure about the clocks.
    assert held.early == ""
    assert held.barrier < 3000 + held.unsure


def test_a_rank_killed_on_the_other_host_is_named_with_it(two_hosts: Rig, behind: ThreadPoolExecutor) -> None:
    job = a_job(port=29555, late_rank=3, late_seconds=60.0)
    with crew_on(two_hosts) as crew:
        future = behind.submit(crew.measure, job, [4, 4], 0)
        until(lambda: len(ranks(two_hosts[1])) == 4)
        watch = (sys.executable, str(DATA / "watch.py"), "hbA", "29555", "barrier/0", "8")
        two_hosts[0].run(*watch, limit=100)
        two_hosts[1].run("kill", "-9", str(ranks(two_hosts[1])[-1]))
        found = future.result(60)
        assert isinstance(found, HostFailure)
        assert found.host.name == "hbB"
        assert found.failure.kind == "crash"
        assert found.failure.reason == "the process of rank 8 was ended by SIGKILL in a barrier"
        assert ranks(two_hosts[0]) == ranks(two_hosts[1]) == []
        measured(crew, a_job())  # and the hosts go on


def test_a_server_killed_is_the_cause_whatever_the_others_say(two_hosts: Rig, behind: ThreadPoolExecutor) -> None:
    with crew_on(two_hosts) as crew:
        future = behind.submit(crew.measure, a_job(port=29555, late_rank=8, late_seconds=60.0), [4, 4], 0)
        until(lambda: len(ranks(two_hosts[1])) == 4)
        two_hosts[0].run(sys.executable, str(DATA / "watch.py"), "hbA", "29555", "barrier/0", "8", limit=100)
        two_hosts[0].run("kill", "-9", str(ranks(two_hosts[0])[0]))
        found = future.result(60)
        assert isinstance(found, HostFailure)
        assert (found.host.name, found.failure.kind) == ("hbA", "crash")
        assert found.failure.reason.startswith("rank 0, the server, was ended by SIGKILL")
        measured(crew, a_job())


def test_a_worker_killed_on_a_host_is_a_failure_that_names_it(two_hosts: Rig, behind: ThreadPoolExecutor) -> None:
    crew = Crew.connect(HOSTS, reach(two_hosts), sys.executable)
    try:
        crew.load()
        future = behind.submit(crew.measure, a_job(late_rank=3, late_seconds=60.0), [4, 4], 0)
        until(lambda: len(ranks(two_hosts[1])) == 4)
        two_hosts[1].run("kill", "-9", two_hosts[1].run("ps", "-o", "ppid=", "-p", str(ranks(two_hosts[1])[0])).strip())
        found = future.result(60)
        assert isinstance(found, HostFailure)
        assert found.failure.kind == "crash"
        assert found.failure.reason.startswith("hbB: its worker was ended by SIGKILL")
        assert not crew.alive
    finally:
        crew.close()
    assert left(two_hosts) == []


def test_a_host_without_torch_and_one_that_is_not_there(two_hosts: Rig, tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')  # without what is installed for it
    bare.chmod(0o755)
    crew = Crew.connect(HOSTS, reach(two_hosts), str(bare))
    with pytest.raises(EnvironmentProblem) as caught:
        crew.load()
    assert "torch does not start" in caught.value.message
    assert "--python PROGRAM" in caught.value.mend
    assert left(two_hosts) == []
    with pytest.raises(EnvironmentProblem) as caught:
        Crew.connect((*HOSTS, Host("hbC")), reach(two_hosts), sys.executable)
    assert "hbC" in caught.value.message
    assert left(two_hosts) == []


def test_a_port_that_others_can_not_reach(two_hosts: Rig) -> None:
    two_hosts[0].run("ip", "route", "add", "unreachable", "10.99.0.77/32")
    crew = Crew.connect(HOSTS, reach(two_hosts), sys.executable)
    try:
        met = meeting.meet(crew, "", 8, 0)
        assert (met.name, met.ip, met.refused, met.problems) == ("hbA", "10.99.0.1", {}, ())
        busy = meeting.meet(crew, "", 8, 22)
        assert busy.problems[0].severity == "error"
        assert busy.problems[0].message.startswith("port 22 can't be had on hbA (Address already in use); ")
    finally:
        crew.close()


# The whole command, on hbA


def tune_command(rig: Rig, *arguments: str) -> list[str]:
    home = rig.folder / "home"
    environment = [f"HOME={home}", f"CLUSTERTUNE_STORAGE={rig.folder}/studies.db", f"PYTHONPATH={ROOT}"]
    return [*rig[0].inside, "env", *environment, sys.executable, "-m", "tuner", *arguments]


def over_hosts(rig: Rig, *more: str) -> tuple[str, ...]:
    return ("--hosts", "hbA,hbB", "--ssh", shlex.join(rig.ssh), *more)


def tune(rig: Rig, *arguments: str, limit: float = 280) -> tuple[int, dict[str, object], str]:
    command = tune_command(rig, *arguments, "--json")
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    assert "Traceback" not in done.stderr
    assert left(rig) == []
    return done.returncode, json.loads(done.stdout), done.stderr


def started(rig: Rig, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(tune_command(rig, *arguments, "--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_tune_over_hosts_answers(two_hosts: Rig) -> None:
    asked = ("--world-size", "8", "--time", "200s", "--start", "server_first,listening", "--barrier", "keys")
    code, answer, _ = tune(two_hosts, "tcpstore", *over_hosts(two_hosts), *asked, "--backend", "libuv", "--weigh", "barrier=5")
    assert code in (0, 3), answer
    evidence, machine = answer["evidence"]["measured"], answer["machine"]  # type: ignore[index]
    assert evidence["hosts"] == ["hbA", "hbB"]
    assert 0 < evidence["clocks_unsure_ms"] < 1000
    assert [(each["name"], each["ranks"]) for each in machine["hosts"]] == [("hbA", 4), ("hbB", 4)]  # type: ignore[index]
    assert machine["master"] == {"name": "hbA", "ip": "10.99.0.1", "loopback": False}  # type: ignore[index]
    metrics = answer["metrics"]
    assert metrics["startup_ms"] > metrics["barrier_ms"] > 0  # type: ignore[index]


@pytest.mark.slow
def test_a_host_that_goes_away_ends_the_run_and_resume_goes_on(two_hosts: Rig) -> None:
    asked = ("--world-size", "6", "--time", "240s", "--start", "listening", "--barrier", "keys", "--backend", "libuv")
    process = started(two_hosts, "tcpstore", *over_hosts(two_hosts), *asked, "--study", "away")
    until(lambda: _measurements(two_hosts) >= 2, 100)
    two_hosts.link(two_hosts[1], up=False)
    out, err = process.communicate(timeout=120)
    assert "Traceback" not in err
    assert process.returncode == 4, out
    error = json.loads(out)["error"]
    assert "hbB" in error["message"]
    assert "tune resume away" in error["mend"]
    assert two_hosts[0].processes("CLUSTERTUNE_JOB") == []
    # Nobody could tell hbB: it finds out by itself.
    until(lambda: two_hosts[1].processes("CLUSTERTUNE_JOB") == [], 60)
    two_hosts.link(two_hosts[1], up=True)
    code, answer, _ = tune(two_hosts, "resume", "away", "--time", "600s")
    assert code in (0, 3), answer


def _measurements(rig: Rig) -> int:
    """How many are in the study so far."""
    import sqlite3

    path = rig.folder / "studies.db"
    if not path.exists():
        return 0
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        try:
            return int(database.execute("SELECT count(*) FROM trials WHERE state = 'COMPLETE'").fetchone()[0])
        except sqlite3.OperationalError:
            return 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_on_any_host_and_backlogs_are_as_they_were(number: int, two_hosts: Rig) -> None:
    two_hosts[0].run("sh", "-c", f"echo 4 > {SOMAXCONN}")
    asked = ("--world-size", "8", "--time", "240s", "--start", "listening", "--barrier", "keys", "--backlog", "raised")
    process = started(two_hosts, "tcpstore", *over_hosts(two_hosts), *asked, "--system")
    until(lambda: two_hosts[0].run("cat", SOMAXCONN).strip() == "4096", 100)
    os.kill(_tuner(two_hosts, process), number)
    out, err = process.communicate(timeout=60)
    if number == signal.SIGINT:
        assert process.returncode == 130, out + err
        assert "Traceback" not in err
    # After a kill the hosts find out by themselves.
    until(lambda: left(two_hosts) == [], 60)
    until(lambda: two_hosts[0].run("cat", SOMAXCONN).strip() == "4", 30)
    assert not list((two_hosts.folder / "home").rglob("tcpstore-backlogs-*"))


def _tuner(rig: Rig, process: subprocess.Popen[str]) -> int:
    """The command itself: nsenter forks it into the host's process space."""
    (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return int(child)


@pytest.mark.slow
def test_a_short_backlog_is_raised_measured_and_put_back(two_hosts: Rig) -> None:
    two_hosts[0].run("sh", "-c", f"echo 4 > {SOMAXCONN}")
    asked = ("--world-size", "24", "--time", "240s", "--start", "listening", "--barrier", "keys", "--backend", "libuv")
    narrowed = (*asked, "--address", "name")
    code, answer, said = tune(two_hosts, "tcpstore", *over_hosts(two_hosts), *narrowed, "--system")
    assert code in (0, 3), answer
    assert {answer["recommended"]["backlog"], answer["baseline"]["backlog"]} <= {"present", "raised"}  # type: ignore[index]
    assert "somaxconn" not in said  # it is measured here, not only advised
    assert two_hosts[0].run("cat", SOMAXCONN).strip() == "4"


def test_doctor_over_hosts_names_what_will_bound_the_job(two_hosts: Rig, tmp_path: Path) -> None:
    code, told, _ = tune(two_hosts, "doctor", "tcpstore", *over_hosts(two_hosts), "--world-size", "8")
    assert (code, told["problems"]) == (0, [])
    wrong = tmp_path / "wrong"
    wrong.write_text("127.0.0.1 localhost\n127.0.1.1 hbA\n10.99.0.2 hbB\n")
    two_hosts[1].run("mount", "--bind", wrong, "/etc/hosts")
    two_hosts[0].run("sh", "-c", f"echo 4 > {SOMAXCONN}")
    code, told, _ = tune(two_hosts, "doctor", "tcpstore", *over_hosts(two_hosts), "--world-size", "8")
    assert code == 4
    problems = {each["id"]: each for each in told["problems"]}  # type: ignore[attr-defined]
    assert problems["loopback"]["message"].startswith("hbA is 127.0.1.1 on hbB: its ranks would look for rank 0 on itself")
    assert problems["backlog"]["message"].startswith("net.core.somaxconn is 4 on hbA and 8 ranks connect at once")
    by_address = ("--world-size", "8", "--master", "10.99.0.1")
    code, told, _ = tune(two_hosts, "doctor", "tcpstore", *over_hosts(two_hosts), *by_address)
    assert (code, [each["id"] for each in told["problems"]]) == (0, ["backlog"])  # type: ignore[attr-defined]
    code, told, _ = tune(two_hosts, "doctor", "tcpstore", *over_hosts(two_hosts), "--world-size", "9000000")
    assert code == 4
    (nofile, *_) = [each for each in told["problems"] if each["id"] == "nofile"]  # type: ignore[attr-defined]
    assert nofile["message"].startswith("on hbA: rank 0 of 9000000 needs 9000032 open files")
    assert "is the largest that fits there" in nofile["mend"]


def test_a_slow_way_back_to_a_name_is_told_with_its_host(two_hosts: Rig, tmp_path: Path) -> None:
    """hbB asks a resolver that never answers for what its /etc/hosts does not hold in torch's form."""
    for name, text in (("nsswitch.conf", "passwd: files\nhosts: files dns\n"), ("resolv.conf", SILENT)):
        (tmp_path / name).write_text(text)
        two_hosts[1].run("mount", "--bind", tmp_path / name, f"/etc/{name}")
    code, told, _ = tune(two_hosts, "doctor", "tcpstore", *over_hosts(two_hosts), "--world-size", "8")
    assert code == 0
    (problem,) = told["problems"]  # type: ignore[misc]
    assert problem["id"] == "reverse"
    assert problem["message"].startswith("on hbB the way back from 10.99.0.1 to a name takes ")
    assert "`::ffff:10.99.0.1 hbA`" in problem["mend"]
    (tmp_path / "mended").write_text((two_hosts.folder / "hosts").read_text() + "::ffff:10.99.0.1 hbA\n")
    two_hosts[1].run("mount", "--bind", tmp_path / "mended", "/etc/hosts")
    code, told, _ = tune(two_hosts, "doctor", "tcpstore", *over_hosts(two_hosts), "--world-size", "8")
    assert (code, told["problems"]) == (0, [])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--hosts", "nowhere.txt"), "there is no such file"),
        (("--hosts", "hbA,hbB", "--ssh", "'"), "a quote is not closed"),
        (("--hosts", "hbA,hbB,hbC", "--world-size", "2"), "3 hosts are named; each holds at least one rank"),
        (("--weigh", "barriers=2"), "is none of creation=W and barrier=W"),
        (("--backlog", "raised"), "the backlog is raised with --system alone"),
    ],
)
def test_wrong_usage_is_one_sentence(options: tuple[str, ...], said: str, two_hosts: Rig) -> None:
    code, answer, _ = tune(two_hosts, "tcpstore", *options)
    assert code == 2
    assert said in answer["error"]["message"]  # type: ignore[index]
