"""`tune doctor hosts` in full, from one of two hosts to both."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.rig import Rig

pytestmark = [pytest.mark.system, pytest.mark.root]

ROOT = Path(__file__).resolve().parents[3]


def doctor(rig: Rig, hosts: str, *more: str) -> tuple[int, dict[str, list[dict[str, str]]]]:
    words = [*rig[0].inside, "env", f"--chdir={ROOT}", sys.executable, "-m", "tuner", "doctor", "hosts", "--json"]
    words += ["--hosts", hosts, "--python", sys.executable, "--ssh", shlex.join(rig.ssh), *more]
    # Programs of this environment, an mpirun among them, are on no other host's path.
    path = os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if Path(part) != Path(sys.executable).parent)
    environment = {**os.environ, "NO_COLOR": "1", "PATH": path}
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.stderr == ""
    problems: dict[str, list[dict[str, str]]] = {}
    for each in json.loads(done.stdout)["problems"]:
        problems.setdefault(each["id"], []).append(each)
    return done.returncode, problems


def test_two_good_hosts(make_rig: Callable[..., Rig], tmp_path: Path) -> None:
    rig = make_rig(shm="1g")
    hosts = tmp_path / "my hosts"
    hosts.write_text("hbA slots=2\nhbB slots=2\n")
    code, problems = doctor(rig, str(hosts))
    assert problems == {}
    assert code == 0


def test_what_is_wrong_is_found(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(("hbA", "hbB", "hbC"), shm="64m")
    rig[1].run("hostname", "hbA")
    rig[1].run("ip", "link", "set", "dev", "e0", "mtu", "1400")
    rig.forget_key(rig[2])
    code, problems = doctor(rig, "hbA,hbB,hbC,hbD")
    assert code == 4
    assert set(problems) == {"hosts-unreachable", "hosts-same-name", "hosts-shm", "hosts-mtu", "hosts-unknown-name"}
    assert [each["mend"] for each in problems["hosts-unreachable"]] == [
        "ssh-copy-id hbC",
        "add its address and the name hbD to /etc/hosts here, or write the address",
    ]
    assert "hbA, hbB all call themselves 'hbA'" in problems["hosts-same-name"][0]["message"]
    assert len(problems["hosts-shm"]) == 2
    assert {each["message"] for each in problems["hosts-unknown-name"]} == {
        "hbA doesn't know the name 'hbD'",
        "hbB doesn't know the name 'hbD'",
    }


def test_a_name_that_leads_home_and_a_host_that_may_not_call_back(make_rig: Callable[..., Rig], tmp_path: Path) -> None:
    rig = make_rig(shm="1g")
    own = tmp_path / "hosts_of_b"
    own.write_text("127.0.0.1 localhost hbA\n10.99.0.2 hbB\n")
    rig[1].run("mount", "--bind", own, "/etc/hosts")
    # hbB may answer what hbA opened (ssh) and open nothing itself: what a firewall does, made of routing rules.
    rig[1].run("ip", "rule", "add", "pref", "10", "to", "10.99.0.1", "ipproto", "tcp", "sport", "22", "lookup", "main")
    rig[1].run("ip", "rule", "add", "pref", "20", "to", "10.99.0.1", "ipproto", "tcp", "prohibit")
    code, problems = doctor(rig, "hbA,hbB")
    assert code == 4
    assert set(problems) == {"hosts-callback", "hosts-loopback-name"}
    (blocked,) = problems["hosts-callback"]
    assert "hbB can't open a connection to this host at 10.99.0.1" in blocked["message"]
    assert {each["severity"] for each in problems["hosts-loopback-name"]} == {"error"}
    assert "on hbB, the name 'hbA' leads to 127.0.0.1" in problems["hosts-loopback-name"][0]["message"]


def test_no_python_there(two_hosts: Rig) -> None:
    code, problems = doctor(two_hosts, "hbA,hbB", "--python", "/no/such/python3")
    assert code == 4
    assert {each["id"] for each in problems["hosts-unreachable"]} == {"hosts-unreachable"}
    assert "install python3 on" in problems["hosts-unreachable"][0]["mend"]


def test_mistakes_of_the_user_get_a_sentence() -> None:
    for words, said in (
        (["--hosts", "-oProxyCommand=touch x"], "begins with '-'"),
        ([], "no host is named"),
        (["--hosts", "a", "--ssh", "'"], "a quote is not closed"),
        (["--hosts", "a", "--ssh", ""], "the value is empty"),
        (["--hosts", "a", "--ssh", " "], "name a program"),
    ):
        env = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "PBS_"))}
        done = subprocess.run(
            [sys.executable, "-m", "tuner", "doctor", "hosts", *words],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            env=env,
        )
        assert done.returncode == 2
        assert said in done.stderr
        assert done.stderr.startswith("tune: --")
