"""`tune xft --dry-run`: layouts and scripts from a recorded topology, nothing measured and no host asked."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.sysfs import told

from tuner.cli.app import run
from tuner.exporters.xft.calls import calls

HOSTS = "192.0.2.1,192.0.2.2,192.0.2.3,192.0.2.4"


@pytest.fixture(name="recorded")
def _recorded(tmp_path: Path) -> str:
    file = tmp_path / "host.json"
    file.write_text(json.dumps(told("cloud")))
    return str(file)


def dry(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any, str]:
    code = run(["xft", "--dry-run", *words, "--json"])
    captured = capsys.readouterr()
    return code, json.loads(captured.out), captured.err


def test_the_script_of_hosts_that_are_not_there(capsys: pytest.CaptureFixture[str], recorded: str) -> None:
    code, found, _ = dry(capsys, "--hosts", HOSTS, "--topology", recorded, "--model", "qwen-72b")
    assert code == 0
    assert list(found["files"]) == ["xft.env", "run_xft.sh", "hostfile"]
    ranks = calls(found["files"]["run_xft.sh"])
    assert [call.host for call in ranks] == HOSTS.split(",")
    assert all(call.cpus == tuple(range(0, 96, 2)) for call in ranks)
    assert found["files"]["hostfile"] == "".join(f"{host}:1\n" for host in HOSTS.split(","))
    assert "nothing was measured" in found["files"]["run_xft.sh"]
    assert "rank 3 on 192.0.2.4: 48 threads on CPUs 0-94:2; memory as the system takes it" in found["notes"]


def test_knobs_pin_the_setting(capsys: pytest.CaptureFixture[str], recorded: str) -> None:
    code, found, _ = dry(capsys, "--topology", recorded, "--ranks", "2", "--spare-cores", "1", "--wait-policy", "passive")
    assert code == 0
    assert (found["config"]["ranks"], found["config"]["spare_cores"], found["config"]["wait_policy"]) == (2, 1, "passive")
    assert [call.threads for call in calls(found["files"]["run_xft.sh"])] == [23, 23]
    assert "export OMP_WAIT_POLICY=passive" in found["files"]["run_xft.sh"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--ranks", "1,2"), "--ranks 1,2: --dry-run shows one setting; name one value"),
        (
            ("--memory", "hbm"),
            "this setting can't run there: memory hbm needs nodes that have memory and no CPUs, and this host has none.",
        ),
        (("--threads", "96"), "this setting can't run there: 96 threads are more than the 48 cores"),
        (("--dtype", "fp7"), "--dtype fp7: is none of"),
        (("--model", "nosuch"), "--model nosuch: is no known name"),
        (("--topology", "/nosuch.json"), "--topology /nosuch.json: can't be read: No such file or directory"),
    ],
)
def test_what_cannot_be_shown(capsys: pytest.CaptureFixture[str], recorded: str, words: tuple[str, ...], message: str) -> None:
    given = () if "--topology" in words else ("--topology", recorded)
    code, found, _ = dry(capsys, *given, *words)
    assert code == 2
    assert message in found["error"]["message"]


def test_one_thread_is_not_said_to_be_several(capsys: pytest.CaptureFixture[str], recorded: str) -> None:
    _, found, _ = dry(capsys, "--topology", recorded, "--ranks", "1", "--threads", "1")
    assert any(note.startswith("rank 0 on localhost: 1 thread on CPU") for note in found["notes"])


def test_a_named_count_that_does_not_divide_is_shown(capsys: pytest.CaptureFixture[str], recorded: str) -> None:
    code, found, _ = dry(capsys, "--topology", recorded, "--model", "llama-2-7b", "--ranks", "3")
    assert code == 0
    assert "32 heads don't divide by 3 ranks: 2 of them have 11, the others 10" in found["notes"]


def test_files_go_to_standard_output_and_the_rest_does_not(recorded: str) -> None:
    command = [sys.executable, "-m", "tuner", "xft", "--dry-run", "--topology", recorded, "--model", "llama-2-7b"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert "numactl --all -C 0,2,4" in done.stdout
    assert "rank 0 on localhost" in done.stderr
    assert "rank 0 on" not in done.stdout


def test_no_secret_of_an_inventory_is_anywhere(capsys: pytest.CaptureFixture[str], recorded: str, tmp_path: Path) -> None:
    inventory = tmp_path / "inventory.ini"
    inventory.write_text("[all_hosts:vars]\nansible_ssh_pass=swordfish\n[all_hosts]\n192.0.2.1\n192.0.2.2 ansible_user=root\n")
    code, found, errors = dry(capsys, "--hosts", str(inventory), "--topology", recorded, "--model", "llama-2-7b")
    assert code == 0
    assert [call.host for call in calls(found["files"]["run_xft.sh"])] == ["192.0.2.1", "192.0.2.2"]
    assert "swordfish" not in json.dumps(found) + errors


def test_targets_without_a_preview_have_no_such_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tcpstore", "--dry-run"]) == 2
    assert "--dry-run" in capsys.readouterr().err
