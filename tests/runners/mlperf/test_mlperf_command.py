"""DLIO's command lines: parameters in the names of the version that is there, values as Hydra reads them."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from runners.mlperf.command import arguments, configuration, known, parameter, write_configuration
from runners.mlperf.installed import Dlio
from runners.mlperf.workloads import WORKLOADS, find
from runners.runner import EnvironmentProblem, UsageError

COMMON = {
    *("num_files_train", "data_folder", "read_threads", "batch_size", "prefetch_size", "epochs", "computation_time", "folder"),
    *("generate_data", "train"),
}


def dlio(version: str = "2.0.0") -> Dlio:
    new = {"record_length_bytes", "record_length_bytes_stdev", "record_length_bytes_resize", "odirect"}
    names = COMMON | (new if version != "2.0.0" else {"record_length", "record_length_stdev", "record_length_resize"})
    return Dlio("python3", Path("/opt/dlio"), version, frozenset(names), version == "2.0.0", False, True)


@pytest.mark.parametrize("spelled", ["dataset.record_length", "dataset.record_length_bytes"])
@pytest.mark.parametrize("end", ["", "_stdev", "_resize"])
@pytest.mark.parametrize(("version", "name"), [("2.0.0", "record_length"), ("2.0.1", "record_length_bytes")])
def test_record_lengths_are_named_as_the_version_does(spelled: str, end: str, version: str, name: str) -> None:
    assert known({spelled + end: "4194304"}, dlio(version)) == {f"dataset.{name}{end}": "4194304"}


@pytest.mark.parametrize("name", ["reader.odirect", "reader.read_thread", "dataset.record_lenght"])
def test_a_parameter_that_would_do_nothing_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="it would do nothing"):
        known({name: "1"}, dlio())


def test_a_newer_version_has_more() -> None:
    assert known({"reader.odirect": "True"}, dlio("2.0.1")) == {"reader.odirect": "True"}


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("reader.read_threads=8", ("reader.read_threads", "8")),
        ("++workload.reader.read_threads=8", ("reader.read_threads", "8")),
        ("workload.checkpoint.checkpoint_folder=/mnt/a=b", ("checkpoint.checkpoint_folder", "/mnt/a=b")),
        ("train.computation_time=0.05", ("train.computation_time", "0.05")),
    ],
)
def test_parameters_as_people_write_them(text: str, pair: tuple[str, str]) -> None:
    assert parameter(text) == pair


@pytest.mark.parametrize("text", ["", "reader", "read_threads=8", "reader.read_threads=", "a.b=\n", "hydra/x=1", "a .b=1"])
def test_what_is_no_parameter_is_said_so(text: str) -> None:
    with pytest.raises(UsageError, match="--param"):
        parameter(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("reader.batch_size=two", "must be a whole number"),
        ("reader.read_threads=-1", "must be a whole number"),
        ("train.total_training_steps=9999999999999999999", "must be a whole number"),
        ("train.computation_time=soon", "must be a number"),
        ("train.computation_time=1e9", "must be a number"),
        ("dataset.record_length=4M", "must be a number"),
        ("train.epochs=3", "is set by tune itself"),
        ("dataset.num_files_train=3", "is set by tune itself"),
        ("workflow.train=False", "is set by tune itself"),
    ],
)
def test_values_that_figures_are_made_with_are_numbers_and_ours(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parameter(text)


@given(st.text(max_size=40))
def test_any_text_is_a_parameter_or_refused(text: str) -> None:
    try:
        name, value = parameter(text)
    except UsageError:
        return
    assert "." in name
    assert value


@pytest.mark.parametrize("version", ["2.0.0", "2.0.1"])
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda each: f"{each.version}-{each.model}-{each.accelerator}")
def test_the_configuration_is_the_workload(tmp_path: Path, version: str, workload) -> None:  # type: ignore[no-untyped-def]
    write_configuration(tmp_path, workload, dlio(version))
    written = yaml.safe_load((tmp_path / "workload" / f"{workload.model}_{workload.accelerator}.yaml").read_text())
    assert written == configuration(workload, dlio(version))
    assert written["reader"]["batch_size"] == workload.batch
    assert written["train"]["computation_time"] == workload.computation_time
    assert written["metric"]["au"] == workload.threshold / 100
    length = "record_length" if version == "2.0.0" else "record_length_bytes"
    assert written["dataset"][length] == workload.sample.length
    assert f"workload: {workload.model}_{workload.accelerator}" in (tmp_path / "config.yaml").read_text()


def test_values_keep_their_meaning_in_hydras_grammar() -> None:
    given = {"dataset.data_folder": "/mnt/it's here, [really]{x}", "reader.read_threads": "8"}
    words = arguments(dlio(), Path("/conf"), find("unet3d"), given, Path("/out/a b"), kept="configs")
    assert r"++workload.dataset.data_folder='/mnt/it\'s here, [really]{x}'" in words
    assert "++workload.reader.read_threads=8" in words
    assert "hydra.run.dir='/out/a b'" in words
    assert "--config-path=/conf" in words


_PLAIN = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=30)


@given(_PLAIN)
def test_hydra_reads_any_path_back(name: str) -> None:
    parser_module = pytest.importorskip("hydra.core.override_parser.overrides_parser")
    words = arguments(dlio(), Path("/c"), find("unet3d"), {"dataset.data_folder": f"/{name}"}, Path("/o"), kept="k")
    parsed = parser_module.OverridesParser.create().parse_override(words[-1])
    found = parsed.value()
    assert str(getattr(found, "text", found)) == f"/{name}"


@pytest.mark.parametrize(("text", "value"), [("8", 8), ("0.05", 0.05), ("True", True)])
def test_numbers_and_flags_stay_what_they_are(text: str, value: object) -> None:
    parser_module = pytest.importorskip("hydra.core.override_parser.overrides_parser")
    words = arguments(dlio(), Path("/c"), find("unet3d"), {"reader.read_threads": text}, Path("/o"), kept="k")
    assert parser_module.OverridesParser.create().parse_override(words[-1]).value() == value


@pytest.mark.parametrize(
    ("model", "torch", "tensorflow", "words"), [("unet3d", False, True, "PyTorch"), ("cosmoflow", True, False, "TensorFlow")]
)
def test_a_format_that_nothing_here_reads_is_said_before_the_run(
    model: str, torch: bool, tensorflow: bool, words: str
) -> None:
    lacking = Dlio("python3", Path("/opt/dlio"), "2.0.0", frozenset(COMMON), True, tensorflow, torch)
    with pytest.raises(EnvironmentProblem, match=words) as error:
        lacking.refuse(find(model))
    assert "pip install" in error.value.mend
