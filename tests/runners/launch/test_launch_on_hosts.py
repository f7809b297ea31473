"""Jobs across hosts over a real sshd: two hosts in network, process and name spaces of their own."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.mpis import KINDS, folder, library
from support.rig import Rig, RigHost

from runners.hosts.host import Host
from runners.launch.direct import Ssh
from runners.launch.job import Finished, Job, Launcher, Rank
from runners.launch.mpirun import Mpirun, mpirun
from runners.launch.reach import Reach
from runners.runner import Failure

pytestmark = [pytest.mark.system, pytest.mark.root]

A, B = Host("hbA"), Host("hbB")
LAUNCHERS = ("ssh", *KINDS)
STUBBORN = (
    "import signal, subprocess, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "subprocess.Popen(['sh', '-c', 'trap \"\" TERM; while :; do sleep 1; done'], start_new_session=True)\n"
    "time.sleep(1000)\n"
)
WHO = (
    "import os, sys; print(os.uname().nodename, sys.argv[1:], os.environ['X'], os.environ['EVERY'], os.sched_getaffinity(0),"
    " os.environ['CLUSTERTUNE_JOB'], file=sys.stderr if len(sys.argv) > 3 else sys.stdout)"
)


def launcher(kind: str, rig: Rig, silence: float = 15.0) -> Launcher:
    reach = Reach(ssh=rig.ssh, before=rig[0].inside, python=sys.executable, silence=silence)
    if kind == "ssh":
        return Ssh(reach)
    found = mpirun((str(folder(kind) / "bin" / "mpirun"),), reach)
    assert isinstance(found, Mpirun), found
    assert found.mpi.kind == kind
    return found


def job(*ranks: tuple[Host, str], limit: float = 60, **options: object) -> Job:
    return Job(tuple(Rank(host, (sys.executable, "-c", code)) for host, code in ranks), limit, **options)  # type: ignore[arg-type]


def failure(of: Finished | Failure, kind: str) -> Failure:
    assert isinstance(of, Failure), of
    assert of.kind == kind, of
    return of


def left(rig: Rig, token: str) -> list[str]:
    return [line for host in rig.hosts for line in host.processes(token)]


def clean(host: RigHost, token: str, within: float) -> bool:
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        if not host.processes(token):
            return True
        time.sleep(0.2)
    return False


def when_up(rig: Rig, a_job: Job, act: Callable[[], None]) -> threading.Thread:
    """Acts as soon as the job's ranks run on both hosts; fails the test, by its thread, when they never do."""

    def wait_and_act() -> None:
        deadline = time.monotonic() + 40
        while not all(any("import signal" in line for line in host.processes(a_job.token)) for host in rig.hosts):
            if time.monotonic() > deadline:
                act()
                raise AssertionError(f"the job's ranks were never up on both hosts: {left(rig, a_job.token)}")
            time.sleep(0.1)
        act()

    thread = threading.Thread(target=wait_and_act)
    thread.start()
    return thread


@pytest.mark.parametrize("kind", LAUNCHERS)
def test_ranks_run_where_they_shall_with_all_that_is_theirs(kind: str, two_hosts: Rig) -> None:
    words = ("a b", "$HOME;'q'\"\\", "-x", "")
    value = "ring:0-1;direct:2-max, 'z' \"q\" $HOME `x` \\ %t"
    places = ((A, None), (B, (1,)), (A, (0,)), (B, None))
    ranks = tuple(
        Rank(host, (sys.executable, "-c", WHO, *words[: 2 + number % 2 * 2]), {"X": f"{number} {value}", "EVERY": "1"}, cpus)
        for number, (host, cpus) in enumerate(places)
    )
    a_job = Job(ranks, 60)
    done = launcher(kind, two_hosts).run(a_job)
    assert isinstance(done, Finished), done
    for number, ((host, cpus), ended) in enumerate(zip(places, done.ranks, strict=True)):
        told = ended.stderr if number % 2 else ended.stdout
        given = list(words[: 2 + number % 2 * 2])
        assert told.startswith(f"{host.name} {given} {number} {value} 1 {{")
        assert told.endswith(f" {a_job.token}.{number}\n")
        assert cpus is None or f"{set(cpus)}" in told
        assert (ended.rank, ended.host, ended.node) == (number, host.name, host.name)
    assert left(two_hosts, a_job.token) == []


@pytest.mark.parametrize("kind", LAUNCHERS)
def test_much_output_of_all_ranks_at_once_comes_whole(kind: str, two_hosts: Rig) -> None:
    code = "import sys\nfor i in range(4000): print('%s %d' % (sys.argv[1], i) * 9)"
    ranks = tuple(Rank(host, (sys.executable, "-c", code, f"rank{number}")) for number, host in enumerate((A, B, A, B)))
    done = launcher(kind, two_hosts).run(Job(ranks, 60))
    assert isinstance(done, Finished), done
    for ended in done.ranks:
        assert ended.stdout == "".join(f"rank{ended.rank} {i}" * 9 + "\n" for i in range(4000))


@pytest.mark.parametrize("kind", KINDS)
def test_mpi_itself_works_between_the_hosts(kind: str, two_hosts: Rig) -> None:
    code = (
        "import ctypes, sys\n"
        "mpi = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)\n"
        "assert mpi.MPI_Init(None, None) == 0\n"
        "print('up')\n"
        "mpi.MPI_Finalize()\n"
    )
    where = {"LD_LIBRARY_PATH": str(folder(kind) / "lib"), "FI_PROVIDER_PATH": str(folder(kind) / "lib")}
    ranks = tuple(Rank(host, (sys.executable, "-c", code, str(library(kind))), where) for host in (A, B))
    done = launcher(kind, two_hosts).run(Job(ranks, 60))
    assert isinstance(done, Finished), done
    assert [ended.stdout for ended in done.ranks] == ["up\n", "up\n"]


@pytest.mark.parametrize("kind", LAUNCHERS)
def test_a_dead_rank_is_named_with_its_host_and_the_others_end(kind: str, two_hosts: Rig) -> None:
    code = "import sys, time; time.sleep(1); print('no such device', file=sys.stderr); sys.exit(3)"
    a_job = job((A, STUBBORN), (B, code), grace=0.5)
    failed = failure(launcher(kind, two_hosts).run(a_job), "crash")
    assert failed.reason == "rank 1 on hbB ended with status 3: no such device"
    assert left(two_hosts, a_job.token) == []


@pytest.mark.parametrize("kind", LAUNCHERS)
def test_a_signal_and_its_host_are_named(kind: str, two_hosts: Rig) -> None:
    a_job = job((A, "import time; time.sleep(100)"), (B, "import os, time; time.sleep(1); os.kill(os.getpid(), 11)"))
    assert failure(launcher(kind, two_hosts).run(a_job), "crash").reason == "rank 1 on hbB was ended by SIGSEGV"
    assert left(two_hosts, a_job.token) == []


@pytest.mark.parametrize("kind", LAUNCHERS)
def test_what_a_host_does_not_have_is_said_with_its_name(kind: str, two_hosts: Rig) -> None:
    missing = Job((Rank(A, ("sleep", "100")), Rank(B, ("no-such-program",))), 60)
    assert (
        "rank 1 on hbB: its program can't be started" in failure(launcher(kind, two_hosts).run(missing), "environment").reason
    )
    few = Job((Rank(A, ("sleep", "100")), Rank(B, ("true",), cpus=(4000,))), 60)
    assert "rank 1 on hbB" in failure(launcher(kind, two_hosts).run(few), "infeasible").reason
    nowhere = Job((Rank(A, ("sleep", "100")), Rank(Host("hbC"), ("true",))), 60)
    assert "hbC" in failure(launcher(kind, two_hosts).run(nowhere), "environment").reason
    assert left(two_hosts, "CLUSTERTUNE_JOB") == []


@pytest.mark.parametrize("kind", LAUNCHERS)
def test_ranks_that_will_not_leave_are_gone_after_the_limit_on_every_host(kind: str, two_hosts: Rig) -> None:
    a_job = job((A, STUBBORN), (B, STUBBORN), (A, STUBBORN), limit=4, grace=0.5)
    failed = failure(launcher(kind, two_hosts).run(a_job), "timeout")
    assert failed.seconds < 30
    assert left(two_hosts, a_job.token) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", LAUNCHERS)
def test_a_cut_link_names_the_host_and_both_sides_clean_up(kind: str, two_hosts: Rig) -> None:
    a_job = job((A, STUBBORN), (B, STUBBORN), limit=120, grace=0.5)
    starts = launcher(kind, two_hosts, silence=4)
    acting = when_up(two_hosts, a_job, lambda: two_hosts.link(two_hosts[1], up=False))
    failed = failure(starts.run(a_job), "environment")
    acting.join()
    assert "hbB" in failed.reason
    assert failed.seconds < 100
    assert two_hosts[0].processes(a_job.token) == []
    # Nobody can tell hbB any more: it finds out by itself.
    assert clean(two_hosts[1], a_job.token, within=30)


@pytest.mark.slow
@pytest.mark.parametrize("kind", LAUNCHERS)
def test_a_host_without_power_is_named(kind: str, two_hosts: Rig) -> None:
    a_job = job((A, STUBBORN), (B, STUBBORN), limit=120, grace=0.5)
    starts = launcher(kind, two_hosts, silence=4)
    acting = when_up(two_hosts, a_job, lambda: two_hosts.power_off(two_hosts[1]))
    failed = failure(starts.run(a_job), "environment")
    acting.join()
    assert "hbB" in failed.reason
    assert failed.seconds < 100
    assert two_hosts[0].processes(a_job.token) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", LAUNCHERS)
def test_a_launcher_killed_in_mid_job_leaves_nothing_on_any_host(kind: str, two_hosts: Rig) -> None:
    token = "c3" * 12
    make = "Ssh(reach)" if kind == "ssh" else f"mpirun(({str(folder(kind) / 'bin' / 'mpirun')!r},), reach)"
    code = (
        "import sys; from runners.launch.direct import Ssh; from runners.launch.mpirun import mpirun\n"
        "from runners.launch.job import Job, Rank; from runners.launch.reach import Reach\n"
        "from runners.hosts.host import Host\n"
        f"reach = Reach(ssh={two_hosts.ssh!r}, before={two_hosts[0].inside!r}, python=sys.executable)\n"
        f"ranks = tuple(Rank(Host(name), (sys.executable, '-c', {STUBBORN!r})) for name in ('hbA', 'hbB'))\n"
        f"print({make}.run(Job(ranks, 600, grace=0.5, token={token!r})))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).resolve().parents[3])
    a_job = job((A, STUBBORN), (B, STUBBORN), token=token)
    when_up(two_hosts, a_job, process.kill).join()
    process.wait()
    for host in two_hosts.hosts:
        assert clean(host, token, within=30)


def test_what_login_scripts_print_does_no_harm(two_hosts: Rig) -> None:
    reach = Reach(ssh=(str(two_hosts.lookalike("Welcome! $5\n\x1e# no line end: ")),), python=sys.executable)
    done = Ssh(reach).run(job((A, "print('one')"), (B, "print('two')")))
    assert isinstance(done, Finished), done
    assert [ended.stdout for ended in done.ranks] == ["one\n", "two\n"]


def test_many_ranks_of_one_host_do_not_flood_its_sshd(two_hosts: Rig) -> None:
    done = Ssh(Reach(ssh=two_hosts.ssh, before=two_hosts[0].inside, python=sys.executable)).run(
        job(*[(B, f"print({number})") for number in range(24)], limit=120)
    )
    assert isinstance(done, Finished), done
    assert [ended.stdout for ended in done.ranks] == [f"{number}\n" for number in range(24)]


def test_a_host_that_wants_a_password_is_named(two_hosts: Rig) -> None:
    two_hosts.forget_key(two_hosts[1])
    failed = failure(launcher("ssh", two_hosts).run(job((A, STUBBORN), (B, "1"), grace=0.5)), "environment")
    assert failed.reason.startswith("hbB: it can't be reached: ")
    assert "Permission denied" in failed.reason
