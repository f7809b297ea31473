"""The five-run report: folders of all versions read, the rules held against them, and MLPerf's own files written."""

import csv
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runners.mlperf.fields import BadResult
from runners.mlperf.folders import read_folder
from runners.mlperf.formats import render
from runners.mlperf.report import Report, report
from runners.mlperf.reported import find_reports, read_report

DATA = Path(__file__).parents[2] / "data" / "mlperf"
V2 = Path("training") / "unet3d" / "run"
Edit = Callable[[str], str]


def only(folder: Path) -> Report:
    (runs,) = read_folder(folder)
    return report(runs)


def copied(tmp_path: Path, version: str) -> Path:
    shutil.copytree(DATA / version, tmp_path / version)
    return tmp_path / version


def change(file: Path, **values: Any) -> None:
    data = json.loads(file.read_text())
    for name, value in values.items():
        *way, last = name.split("__")
        inner = data
        for key in way:
            inner = inner[key]
        inner[last] = value
    file.write_text(json.dumps(data))


def broken(found: Report) -> dict[str, str]:
    return {finding.rule: finding.message for finding in found.findings if finding.invalid}


@pytest.mark.parametrize(
    ("version", "model", "accelerator", "runs", "hosts", "accelerators"),
    [("v0.5", "unet3d", "", 5, 2, 20), ("v1.0", "unet3d", "h100", 5, 3, 3), ("v2.0", "unet3d", "h100", 5, 2, 4)],
)
def test_five_good_runs_of_each_version_are_valid_and_closed(
    version: str, model: str, accelerator: str, runs: int, hosts: int, accelerators: int
) -> None:
    found = only(DATA / version)
    assert found.valid, found.findings
    assert (found.model, found.accelerator, found.division) == (model, accelerator, "closed")
    assert (len(found.runs), found.runs[0].hosts, found.runs[0].accelerators) == (runs, hosts, accelerators)
    assert found.io_rate == pytest.approx(found.samples_per_second * 146600628 / 2**20)
    assert found.au >= found.threshold


def test_hosts_that_ran_by_themselves_are_added_up() -> None:
    found = only(DATA / "v0.5")
    singles = [json.loads((DATA / "v0.5" / "run-1" / f"host-{n}" / "summary.json").read_text())["metric"] for n in (1, 2)]
    total = sum(each["train_throughput_mean_samples_per_second"] for each in singles)
    assert found.runs[0].samples_per_second == pytest.approx(total)


def test_the_warm_up_of_v2_is_told_apart() -> None:
    found = only(DATA / "v2.0")
    assert found.warm_up is not None
    assert found.warm_up.name == "20250701_090000"
    assert found.warm_up not in found.runs


@pytest.mark.parametrize(("version", "remove"), [("v0.5", "run-3"), ("v1.0", "run-5")])
def test_four_runs_are_too_few(tmp_path: Path, version: str, remove: str) -> None:
    folder = copied(tmp_path, version)
    shutil.rmtree(folder / remove)
    assert "4 runs found" in broken(only(folder))["runs"]


def test_v2_without_a_warm_up_is_noted_and_seven_runs_are_refused(tmp_path: Path) -> None:
    folder = copied(tmp_path, "v2.0")
    shutil.copytree(folder / V2 / "20250706_090000", folder / V2 / "20250707_090000")
    assert "7 runs found" in broken(only(folder))["runs"]
    for name in ("20250701_090000", "20250707_090000"):
        shutil.rmtree(folder / V2 / name)
    found = only(folder)
    assert found.valid
    assert any("no warm-up" in finding.message for finding in found.findings)


@pytest.mark.parametrize(
    ("values", "rule", "words"),
    [
        ({"metric__train_au_mean_percentage": 89.9}, "utilisation", "run-2 reached an accelerator utilisation of 89.9 %"),
        ({"metric__train_au_meet_expectation": "fail"}, "utilisation", "DLIO says"),
        ({"metric__train_au_percentage": [0.0] * 5, "metric__train_au_mean_percentage": 0.0}, "failed", "run-2 failed"),
        ({"num_files_train": 28001}, "equal", "number of training files: 28000, 28001"),
        ({"num_accelerators": 4}, "equal", "number of accelerators: 3, 4"),
        ({"metric__train_throughput_mean_samples_per_second": 40.0}, "replicable", "run-2 is 30.3 % below the mean"),
        ({"potential_caching": [0, 1, 0]}, "caching", "run-2: the data set fits into a host's memory"),
        ({"host_memory_GB": [2000.0] * 3}, "size", "run-2: 28000 files are too few"),
    ],
)
def test_each_rule_is_held_against_each_run(tmp_path: Path, values: dict[str, Any], rule: str, words: str) -> None:
    folder = copied(tmp_path, "v1.0")
    change(folder / "run-2" / "summary.json", **values)
    found = only(folder)
    assert not found.valid
    assert words in broken(found)[rule]


@pytest.mark.parametrize(
    ("edit", "division", "valid"),
    [
        (lambda text: text + "- ++workload.reader.data_loader=tensorflow\n", "open", True),
        (lambda text: text + "- ++workload.train.computation_time=0.5\n", "none", False),
        (lambda text: text + "- hydra.verbose=true\n", "closed", True),
    ],
)
def test_parameters_that_leave_closed_are_found(tmp_path: Path, edit: Edit, division: str, valid: bool) -> None:
    folder = copied(tmp_path, "v1.0")
    file = folder / "run-4" / "configs" / "overrides.yaml"
    file.write_text(edit(file.read_text()))
    found = only(folder)
    assert (found.division, found.valid) == (division, valid)


def test_hosts_of_a_run_start_together_and_do_the_same(tmp_path: Path) -> None:
    folder = copied(tmp_path, "v0.5")
    change(folder / "run-1" / "host-2" / "summary.json", start="2023-08-20T10:00:30.5", num_accelerators=9)
    messages = [finding.message for finding in only(folder).findings if finding.invalid and finding.rule == "hosts"]
    assert any("started 30 s apart" in message for message in messages)
    assert any("differ in accelerators" in message for message in messages)


def test_epochs_from_memory_are_told_apart(tmp_path: Path) -> None:
    folder = copied(tmp_path, "v1.0")
    change(
        folder / "run-1" / "summary.json",
        potential_caching=[1, 1, 1],
        metric__train_throughput_samples_per_second=[20.0, 70.0, 71.0, 70.0, 70.0],
    )
    assert any("epochs 2, 3, 4 and 5 ran 3.5 times as fast" in finding.message for finding in only(folder).findings)


def test_a_submission_with_a_host_folder_in_v1_is_read_too(tmp_path: Path) -> None:
    folder = copied(tmp_path, "v1.0")
    for number in range(1, 6):
        run = folder / f"run-{number}"
        (folder / f"run{number}").mkdir()
        run.rename(folder / f"run{number}" / "client7")
    found = only(folder)
    assert [run.name for run in found.runs] == [f"run{number}" for number in range(1, 6)]
    assert found.valid, found.findings


def test_the_folder_above_holds_a_set_for_each_workload(tmp_path: Path) -> None:
    shutil.copytree(DATA / "v1.0", tmp_path / "unet3d_h100")
    shutil.copytree(DATA / "v0.5", tmp_path / "old")
    sets = read_folder(tmp_path)
    assert sorted(runs.version for runs in sets) == ["v0.5", "v1.0"]
    assert all(report(runs).valid for runs in sets)


def test_one_run_alone_is_read(tmp_path: Path) -> None:
    found = only(DATA / "v1.0" / "run-3")
    assert [run.name for run in found.runs] == ["run-3"]
    assert "1 run found" in broken(found)["runs"]


def test_one_run_of_several_hosts_is_read_from_its_own_folder() -> None:
    (run,) = only(DATA / "v0.5" / "run-2").runs
    assert run.name == "run-2"
    assert run.accelerators == 20


def test_a_run_that_does_not_say_its_workload_is_judged_by_the_rest(tmp_path: Path) -> None:
    folder = copied(tmp_path, "v1.0")
    for number in range(1, 6):
        shutil.rmtree(folder / f"run-{number}" / "configs")
    found = only(folder)
    assert (found.model, found.accelerator) == ("", "")
    assert found.threshold == 90


def test_folders_without_results_say_so(tmp_path: Path) -> None:
    with pytest.raises(BadResult, match=r"holds no summary\.json"):
        read_folder(tmp_path)
    with pytest.raises(BadResult, match="is not there"):
        read_folder(tmp_path / "no")


def test_a_damaged_configuration_is_named(tmp_path: Path) -> None:
    folder = copied(tmp_path, "v1.0")
    file = folder / "run-1" / "configs" / "overrides.yaml"
    file.write_text("- a\n  - b: [\n")
    with pytest.raises(BadResult, match=r"overrides\.yaml: is not YAML \(line"):
        read_folder(folder)


def test_a_configuration_is_data_and_never_run(tmp_path: Path) -> None:
    folder = copied(tmp_path, "v1.0")
    (folder / "run-1" / "configs" / "overrides.yaml").write_text(f"!!python/object/apply:os.mkdir ['{tmp_path}/made']\n")
    with pytest.raises(BadResult):
        read_folder(folder)
    assert not (tmp_path / "made").exists()


# -- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["v0.5", "v1.0"])
def test_the_old_report_has_their_keys_in_their_order(version: str) -> None:
    found = only(DATA / version)
    (text,) = render([found]).values()
    written = json.loads(text)
    assert list(written) == ["overall", "runs"]
    second = "num_client_hosts" if version == "v0.5" else "accelerator"
    assert list(written["overall"])[:4] == (["model", second, "num_benchmark_runs", "train_num_accelerators"])
    assert written["overall"]["train_num_accelerators"] == str(found.runs[0].accelerators)
    assert written["overall"]["train_throughput_mean_MB_per_second"] == found.io_rate
    assert list(written["runs"]) == [f"run-{number}" for number in range(1, 6)]


def test_the_new_report_has_a_record_a_run_and_the_same_as_a_table() -> None:
    files = render([only(DATA / "v2.0")])
    records = json.loads(files["results.json"])
    assert len(records) == 6
    assert {record["command"] for record in records} == {"run_benchmark"}
    assert records[0]["parameters"]["dataset"]["num_files_train"] == 14000
    assert records[0]["metrics"]["checkpoint_size_GB"] == 0.46
    rows = list(csv.DictReader(io.StringIO(files["results.csv"])))
    assert len(rows) == 6
    assert rows[3]["parameters.train.computation_time"] == "0.323"
    assert float(rows[3]["metrics.train_au_mean_percentage"]) == records[3]["metrics"]["train_au_mean_percentage"]
    assert list(rows[0]) == sorted(rows[0])


@pytest.mark.parametrize("version", ["v0.5", "v1.0", "v2.0"])
def test_what_is_written_reads_back(tmp_path: Path, version: str) -> None:
    found = only(DATA / version)
    for name, text in render([found]).items():
        (tmp_path / name).write_text(text)
    (file,) = find_reports(tmp_path)
    (back,) = read_report(file)
    assert (back.model, back.accelerator, back.accelerators) == (found.model, found.accelerator, found.runs[0].accelerators)
    counted = len(found.runs) + (found.warm_up is not None)
    assert len(back.runs) == counted
    if version != "v2.0":
        assert back.samples_per_second == found.samples_per_second
    assert back.doubts == ()


def test_a_report_whose_figures_do_not_go_together_is_doubted(tmp_path: Path) -> None:
    (name, text), *_ = render([only(DATA / "v1.0")]).items()
    (tmp_path / name).write_text(text)
    change(
        tmp_path / name,
        overall__train_throughput_mean_samples_per_second=70.0,
        overall__train_num_accelerators="30",
    )
    (back,) = read_report(tmp_path / name)
    assert len(back.doubts) == 3
    assert back.accelerators == 30


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"overall": {}}', "no field overall and runs"),
        ('{"overall": {"model": "unet3d"}, "runs": {}}', "overall.train_num_accelerators is missing"),
        ("[1]", r"\[0\] is no object"),
        ("[]", "no run of a training"),
        ("[{", "is not JSON"),
    ],
)
def test_damaged_reports_are_named(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "mlperf_storage_report.json"
    file.write_text(text)
    with pytest.raises(BadResult, match=words):
        read_report(file)
