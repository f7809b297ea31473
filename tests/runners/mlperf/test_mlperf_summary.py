"""summary.json of all versions, and what is said of those that can't be used."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runners.mlperf.fields import BadResult, as_number
from runners.mlperf.summary import read_summary

DATA = Path(__file__).parents[2] / "data" / "mlperf"
OLD = DATA / "v0.5" / "run-1" / "host-1" / "summary.json"
NEW = DATA / "v1.0" / "run-1" / "summary.json"
NEWEST = DATA / "v2.0" / "training" / "unet3d" / "run" / "20250702_090000" / "summary.json"


def changed(tmp_path: Path, source: Path, **values: Any) -> Path:
    """A summary with other values; a dot in a name, spelled __, leads into an object, and None takes a field out."""
    data = json.loads(source.read_text())
    for name, value in values.items():
        *way, last = name.split("__")
        inner = data
        for key in way:
            inner = inner[key]
        if value is None:
            del inner[last]
        else:
            inner[last] = value
    file = tmp_path / "summary.json"
    file.write_text(json.dumps(data))
    return file


@pytest.mark.parametrize(
    ("file", "version", "model", "accelerators", "hosts", "files"),
    [(OLD, "v0.5", "unet3d", 10, 1, 27900), (NEW, "v1.0", "", 3, 3, 28000), (NEWEST, "v2.0", "", 4, 2, 14000)],
)
def test_each_version_is_read(file: Path, version: str, model: str, accelerators: int, hosts: int, files: int) -> None:
    summary = read_summary(file)
    assert (summary.version, summary.model, summary.accelerators) == (version, model, accelerators)
    assert (summary.hosts, summary.files_train, summary.epochs) == (hosts, files, 5)
    assert summary.training is not None
    assert summary.training.failure == ""
    assert summary.training.passed is True
    assert len(summary.training.au) == len(summary.training.samples_per_second) == 5
    assert summary.training.io_mean == pytest.approx(summary.training.samples_per_second_mean * 146600628 / 2**20)


def test_what_v1_added_is_read() -> None:
    summary = read_summary(NEW)
    assert summary.host_memory == (125.375,) * 3
    assert summary.host_cpus == (64,) * 3
    assert summary.potential_caching == (False,) * 3
    assert summary.data_per_host == pytest.approx(1274.26, rel=1e-4)


def test_numbers_may_come_as_text(tmp_path: Path) -> None:
    summary = read_summary(changed(tmp_path, OLD, num_accelerators="20", metric__train_au_mean_percentage="97.5"))
    assert summary.accelerators == 20
    assert summary.training is not None
    assert summary.training.au_mean == 97.5


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"metric__train_au_percentage": None}, ("metric.train_au_percentage is missing",)),
        ({"num_accelerators": "many"}, ('num_accelerators is "many"', "a number")),
        ({"num_accelerators": 2.5}, ("num_accelerators is 2.5", "a whole number from 1")),
        ({"num_accelerators": 0}, ("num_accelerators is 0", "from 1")),
        ({"num_accelerators": True}, ("num_accelerators is true", "a number")),
        ({"metric__train_au_percentage": 91}, ("metric.train_au_percentage is 91", "a list of numbers")),
        ({"metric__train_au_percentage": [91, None, 91, 91, 91]}, ("metric.train_au_percentage[1] is null", "a number")),
        ({"metric__train_au_mean_percentage": float("nan")}, ("metric.train_au_mean_percentage is NaN", "a number")),
        ({"metric__train_throughput_mean_samples_per_second": float("inf")}, ("Infinity", "a number")),
        ({"metric": []}, ("metric is a list", "an object")),
        ({"metric": {}}, ("metric.train_au_percentage is missing", "may not have ended")),
        ({"metric": None}, ("is no summary of DLIO",)),
        ({"epochs": 4}, ("epochs says 4", "holds 5")),
        ({"hostname": {}}, ("hostname is an object", "text")),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence_with_file_and_field(
    tmp_path: Path, values: dict[str, Any], words: tuple[str, ...]
) -> None:
    file = changed(tmp_path, OLD, **values)
    with pytest.raises(BadResult) as error:
        read_summary(file)
    message = str(error.value)
    assert str(file) in message
    assert "\n" not in message
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "is not JSON"),
        (b'{"metric": {', "is not JSON (line 1"),
        (b"[1]", "holds a list"),
        (b"\xff\xfe{}", "is not text in UTF-8"),
        (b"[" * 100000, "is not JSON"),
    ],
)
def test_files_that_are_no_summary(tmp_path: Path, text: bytes, words: str) -> None:
    (tmp_path / "summary.json").write_bytes(text)
    with pytest.raises(BadResult, match=r"summary\.json") as error:
        read_summary(tmp_path / "summary.json")
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"train_au_percentage": [0.0, 0.0, 0.0, 0.0, 0.0], "train_au_mean_percentage": 0.0}, "epoch 1, 2, 3, 4, 5 is 0"),
        ({"train_au_percentage": [90.0, 90.0, 0.0, 90.0, 90.0]}, "epoch 3 is 0"),
        ({"train_throughput_mean_samples_per_second": 0}, "nothing was read"),
        ({"train_au_percentage": [190.0, 90.0, 90.0, 90.0, 90.0]}, "190.0 % can't be"),
    ],
)
def test_a_zero_is_a_failure_and_no_measurement(tmp_path: Path, values: dict[str, Any], words: str) -> None:
    file = changed(tmp_path, OLD, **{f"metric__{name}": value for name, value in values.items()})
    training = read_summary(file).training
    assert training is not None
    assert words in training.failure


def test_a_run_without_an_epoch_is_a_failure(tmp_path: Path) -> None:
    values = {"train_au_percentage": [], "train_throughput_samples_per_second": []}
    training = read_summary(changed(tmp_path, OLD, epochs=0, **{f"metric__{k}": v for k, v in values.items()})).training
    assert training is not None
    assert training.failure == "no epoch was finished"


def test_a_run_that_only_wrote_checkpoints_has_no_training(tmp_path: Path) -> None:
    metric = {"save_checkpoint_io_mean_GB_per_second": 2.0, "save_checkpoint_duration_mean_seconds": 3.0}
    assert read_summary(changed(tmp_path, NEWEST, metric=metric, epochs=None)).training is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=8), lambda x: st.lists(x, max_size=3), max_leaves=6
    )
)
def test_a_number_is_a_finite_number_or_none(value: object) -> None:
    found = as_number(value)
    assert found is None or (isinstance(found, float) and -1e400 < found < 1e400)


_BASE = json.loads(NEW.read_text())
_ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**9) | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sampled_from(sorted(_BASE) + [f"metric.{name}" for name in sorted(_BASE["metric"])]), _ANY, st.booleans())
def test_any_field_of_any_kind_ends_in_a_summary_or_a_sentence(tmp_path: Path, name: str, value: Any, remove: bool) -> None:
    data = deepcopy(_BASE)
    outer, _, inner = name.partition(".")
    target, key = (data["metric"], inner) if inner else (data, outer)
    if remove:
        del target[key]
    else:
        target[key] = value
    file = tmp_path / "summary.json"
    file.write_text(json.dumps(data))
    try:
        message, accelerators = "", read_summary(file).accelerators
    except BadResult as error:
        message, accelerators = str(error), 0
    assert accelerators >= 1 or str(file) in message
    assert "\n" not in message
