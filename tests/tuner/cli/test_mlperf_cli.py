"""`tune mlperf` as people and programs call it: what is printed, what is written, and the exit codes."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tuner.cli.app import run

DATA = Path(__file__).parents[2] / "data" / "mlperf"


def told(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, dict[str, Any]]:
    code = run(["mlperf", *map(str, words), "--json"])
    return code, json.loads(capsys.readouterr().out)


def said(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    code = run(["mlperf", *map(str, words)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_size_takes_this_machines_memory_where_none_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = told(capsys, "size", "--model", "unet3d")
    assert code == 0
    assert (found["version"], found["accelerator"], found["accelerators"]) == ("v2.0", "h100", 1)
    assert found["files"] >= 3500
    assert found["demand_mib_s"] == pytest.approx(3030, abs=1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--model", "unet9"), "--model unet9: is none of unet3d, bert, resnet50, cosmoflow"),
        (("--memory", "128"), "--memory 128: are 128 bytes, which no host has; write it like 128G"),
        (("--memory", "lots"), "--memory lots: 'lots' is not a size"),
        (("--accelerators", "0"), "--accelerators 0: must be from 1"),
        (("--hosts", "-2"), "--hosts -2: must be from 1"),
        (("--accelerator", "v100"), "--accelerator v100: v2.0 has a100, h100"),
        (("--mlperf-version", "3"), "--mlperf-version 3: is none of v0.5, v1.0, v2.0"),
    ],
)
def test_wrong_sizes_are_one_sentence_and_exit_2(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    code, out, err = said(capsys, "size", *words)
    assert code == 2
    assert message in err
    assert out == ""


@pytest.mark.parametrize("version", ["v0.5", "v1.0", "v2.0"])
def test_a_report_that_breaks_no_rule_is_exit_0(capsys: pytest.CaptureFixture[str], version: str) -> None:
    code, found = told(capsys, "report", DATA / version)
    assert code == 0
    assert found["valid"]
    (report,) = found["reports"]
    assert report["division"] == "closed"
    assert len(report["runs"]) == 5
    code, out, _ = said(capsys, "report", DATA / version)
    assert code == 0
    assert "CLOSED division" in out


def test_a_broken_rule_is_named_and_exit_1(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shutil.copytree(DATA / "v1.0", tmp_path / "r")
    shutil.rmtree(tmp_path / "r" / "run-2")
    code, out, _ = said(capsys, "report", tmp_path / "r")
    assert code == 1
    assert "4 runs found, and v1.0 asks for exactly 5" in out
    code, found = told(capsys, "report", tmp_path / "r")
    assert code == 1
    assert [each["rule"] for each in found["reports"][0]["findings"]] == ["runs"]


def test_their_files_are_written_and_read_back(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, found = told(capsys, "report", DATA / "v0.5", "-o", tmp_path)
    assert code == 0
    assert found["written"] == [str(tmp_path / "mlperf_storage_report.json")]
    code, back = told(capsys, "report", tmp_path)
    assert code == 0
    assert back["reports"][0]["accelerators"] == 20
    assert back["reports"][0]["samples_per_second"] == found["reports"][0]["samples_per_second"]
    code, out, _ = said(capsys, "report", tmp_path / "mlperf_storage_report.json")
    assert (code, "unet3d, 20 of them: a report of 5 runs" in out) == (0, True)


def test_a_report_in_the_way_is_kept_as_a_backup(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text("[]")
    assert said(capsys, "report", DATA / "v2.0", "-o", tmp_path)[0] == 0
    assert (tmp_path / "results.json.bak").read_text() == "[]"


def test_figures_that_do_not_go_together_are_exit_1(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    told(capsys, "report", DATA / "v1.0", "-o", tmp_path)
    file = tmp_path / "mlperf_storage_report.json"
    report = json.loads(file.read_text())
    report["overall"]["train_throughput_mean_MB_per_second"] *= 1.1
    file.write_text(json.dumps(report))
    code, out, _ = said(capsys, "report", file)
    assert code == 1
    assert "doubt" in out


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (lambda folder: None, "holds no summary.json"),
        (lambda folder: (folder / "summary.json").write_text("{"), "summary.json: is not JSON (line 1"),
        (lambda folder: (folder / "mlperf_storage_report.json").write_text("{}"), "is no report of MLPerf Storage"),
    ],
)
def test_what_can_not_be_read_is_one_sentence_and_exit_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, prepare: Any, words: str
) -> None:
    prepare(tmp_path)
    code, out, err = said(capsys, "report", tmp_path)
    assert code == 2
    assert words in err
    assert err.count("\n") == 1
    assert out == ""


def test_two_reports_are_not_written_over_one_another(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copytree(DATA / "v1.0", tmp_path / name)
    (tmp_path / "out").mkdir()
    code, _, err = said(capsys, "report", tmp_path, "-o", tmp_path / "out")
    assert code == 2
    assert "there are 2 reports" in err
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--accelerators", "0"), "--accelerators 0: must be from 1"),
        (("--runs", "0"), "--runs 0: must be from 1"),
        (("--limit", "soon"), "--limit soon: 'soon' is not a duration"),
        (("--model", "unet9"), "--model unet9"),
        (("--dlio-python", "no-such-python"), "--dlio-python no-such-python: there is no such program"),
    ],
)
def test_wrong_options_of_run_are_found_before_anything_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    code, _, err = said(capsys, "run", "--data", tmp_path, "--results", tmp_path / "r", *words)
    assert code == 2
    assert message in err
    assert not (tmp_path / "r").exists()


def test_without_dlio_run_is_exit_4_with_the_way_in(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    bare = f"{sys.base_prefix}/bin/python3"
    code, _, err = said(capsys, "run", "--data", tmp_path, "--results", tmp_path / "r", "--dlio-python", bare)
    assert code == 4
    assert "has no DLIO" in err
    assert "pip install" in err


def test_help_teaches_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("size", "run", "report"):
        assert run(["mlperf", command, "--help"]) == 0
        assert f"tune mlperf {command} " in " ".join(capsys.readouterr().out.split())


def test_a_small_demand_is_not_shown_as_none(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = said(capsys, "size", "--model", "bert", "--memory", "32G")
    assert "demand    0.12 MiB/s" in out
    assert ", 1 epoch\n" in out
