"""What `tune mlperf run` finds wrong, or worth saying, before anything is started. DLIO and MPI are only described here."""

from dataclasses import replace
from pathlib import Path

import pytest

from runners.launch.mpi import Mpi
from runners.launch.mpirun import Mpirun
from runners.mlperf import opening
from runners.mlperf.installed import Dlio
from runners.mlperf.opening import Asked, opened
from runners.runner import EnvironmentProblem, Failure, UsageError

NAMES = frozenset({"record_length", "record_length_stdev", "read_threads", "batch_size", "computation_time", "data_loader"})


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    dlio = Dlio("/opt/bin/python", Path("/opt/dlio"), "2.0.0", NAMES, True, False, True)
    monkeypatch.setattr(opening, "find_dlio", lambda _python: dlio)
    monkeypatch.setattr(opening, "find_launcher", lambda *_given: Mpirun(Mpi("mpich", "5.0", ("mpirun",))))


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    return Asked(data=tmp_path / "data", results=tmp_path / "results")


def data_set(folder: Path, files: int, size: int = 1000) -> None:
    (folder / "train").mkdir(parents=True)
    for number in range(files):
        (folder / "train" / f"img_{number}_of_{files}.npz").write_bytes(b"x" * size)


def notes(asked: Asked) -> list[str]:
    with opened(asked, lambda _text: None) as session:
        return session.notes


def refused(asked: Asked) -> str:
    with pytest.raises(UsageError) as error:
        notes(asked)
    return str(error.value)


def test_a_folder_without_data_asks_for_a_number_and_names_the_rules(asked: Asked) -> None:
    message = refused(asked)
    assert "--files 0" in message
    assert "holds no data set for unet3d" in message
    assert "the rules ask for" in message


def test_more_files_than_there_are_is_not_what_was_meant(asked: Asked) -> None:
    data_set(asked.data, 20)
    assert "holds 20; name another folder" in refused(replace(asked, files=30))


def test_data_larger_than_the_disk_are_not_begun(asked: Asked) -> None:
    with pytest.raises(EnvironmentProblem, match="GiB left") as error:
        notes(replace(asked, files=10**7))
    assert "fewer --files" in error.value.mend
    assert not asked.data.exists()


def test_results_are_never_mixed_with_earlier_ones(asked: Asked) -> None:
    data_set(asked.data, 20)
    (asked.results / "training" / "unet3d" / "run" / "20260101_000000").mkdir(parents=True)
    assert "holds results already" in refused(asked)


@pytest.mark.parametrize(
    ("version", "below"), [("v2.0", "training/unet3d/run"), ("v1.0", "unet3d_h100"), ("v0.5", "unet3d_v100")]
)
def test_results_lie_where_the_versions_own_tools_put_them(asked: Asked, version: str, below: str) -> None:
    data_set(asked.data, 20)
    notes(replace(asked, version=version))
    assert (asked.results / below).is_dir()


@pytest.mark.parametrize(
    ("parameter", "words"),
    [
        ("reader.data_loader=tensorflow", "may be changed in OPEN only; with --open"),
        ("reader.batch_size=2", "in neither division; with --open"),
        ("reader.odirect=True", "DLIO 2.0.0 has no such parameter"),
        ("read_threads=2", "write it like reader.read_threads=8"),
    ],
)
def test_parameters_are_held_against_the_division_and_the_version(asked: Asked, parameter: str, words: str) -> None:
    data_set(asked.data, 20)
    assert words in refused(replace(asked, parameters=(parameter,)))


def test_what_makes_a_run_no_submission_is_said_first(asked: Asked) -> None:
    data_set(asked.data, 21)
    said = notes(replace(asked, open_division=True, parameters=("train.computation_time=0.1",)))
    assert any("21 files are too few" in each for each in said)
    assert any("have 1000 bytes where unet3d's have 146600628" in each for each in said)
    assert any("train.computation_time to be changed in neither division" in each for each in said)
    assert any("3 steps an epoch are few" in each for each in said)


def test_less_than_two_steps_are_no_run(asked: Asked) -> None:
    data_set(asked.data, 13)
    assert "less than two steps" in refused(asked)


def test_the_warm_up_of_v2_is_remembered(asked: Asked) -> None:
    data_set(asked.data, 20)
    assert any("--runs 6" in each for each in notes(replace(asked, runs=5)))
    assert not any("--runs 6" in each for each in notes(replace(asked, runs=6)))


def test_nothing_of_ours_stays(asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    data_set(asked.data, 20)
    notes(asked)
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.parametrize("end", [KeyboardInterrupt(), Failure("crash", "a rank died")])
@pytest.mark.parametrize("there", [False, True])
def test_a_data_set_that_was_not_finished_is_taken_away(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, end: KeyboardInterrupt | Failure, there: bool
) -> None:
    if there:
        (asked.data / "notes").mkdir(parents=True)

    def begin(*_given: object, **_more: object) -> Failure:
        data_set(asked.data, 3)
        if isinstance(end, Failure):
            return end
        raise end

    monkeypatch.setattr(opening, "generate", begin)
    with pytest.raises((KeyboardInterrupt, EnvironmentProblem)):
        notes(replace(asked, files=100))
    assert not (asked.data / "train").exists()
    assert asked.data.exists() == there
    assert (asked.data / "notes").exists() == there


def test_what_can_t_be_trained_on_is_not_generated(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "generate", lambda *_given, **_more: pytest.fail("was generated"))
    message = refused(replace(asked, files=4))
    assert message == "--files 4: is less than two steps for 1 accelerator with 7 samples a step"
    batch = ("reader.batch_size=3",)
    message = refused(replace(asked, files=4, accelerators=2, parameters=batch, open_division=True))
    assert message.endswith("for 2 accelerators with 3 samples a step")
    assert not asked.data.exists()


def test_data_go_into_no_file(asked: Asked) -> None:
    asked.data.write_text("")
    assert refused(replace(asked, files=100)) == f"--data {asked.data}: is no folder"


def test_other_epochs_than_the_workloads_are_no_submission(asked: Asked) -> None:
    data_set(asked.data, 20)
    assert not any("train.epochs" in note for note in notes(asked))
    (found,) = [note for note in notes(replace(asked, epochs=2, results=asked.results / "2")) if "train.epochs" in note]
    assert found.startswith("no submission: ")
