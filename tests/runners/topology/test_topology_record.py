"""Recorded topologies: as told by a host, kept by a study, and read from files."""

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.sysfs import SHAPES, build, shaped, told

from runners.runner import UsageError
from runners.topology import here, probe, read_file, written
from runners.topology.__main__ import main
from runners.topology.record import BadRecord, record, topology


@pytest.mark.parametrize("name", SHAPES)
def test_a_topology_reads_back_from_its_record(name: str) -> None:
    host = shaped(name)
    kept = json.loads(json.dumps(record(host)))
    again = topology(kept)
    assert record(again) == kept
    assert again.cores == host.cores
    assert again.cores_by_socket == host.cores_by_socket
    assert again.paired == host.paired
    assert again.memory_nodes == host.memory_nodes
    assert again.quota == host.quota


def test_the_probe_runs_alone_in_any_python(tmp_path: Path) -> None:
    """It is sent to hosts as text: nothing of ours is there."""
    source = Path(probe.__file__).read_text()
    command = [sys.executable, "-I", "-S", "-c", source]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, timeout=60)
    assert topology(json.loads(done.stdout)).cpus == here().cpus


def test_the_probe_answers_lines(tmp_path: Path) -> None:
    root = build(tmp_path, SHAPES["small"])
    source = Path(probe.__file__).read_text()
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", source, "--serve"], input=json.dumps({"root": str(root)}) + "\n",
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert topology(json.loads(done.stdout)).cpus == (0, 1)


def test_the_probe_is_for_old_pythons() -> None:
    import ast

    tree = ast.parse(Path(probe.__file__).read_text(), feature_version=(3, 7))
    imported = {alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert imported <= set(sys.stdlib_module_names)


@pytest.fixture(name="told")
def _told() -> dict[str, Any]:
    return told("quad")


def test_one_record_is_that_of_every_host(told: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "one.json"
    file.write_text(json.dumps(told))
    found = read_file(str(file), ("192.0.2.1", "192.0.2.2"))
    assert list(found) == ["192.0.2.1", "192.0.2.2"]
    assert found["192.0.2.1"] == found["192.0.2.2"]


def test_records_by_host(told: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "two.json"
    file.write_text(written({"a": told, "b": {**told, "hostname": "other"}}))
    found = read_file(str(file), ("b", "a"))
    assert list(found) == ["b", "a"]
    assert found["b"].hostname == "other"
    with pytest.raises(UsageError, match="has no host c; it has a, b"):
        read_file(str(file), ("a", "c"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is no recorded topology|is not JSON"),
        ("[]", "is no recorded topology"),
        ('{"cores": []}', "'schema' is missing"),
        ('{"hosts": []}', "not names with a record"),
        ('{"hosts": {"localhost": 3}}', "can't be used"),
        ('{"schema": 9, "cores": []}', "its schema is 9"),
        ("\x00\xff", "is not JSON"),
    ],
)
def test_files_that_are_none(text: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(UsageError, match=why):
        read_file(str(file), ("localhost",))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--topology .*can't be read: No such file"):
        read_file(str(tmp_path / "none"), ("localhost",))
    with pytest.raises(UsageError, match="can't be read"):
        read_file(str(tmp_path), ("localhost",))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@given(key=st.sampled_from(sorted(told("small"))), value=_JSON)
def test_a_record_with_any_value_changed_is_read_or_refused(key: str, value: Any) -> None:
    with suppress(BadRecord):
        topology({**told("small"), key: value})


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"allowed_cpus": ""}, "no CPU that may be used"),
        ({"nodes": []}, "no memory node"),
        ({"cores": [{"cpus": "0-1", "socket": 0}, {"cpus": "1-2", "socket": 0}]}, "CPU 1 in two cores"),
        ({"online": "0-x"}, "neither a number nor a range"),
    ],
)
def test_records_that_make_no_sense(told: dict[str, Any], change: dict[str, Any], why: str) -> None:
    with pytest.raises(BadRecord, match=why):
        topology({**told, **change})


def test_this_host_is_recorded_by_a_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main([]) == 0
    file = tmp_path / "here.json"
    file.write_text(capsys.readouterr().out)
    assert read_file(str(file), ("localhost",))["localhost"].cpus == here().cpus


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--hosts", "/nosuch/hosts.txt"], 2, "--hosts /nosuch/hosts.txt: "),
        (["--hosts", "a", "--ssh", "'"], 2, "--ssh ': a quote is not closed"),
        (["--hosts", "node.invalid", "--ssh", "false"], 4, "node.invalid"),
    ],
)
def test_hosts_that_cannot_be_recorded(words: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == code
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""
