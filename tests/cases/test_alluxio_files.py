"""Cases of users with Alluxio's files: what they had, and the right answer. Those that need a mount are in tests/system."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runners.alluxio.properties import last
from spaces.alluxio import SPACE, Limits, for_job, parse_version
from tuner import export
from tuner.exporters import alluxio
from tuner.recommendation import Gain, Recommendation

DATA = Path(__file__).parents[1] / "data/alluxio"
P = "alluxio.user.position.reader.streaming.async.prefetch."
SECRET = b"not\\=a\\:real secret\\u00e9"


def answer(version: str, **changes: object) -> Recommendation:
    config = {**SPACE.default, **changes}
    return Recommendation(
        "alluxio-20260131-142501-3f2a", "alluxio", "fio", "adopt", config, SPACE.default, Gain(1.31, 1.24, 1.39, 0.9), "r",
        {"read_mib_s": 100.0}, {"read_mib_s": 80.0}, machine={"alluxio": version},
    )  # fmt: skip


def tune(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tuner", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, env={**os.environ, "COLUMNS": "200"}
    )


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A user's site file, private to its owner."""
    path = tmp_path / "alluxio-site.properties"
    shutil.copy(DATA / "site-user.properties", path)
    path.chmod(0o600)
    return path


def test_case_lint_spellings(tmp_path: Path) -> None:
    file = tmp_path / "site-bad.properties"
    shutil.copy(DATA / "site-bad.properties", file)
    lines = file.read_text().splitlines()
    marked = [
        n + 1
        for n, line in enumerate(lines, 1)
        if line.startswith("# next line:") and not line.startswith("# next line: fine")
    ]
    done = tune("lint", str(file), "--alluxio-version", "3.1", "--json")
    assert done.returncode == 1, done.stderr
    findings = json.loads(done.stdout)["findings"]
    assert [finding["line"] for finding in findings] == marked
    fixed = tune("lint", str(file), "--alluxio-version", "3.1", "--fix", "--json")
    (left,) = json.loads(fixed.stdout)["findings"]
    assert left["key"] == "alluxio.user.file.buffer.bytes"  # nobody but its author knows what was meant
    values = {key: entry.value for key, entry in last(file.read_text()).items()}
    assert values[P + "part.length"] == "4MB"
    assert values[P + "max.part.number"] == "8"
    assert values[P + "thread"] == "64"
    assert values["alluxio.user.metrics.collection.enabled"] == "true"
    assert P + "threads" not in values


def test_case_merge_keeps(site: Path) -> None:
    before = site.read_bytes()
    options = {"alluxio_version": "3.6"}
    shown = export.export(answer("3.6", prefetch_threads=128), into=site, diff=True, options=options)
    assert site.read_bytes() == before
    done = export.export(answer("3.6", prefetch_threads=128), into=site, options=options)
    after = site.read_bytes()
    replaced = f"{P}thread=64\n".encode()
    assert after.startswith(before.replace(replaced, b"# replaced by clustertune: " + replaced))
    assert f"{P}thread=128\n".encode() in after
    assert SECRET in after
    assert site.stat().st_mode & 0o777 == 0o600
    (backup,) = done.backups
    assert backup.read_bytes() == before
    assert backup.stat().st_mode & 0o777 == 0o600
    for result in (shown, done):
        for text in (result.diff, *result.texts.values(), *result.notes):
            assert "real secret" not in text
            assert "AKIAEXAMPLE" not in text
    twice = export.export(answer("3.6", max_part_number=16), into=site, options=options)
    assert site.read_text().count(">>> clustertune") == 1
    assert twice.backups


def test_case_merge_keeps_bytes_that_are_no_utf_8(site: Path) -> None:
    """A properties file is ISO-8859-1: a byte that is no UTF-8 is a letter, and stays that byte."""
    site.write_bytes(site.read_bytes() + b"alluxio.user.hostname=caf\xe9\r\n")
    export.export(answer("3.6", prefetch_threads=128), into=site)
    assert b"caf\xe9\r\n" in site.read_bytes()


def test_case_no_such_key_in_2x() -> None:
    version = "2.9.5"
    config = {"chunk_size": 4 << 20, "buffer_messages": 32, "max_part_number": 4, "prefetch_threads": 256}
    for form in alluxio.FORMATS:
        (text,) = alluxio.render(answer(version, **config), form.name, {}).values()
        assert "async.prefetch" not in text
    (site,) = alluxio.render(answer(version, **config), "site", {}).values()
    assert {key: entry.value for key, entry in last(site).items()} == {
        "alluxio.user.streaming.reader.chunk.size.bytes": "4MB",
        "alluxio.user.streaming.reader.buffer.size.messages": "32",
    }
    searched = {knob.name for knob in for_job(SPACE, Limits(parse_version(version), mount_options=False, system=False)).knobs
                if len(knob.domain.values) > 1}  # fmt: skip
    assert searched == {"chunk_size", "buffer_messages", "direct_memory"}
    findings = alluxio.lint(f"{P}thread=64\n{P}part.length=4MB\n", {"alluxio_version": version})
    assert [finding.line for finding in findings] == [1, 2]
    assert all("does nothing in Alluxio 2.9.5" in finding.message for finding in findings)
    assert all("reader.chunk.size.bytes" in finding.mend for finding in findings)


def test_case_direct_memory() -> None:
    """Refused by the space itself, which is asked before anything is mounted."""
    space = for_job(SPACE.narrow({"direct_memory": "8G"}), Limits(parse_version("3.6"), open_files=80))
    config = {**SPACE.default, "part_length": 16 << 20, "max_part_number": 64, "direct_memory": 8 << 30}
    (reason,) = space.broken(config)
    assert "80 GiB" in reason
    assert "-XX:MaxDirectMemorySize=81g" in reason
    text = f"{P}part.length=16MB\n{P}max.part.number=64\n"
    (finding,) = alluxio.lint(text, {"alluxio_version": "3.6", "open_files": 80, "direct_memory": "8G"})
    assert "80 GiB" in finding.message
