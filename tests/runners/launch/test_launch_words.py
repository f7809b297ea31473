import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.hosts.host import Host
from runners.launch.job import Finished, Job, Rank
from runners.launch.mpi import Mpi, arguments, environment, identify, recognise
from runners.launch.mpirun import Mpirun, agent_script
from runners.launch.reach import Reach, source
from runners.launch.srun import Srun, programs
from runners.runner import Failure

A, B = Host("nodeA", user="tina", port=2222), Host("nodeB")
JOB = Job(
    (Rank(A, ("prog", "x y"), {"OWN": "1;2"}), Rank(B, ("prog",)), Rank(A, ("prog",), cpus=(0, 1))), 30.2, token="d4" * 12
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Intel(R) MPI Library for Linux* OS, Version 2021.18.1 Build 20260626 (id: b44796a)\n", ("intel", "2021.18.1")),
        ("Intel(R) MPI Library for Linux* OS, Version 2019 Update 9 Build 20200923", ("intel", "2019")),
        (
            "HYDRA build details:\n    Version:                                 4.0.2\n    Release Date: x\n",
            ("mpich", "4.0.2"),
        ),
        ("mpirun (Open MPI) 5.0.11\n\nReport bugs to https://www.open-mpi.org/community/help/\n", ("openmpi", "5.0.11")),
        ("mpirun (Open MPI) 4.1.4", ("openmpi", "4.1.4")),
        ("slurm 23.11", None),
        ("", None),
    ],
)
def test_an_mpi_is_known_by_what_it_says(text: str, found: object) -> None:
    assert recognise(text) == found


@pytest.mark.system
def test_a_program_of_another_kind_is_refused_with_what_it_says(tmp_path: Path) -> None:
    program = tmp_path / "mpirun"
    program.write_text("#!/bin/sh\necho 'something else 1.0'\n")
    program.chmod(0o755)
    failed = identify([str(program)])
    assert isinstance(failed, Failure)
    assert failed.kind == "environment"
    assert "neither Intel MPI, MPICH nor Open MPI: it says 'something else 1.0'" in failed.reason
    missing = identify([str(tmp_path / "none")])
    assert isinstance(missing, Failure)
    assert "can't be started" in missing.reason


def words_of(kind: str) -> list[str]:
    commands = [rank.argv for rank in JOB.ranks]
    return arguments(Mpi(kind, "1", ("mpirun",)), JOB, commands, {"ALL": "a b"}, "/agent", "eth1")  # type: ignore[arg-type]


def test_intel_names_a_host_and_an_environment_a_section() -> None:
    assert words_of("intel") == shlex.split(
        "-iface eth1 -genv ALL 'a b' "
        "-n 1 -host nodeA -env OWN '1;2' prog 'x y' : -n 1 -host nodeB prog : -n 1 -host nodeA prog"
    )


def test_mpich_places_ranks_by_a_list_in_their_order() -> None:
    assert words_of("mpich") == shlex.split(
        "-iface eth1 -genv ALL 'a b' -hosts nodeA:1,nodeB:1,nodeA:1 -n 1 -env OWN '1;2' prog 'x y' : -n 1 prog : -n 1 prog"
    )


def test_open_mpi_gets_each_variable_in_each_section() -> None:
    assert words_of("openmpi") == shlex.split(
        "--timeout 46 --oversubscribe --bind-to none --mca plm_rsh_agent /agent --mca plm_rsh_no_tree_spawn 1 "
        "--mca btl_tcp_if_include eth1 --mca oob_tcp_if_include eth1 "
        "-n 1 --host nodeA:2 -x 'ALL=a b' -x 'OWN=1;2' prog 'x y' : -n 1 --host nodeB:1 -x 'ALL=a b' prog : "
        "-n 1 --host nodeA:2 -x 'ALL=a b' prog"
    )


@pytest.mark.parametrize(("kind", "name"), [("intel", "I_MPI_JOB_TIMEOUT"), ("mpich", "MPIEXEC_TIMEOUT")])
def test_the_launchers_own_limit_is_later_than_ours(kind: str, name: str) -> None:
    assert environment(Mpi(kind, "1", ("mpirun",)), JOB, "/agent")[name] == "46"  # type: ignore[arg-type]


def test_ssh_asks_nothing_and_takes_a_name_for_a_name() -> None:
    words = Reach(ssh=("ssh", "-F", "my config")).command(A)
    assert words[:6] == ("ssh", "-F", "my config", "-T", "-x", "-a")
    assert "BatchMode=yes" in words
    assert words[words.index("-l") + 1] == "tina"
    assert words[words.index("-p") + 1] == "2222"
    assert words[-3:-1] == ("--", "nodeA")
    assert shlex.split(words[-1])[:2] == ["python3", "-c"]
    assert "\n" not in words[-1]
    assert "!" not in words[-1]


def test_what_is_sent_to_hosts_imports_nothing_of_ours() -> None:
    code = source().replace(b"m.main()", b"print(m.Keeper.__name__, 'runners' in sys.modules)")
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, cwd="/", check=False)
    assert done.stdout == "Keeper False\n", done.stderr


@pytest.mark.system
@settings(deadline=None, max_examples=25)
@given(st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=40))
def test_the_agent_hands_over_what_a_launcher_wrote_for_a_shell(text: str) -> None:
    reach = Reach(ssh=(sys.executable, "-c", "import subprocess, sys; sys.exit(subprocess.call(['sh', '-c', sys.argv[-1]]))"))
    script = agent_script(reach, JOB)
    launcher_writes = f"printf %s {shlex.quote(text)}; printf ' %s' \"$CLUSTERTUNE_JOB\""
    words = ["sh", "-c", script, "agent", "-x", "-p", "9", "nodeA", launcher_writes]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stdout == f"{text} {JOB.token}.agent", done.stderr
    shutil.rmtree(JOB.folder)


def test_the_agent_goes_nowhere_else() -> None:
    done = subprocess.run(["sh", "-c", agent_script(Reach(), JOB), "agent", "nodeC", "true"], capture_output=True, check=False)
    assert done.returncode == 255
    assert b"nodeC is none of the job's hosts" in done.stderr


def test_sruns_file_is_words_in_single_quotes() -> None:
    text = programs(JOB, Reach())
    lines = [shlex.split(line) for line in text.splitlines()]
    assert [line[0] for line in lines] == ["0", "1", "2"]
    assert all(line[1:3] == ["python3", "-c"] and line[4] == line[0] for line in lines)
    # Slurm has a buffer of 1024 for a line, and takes %t and a backslash for its own.
    assert all(len(line) < 900 and "%" not in line and "\\" not in line for line in text.splitlines())


SRUN = """#!{python}
# Does what srun does with --multi-prog and with a single program, all on this host, and keeps how it was called.
import json, os, shlex, subprocess, sys
with open({log!r}, "a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")
if "--multi-prog" not in sys.argv:
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    os.execvp(words[0], words)
places = open(os.environ["SLURM_HOSTFILE"]).read().split()
tasks = []
for line in open(sys.argv[-1]):
    rank, *words = shlex.split(line)
    env = dict(os.environ, SLURM_PROCID=rank, SLURMD_NODENAME=places[int(rank)])
    tasks.append(subprocess.Popen(words, env=env))
sys.exit(max(task.wait() for task in tasks))
"""


@pytest.mark.system
def test_a_job_of_srun(tmp_path: Path) -> None:
    import json

    log = tmp_path / "log"
    program = tmp_path / "srun"
    program.write_text(SRUN.format(python=sys.executable, log=str(log)))
    program.chmod(0o755)
    code = "import os, sys; print(os.environ['SLURMD_NODENAME'], os.environ['X'], sys.argv[1:])"
    ranks = tuple(Rank(host, (sys.executable, "-c", code, "a 'b' %t \\"), {"X": f"{host.name}; 'x'"}) for host in (A, B, A))
    srun = Srun(Reach(python=sys.executable), (str(program),))
    done = srun.run(Job(ranks, 30, token="e5" * 12))
    assert isinstance(done, Finished), done
    for rank, ended in zip(ranks, done.ranks, strict=True):
        name = rank.host.name
        assert ended.stdout == f"{name} {name}; 'x' {[chr(97) + chr(32) + repr('b') + ' %t ' + chr(92)]}\n"
    calls = [json.loads(line) for line in log.read_text().splitlines()]
    (started,) = [call for call in calls if "--multi-prog" in call]
    assert started[:-1] == [
        "--ntasks=3",
        "--nodes=2",
        "--distribution=arbitrary",
        "--export=ALL",
        "--cpu-bind=none",
        "--kill-on-bad-exit=1",
        "--unbuffered",
        "--time=0:45",
        "--multi-prog",
    ]
    watched = [call for call in calls if "--overlap" in call]
    assert sorted(word for call in watched for word in call if word.startswith("--nodelist")) == [
        "--nodelist=nodeA",
        "--nodelist=nodeB",
    ]
    assert not Path(started[-1]).exists()  # the job's files went with it


@pytest.mark.system
def test_an_mpirun_that_refuses_is_quoted(tmp_path: Path) -> None:
    program = tmp_path / "mpirun"
    program.write_text("#!/bin/sh\necho 'mpirun: bad option -n' >&2\nexit 2\n")
    program.chmod(0o755)
    launcher = Mpirun(Mpi("mpich", "4", (str(program),)), Reach(python=sys.executable))
    failed = launcher.run(Job((Rank(Host("localhost"), ("true",)),), 30))
    assert isinstance(failed, Failure)
    assert failed.kind == "environment"
    assert "nothing was started on localhost: mpirun: bad option -n" in failed.reason
