"""The dlio load: what it takes, which data it finds in a mount, and what it says of them before anything runs."""

from pathlib import Path

import pytest

from runners.mount.loads import Place, create
from runners.mount.loads.dlio import DlioLoad
from runners.mount.work import Epoch, Work
from runners.runner import EnvironmentProblem, UsageError


def load(*extra: tuple[str, str], name: str = "unet3d", data: str = "", accelerators: int = 1) -> DlioLoad:
    made = create(name, Work(data=data, accelerators=accelerators, extra=extra))
    assert isinstance(made, DlioLoad)
    return made


def data_set(folder: Path, files: int, size: int = 100, ending: str = "npz") -> None:
    (folder / "train").mkdir(parents=True)
    (folder / "valid").mkdir()
    for number in range(files):
        (folder / "train" / f"img_{number}_of_{files}.{ending}").write_bytes(b"x" * size)


def place(tmp_path: Path) -> Place:
    (tmp_path / "mnt").mkdir(exist_ok=True)
    (tmp_path / "scratch").mkdir(exist_ok=True)
    return Place(tmp_path / "mnt", tmp_path / "scratch")


@pytest.mark.parametrize(
    ("name", "model", "batch", "open_files"), [("dlio", "unet3d", 7, 4), ("unet3d", "unet3d", 7, 4), ("bert", "bert", 48, 1),
                                              ("resnet50", "resnet50", 400, 8), ("cosmoflow", "cosmoflow", 1, 4)]
)  # fmt: skip
def test_every_name_is_a_workload(name: str, model: str, batch: int, open_files: int) -> None:
    made = load(name=name)
    assert (made.workload.model, made.batch, made.open_files) == (model, batch, open_files)
    assert made.objective.metric == "samples_s"


def test_own_options_and_parameters_of_dlio_are_told_apart() -> None:
    made = load(
        ("accelerator", "a100"), ("steps", "60"), ("reader.read_threads", "8"), ("reader.batch_size", "2"), accelerators=3
    )
    assert made.workload.accelerator == "a100"
    assert made.batch == 2
    assert made.open_files == 24
    assert made.facts()["parameters"] == {"reader.batch_size": "2", "reader.read_threads": "8"}


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (("threads", "8"), "steps (steps an epoch)"),
        (("steps", "1"), "steps=1"),
        (("steps", "many"), "steps=many"),
        (("reader.batch_size", "0"), "reader.batch_size=0"),
        (("reader.batch_size", ""), "the value is empty"),
        (("accelerator", "v100"), "v2.0 has a100, h100"),
        (("model", "resnet"), "is none of"),
    ],
)
def test_options_that_can_not_be_used_are_refused(extra: tuple[str, str], words: str) -> None:
    with pytest.raises(UsageError) as error:
        load(extra)
    assert words in str(error.value)


def test_only_as_many_files_are_read_as_the_steps_take(tmp_path: Path) -> None:
    where = place(tmp_path)
    data_set(where.folder / "unet3d", 500, size=1000)
    made = load(("reader.batch_size", "2"), accelerators=2)
    facts = made.choose(where)
    assert facts == {"files": 200, "bytes": 200_000, "largest_file": 1000, "data_set": "unet3d"}
    assert made.largest == 1000


def test_too_few_steps_are_refused_with_the_number_of_files_that_would_do(tmp_path: Path) -> None:
    where = place(tmp_path)
    data_set(where.folder, 100)
    with pytest.raises(EnvironmentProblem, match="100 files, which give 14 steps") as error:
        load().choose(where)
    assert "350 files" in error.value.message
    assert "steps=N" in error.value.mend
    assert load(("steps", "14")).choose(where)["files"] == 98


def test_a_mount_without_data_names_the_command_that_makes_them(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="holds no data set of DLIO for unet3d") as error:
        load().choose(place(tmp_path))
    assert "tune mlperf run --model unet3d" in error.value.mend


def test_data_of_another_format_are_not_taken(tmp_path: Path) -> None:
    where = place(tmp_path)
    data_set(where.folder / "a", 60, ending="tfrecord")
    with pytest.raises(EnvironmentProblem):
        load().choose(where)
    assert load(("steps", "50"), name="cosmoflow").choose(where)["files"] == 50


def test_several_data_sets_have_to_be_chosen_from(tmp_path: Path) -> None:
    where = place(tmp_path)
    for name in ("a", "b"):
        data_set(where.folder / name, 400)
    with pytest.raises(UsageError, match="several data sets for unet3d: a, b"):
        load().choose(where)
    assert load(data="b").choose(where)["data_set"] == "b"
    with pytest.raises(UsageError, match="names no data set of DLIO"):
        load(data="c").choose(where)


def test_many_samples_a_file_take_few_files(tmp_path: Path) -> None:
    where = place(tmp_path)
    data_set(where.folder, 40, ending="tfrecord")
    assert load(name="resnet50").choose(where)["files"] == 16  # 50 steps of 400 samples, 1251 in a file


def test_facts_are_the_same_before_and_after_a_look() -> None:
    """A study is resumed only where they are."""
    made = load()
    before = made.facts()
    made.problems()
    assert made.facts() == before


def test_figures_tell_the_first_epoch_apart() -> None:
    metrics = {"utilisation": 80.0, "step_ms": 10.0, "first_step_s": 1.0}
    epochs = [Epoch(0, 1, 10, {**metrics, "samples_s": speed}) for speed in (10.0, 30.0)]
    found, samples = load().figures(epochs)
    assert samples == (10.0, 30.0)
    assert found["samples_s"] == 20.0
    assert found["first_epoch_samples_s"] == 10.0
    assert "first_epoch_samples_s" not in load().figures(epochs[:1])[0]
