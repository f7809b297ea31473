"""`tune export` takes the options of the study's target alone: those of others would do nothing, in silence."""

import pytest

from tuner.cli.exporting import refuse_foreign
from tuner.errors import WrongUsage


@pytest.mark.parametrize(
    ("target", "given", "said"),
    [
        ("xft", {"hosts": "a,b", "slurm": False}, "--hosts a,b: changes nothing in the files of xft"),
        ("xft", {"ppn": 2}, "--ppn 2: changes nothing in the files of xft"),
        ("aio", {"slurm": True}, "--slurm: changes nothing in the files of aio"),
        ("rclone", {"alluxio_version": "3.6"}, "--alluxio-version 3.6: changes nothing in the files of rclone"),
    ],
)
def test_options_of_other_targets_are_refused(target: str, given: dict[str, object], said: str) -> None:
    with pytest.raises(WrongUsage) as caught:
        refuse_foreign(target, given)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("target", "given"),
    [("xft", {"mpi": "mpich", "slurm": True}), ("oneccl", {"hosts": "a,b", "ppn": 2}), ("aio", {"ranks": 4, "slurm": False}),
     ("rclone", {})],
)  # fmt: skip
def test_its_own_are_taken(target: str, given: dict[str, object]) -> None:
    refuse_foreign(target, given)
