"""Start-ups that went wrong for users of PyTorch, with what the tool must say."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from runners.runner import UsageError
from runners.tcpstore import checks, fit, names, network
from runners.tcpstore.names import Lookup
from runners.tcpstore.options import Options
from runners.tcpstore.places import Found, place
from runners.tcpstore.switches import known, switch
from spaces.tcpstore import SPACE
from tuner.errors import WrongUsage
from tuner.exporters import tcpstore
from tuner.recommendation import Recommendation

DATA = Path(__file__).parents[1] / "data" / "tcpstore"
ROOT = Path(__file__).parents[2]


def drive(asked, inside=None, limit=200):
    """What tests/data/tcpstore/drive.py prints, in namespaces of its own where ``inside`` says how they look."""
    if inside is not None and os.geteuid() != 0:
        pytest.skip("needs root for namespaces")
    command = [sys.executable, str(DATA / "drive.py"), json.dumps(asked)]
    if inside is not None:
        command = ["unshare", "--net", "--mount", sys.executable, str(DATA / "inside.py"), json.dumps(inside), *command]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


# Names from /etc/hosts alone, so that no resolver of the machine bounds a start.
FILES = {"hosts": "127.0.0.1 localhost\n127.0.0.2 node01\n", "nsswitch": "hosts: files\n"}


def answer(launch="torchrun", **config):
    full = {**SPACE.default, **config}
    options = {"launch": launch, "world_size": 64}
    return Recommendation("s", "tcpstore", "torch", "adopt", full, SPACE.default, None, "r", {}, {}, options=options)


# env-under-torchrun


def test_switch_that_does_nothing_under_torchrun():
    text = "#!/bin/sh\nexport USE_LIBUV=0\ntorchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=$HOST:29500 train.py\n"
    (found,) = tcpstore.lint(text, {"torch_version": "2.13.0"})
    assert (found.line, found.key, found.safe) == (2, "USE_LIBUV", True)
    assert "does nothing under torchrun" in found.message
    assert "tried, torch 2.13" in found.message
    fixed = tcpstore.fix(text, {})
    assert fixed == text.replace("export USE_LIBUV=0\n", "")
    assert tcpstore.present(text, {})["backend"] == "libuv"


def test_switch_that_does_nothing_is_never_emitted():
    for config in SPACE.configs():
        (text,) = tcpstore.render(answer(**config), "env", {}).values()
        if "USE_LIBUV=0" in text:
            assert "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1" in text
        assert tcpstore.present(text, {"launch": "torchrun"}) == config
    variables = switch(known("2.13.0"), "torchrun", "legacy")
    assert variables == {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "USE_LIBUV": "0"}


# truthy-text


def test_value_that_reads_as_its_opposite():
    text = 'URL="tcp://host:23456?use_libuv=True"\nUSE_LIBUV=yes MASTER_ADDR=a MASTER_PORT=1 python train.py\n'
    url, variable = tcpstore.lint(text, {})
    assert (url.line, variable.line) == (1, 2)
    assert all("only 1 selects libuv" in each.message and each.safe for each in (url, variable))
    fixed = tcpstore.fix(text, {})
    assert "use_libuv=1" in fixed
    assert "USE_LIBUV=1 MASTER_ADDR" in fixed
    assert tcpstore.lint(fixed, {}) == []
    assert tcpstore.present("USE_LIBUV=True\n", {})["backend"] == "legacy"


# nofile, too-many


def test_descriptors_are_counted_first():
    has = fit.Machine(network.Descriptors(128, 4096), 28232, 16 << 30, 30000, 2)
    (found,) = fit.problems(201, 4, has, force=False)
    assert found.severity == "error"
    assert "rank 0 of 201 needs 233 open files and its limit is 128" in found.message


def test_more_clients_than_the_machine_holds():
    options = Options(world_size=1_000_000, master="localhost")
    found = [p for p in checks.preflight(options, place(options).found) if p.severity == "error"]
    assert found
    assert any(re.fullmatch(r"--world-size \d+ is the largest that fits here, --predict 1000000 .*", p.mend) for p in found)


# port-busy


def test_busy_port_before_the_start():
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        options = Options(world_size=2, master="localhost", port=port)
        found = {p.id: p for p in checks.preflight(options, place(options).found)}
        assert re.fullmatch(rf"port {port} is in use on this host; \d+ is free", found["port"].message)
        assert found["port"].severity == "error"


@pytest.mark.system
def test_busy_port_is_the_same_sentence_for_both_servers():
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        options = {"world_size": 2, "master": "localhost", "port": port}
        got, _ = drive({"options": options, "check": False, "configs": [{"backend": b} for b in ("libuv", "legacy")]})
    reasons = [re.sub(r"; \d+ is free: .*", "", each["reason"], flags=re.DOTALL) for each in got["outcomes"]]
    assert reasons == [f"port {port} is in use on this host"] * 2


@pytest.mark.system
@pytest.mark.root
def test_descriptor_limit_forced_is_a_failure_and_not_the_end():
    asked = {
        "options": {"world_size": 201, "master": "localhost", "processes": 2, "force": True},
        "nofile": 128,
        "limit": 12,
        "configs": [{"backend": "legacy"}, {"backend": "libuv"}, {"backend": "legacy"}],
    }
    got, _ = drive(asked, FILES)
    assert [p["severity"] for p in got["problems"] if p["id"] == "nofile"] == ["warning"]
    legacy, libuv, again = got["outcomes"]
    for each in (legacy, again):
        assert each["kind"] == "crash"
        assert "open files (233 needed, limit 128; the legacy server aborts there)" in each["reason"]
        assert "rank 0, the server, was ended by SIGABRT" in each["reason"]
    assert libuv["kind"] in ("crash", "timeout")
    assert "libuv's server throws clients off there" in libuv["reason"]
    assert got["left"] == [0, 0, 0, 0]


@pytest.mark.system
@pytest.mark.root
def test_descriptor_limit_is_raised_for_rank_0_when_asked():
    asked = {
        "options": {"world_size": 201, "master": "localhost", "processes": 2, "system": True},
        "nofile": 128,
        "configs": [{"start": "server_first"}, {"start": "server_first", "backend": "legacy"}],
    }
    got, _ = drive(asked, FILES)
    assert not [p for p in got["problems"] if p["id"] == "nofile"]
    for each in got["outcomes"]:
        assert each["evidence"]["descriptors"] > 200
    assert got["left"] == [0, 0, 0]


# slow-reverse-dns

SILENT = {
    "resolv": "nameserver 127.0.0.53\noptions timeout:2 attempts:1\n",
    "nsswitch": "hosts: files dns\n",
    "silent": "127.0.0.53",
}


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.root
def test_slow_way_back_to_a_name_is_the_cause():
    asked = {
        "options": {"world_size": 64, "master": "node01"},
        "doctor": True,
        "configs": [{"backend": "libuv"}, {"backend": "legacy"}, {"backend": "libuv"}, {"backend": "legacy"}],
    }
    got, _ = drive(asked, {**SILENT, "hosts": "127.0.0.1 localhost\n127.0.0.2 node01\n"})
    for found in (got["doctor"], got["problems"]):
        (problem,) = [each for each in found if each["id"] == "reverse"]
        assert "2.0 s" in problem["message"]
        assert "`::ffff:127.0.0.2 node01`" in problem["mend"]
    times: dict[str, list[float]] = {"libuv": [], "legacy": []}
    for each in got["outcomes"]:
        assert each["evidence"]["bound_by"] == "reverse look-up"
        assert "reverse look-up takes" in each["evidence"]["warnings"][0]
        assert "`::ffff:127.0.0.2 node01`" in each["evidence"]["warnings"][0]
        times[each["evidence"]["server"]].append(each["metrics"]["creation_ms"])
    # One look-up of two seconds, or a client's and then the server's: which of the two is chance, with either server.
    assert all(2000 <= each < 5000 for each in (*times["libuv"], *times["legacy"]))


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.root
def test_the_mend_of_the_slow_way_back_mends_it():
    asked = {"options": {"world_size": 16, "master": "node01"}, "configs": [{"start": "server_first"}]}
    hosts = "127.0.0.1 localhost\n127.0.0.2 node01\n::ffff:127.0.0.2 node01\n::ffff:127.0.0.1 localhost\n"
    got, _ = drive(asked, {**SILENT, "hosts": hosts})
    assert not [each for each in got["problems"] if each["id"] == "reverse"]
    assert got["outcomes"][0]["metrics"]["creation_ms"] < 1500


# small-backlog


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.root
def test_small_backlog_is_the_cause_and_stays_as_it_was():
    inside = {**FILES, "somaxconn": 8}
    asked = {
        "options": {"world_size": 128, "master": "localhost"},
        "configs": [{"backend": "libuv", "start": "listening"}, {"backend": "legacy", "start": "listening"}],
    }
    got, said = drive(asked, inside)
    (problem,) = [each for each in got["problems"] if each["id"] == "backlog"]
    assert "somaxconn is 8 and 128 ranks" in problem["message"]
    assert "sysctl -w net.core.somaxconn=4096" in problem["mend"]
    for each in got["outcomes"]:
        assert each["evidence"]["counters"]["overflows"] > 0
        assert each["evidence"]["bound_by"] == "backlog"
        assert "net.core.somaxconn" in each["evidence"]["warnings"][0]
    assert "somaxconn after 8" in said


# reused-key


@pytest.mark.system
@pytest.mark.parametrize("form", ["keys", "counter", "store_barrier", "reused"])
def test_a_late_client_holds_the_others_up(form):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(DATA / "late.py"), form]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=environment)
    seen = json.loads(done.stdout.splitlines()[-1])
    last = max(came for _, came, _ in seen)
    early = [rank for rank, _, left in seen if left < last]
    assert sorted(early) == ([0, 1, 2] if form == "reused" else [])


# loopback-name


@pytest.mark.system
@pytest.mark.root
def test_name_that_leads_home():
    hosts = {"hosts": "127.0.0.1 localhost\n127.0.1.1 node01\n", "nsswitch": "hosts: files\n"}
    got, _ = drive({"options": {"world_size": 4, "master": "node01"}, "doctor": True}, hosts)
    (problem,) = [each for each in got["doctor"] if each["id"] == "loopback"]
    assert problem["message"].startswith("node01 is 127.0.1.1 here: ranks on other hosts")
    assert "127.0.1.1 line of /etc/hosts" in problem["mend"]


def test_name_of_another_machine():
    far = Found("far", "192.0.2.7", checks.names.Lookup("far", ("192.0.2.7",), 0, 0), {}, {}, "2.13.0")
    found = {p.id: p for p in checks.preflight(Options(world_size=4), far)}
    assert found["elsewhere"].severity == "error"


# listen-fd


@pytest.mark.system
def test_listening_socket_found_by_trying():
    got, _ = drive(
        {
            "options": {"world_size": 4, "master": "localhost"},
            "configs": [{"start": "listening", "backend": backend} for backend in ("libuv", "legacy")],
        }
    )
    for each, server in zip(got["outcomes"], ("libuv", "legacy"), strict=True):
        if "metrics" in each:
            assert each["evidence"]["server"] == server
            # What bounds a start is said of every setting, also where nothing is to be mended.
            assert f"{each['evidence']['bound_by']} takes " in each["evidence"]["warnings"][0]
            assert each["evidence"]["mend"] in each["evidence"]["warnings"][0]
        else:
            assert (each["kind"], "tried" in each["reason"]) == ("infeasible", True)


# What users type


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"world_size": 1}, "--world-size 1"),
        ({"port": 70000}, "--port 70000"),
        ({"barriers": -1}, "--barriers -1"),
        ({"predict": "12"}, "--predict 12"),
        ({"predict": "4096,x"}, "--predict 4096,x"),
        ({"processes": -2}, "--processes -2"),
        ({"processes": 10**20}, "--processes 100000000000000000000: must be from 1 to --world-size 64"),
        ({"world_size": 10**20}, "--world-size 100000000000000000000: must be from 2"),
        ({"predict": ","}, "--predict ,: write whole numbers above"),
        ({"predict": "4096,,8192"}, "--predict 4096,,8192: write whole numbers above"),
        ({"predict": "²"}, "--predict ²"),
        ({"predict": "9" * 5000}, "up to 10000000"),
        ({"master": ";touch x"}, "--master ;touch x: ';touch x' is not a host's name"),
        ({"master": "-x"}, "begins with '-'"),
        ({"master": "10.0.0.300"}, "is not an IPv4 address"),
        ({"ssh": "''"}, "name a program, like ssh"),
        ({"weigh": "creation=1e308"}, "creation must be a number from 0 to 999999999"),
    ],
)
def test_wrong_options_name_themselves(options, named):
    with pytest.raises(UsageError, match=re.escape(named)):
        checks.check_options(Options(**options))


def test_an_ssh_that_is_not_there_is_named_before_any_host_is_asked():
    with pytest.raises(UsageError, match=r"--ssh nosuchssh -v: nosuchssh is no program on this machine"):
        place(Options(hosts="a,b", ssh="nosuchssh -v"))


def test_the_line_for_an_address_leaves_its_name_to_the_user():
    assert names.hosts_line(Lookup("10.0.0.1", ("10.0.0.1",), 0.0, 0.0)) == "::ffff:10.0.0.1 NAME"
    assert names.hosts_line(Lookup("node01", ("10.0.0.1",), 0.0, 0.0)) == "::ffff:10.0.0.1 node01"


def test_no_switch_no_file():
    rows = {"torch_version": "2.13.0", "launch": "elsewhere"}
    with pytest.raises(WrongUsage, match="must be script or torchrun"):
        tcpstore.render(answer(), "env", rows)
