"""What DLIO leaves of each rank's steps, and the figures made from it: the same for every version of DLIO."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runners.mlperf.fields import BadResult
from runners.mlperf.launching import progress
from runners.mlperf.output import output_ranks, read_epochs


def write(
    folder: Path, ranks: list[list[list[float]]], compute: float = 0.5, times_name: str = "per_epoch_stats.json"
) -> None:
    """``ranks``: for each rank, for each epoch, the seconds of its steps."""
    for rank, epochs in enumerate(ranks):
        record: dict[str, Any] = {"hostname": "client1", "host_memory_GB": 24.0}
        for number, steps in enumerate(epochs, 1):
            blocks = {"block1": steps}
            record[str(number)] = {
                "load": {"block1": [step - compute for step in steps]},
                "proc": blocks,
                "compute": {"block1": [compute] * len(steps)},
                "throughput": {"block1": 1.0},
                "au": {"block1": 90.0},
            }
        (folder / f"{rank}_output.json").write_text(json.dumps(record))
    times = {
        str(number): {
            "start": f"2026-01-0{number}T10:00:00.000000",
            "block1": {"start": f"2026-01-0{number}T10:00:01.000000", "end": f"2026-01-0{number}T10:00:09.500000"},
            "ckpt1": {"start": f"2026-01-0{number}T10:00:10.000000", "end": f"2026-01-0{number}T10:00:11.000000"},
            "end": f"2026-01-0{number}T10:00:12.000000",
        }
        for number in range(1, len(ranks[0]) + 1)
    }
    (folder / times_name).write_text(json.dumps(times))


def test_a_step_takes_as_long_as_its_slowest_rank_and_the_first_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, [[[9.0, 1.0, 0.5, 0.5]], [[5.0, 0.5, 2.0, 0.5]]])
    (epoch,) = read_epochs(tmp_path, batch=4, ranks=2)
    assert epoch.steps == 4
    assert epoch.samples == 32
    assert epoch.first_step == 9.0
    assert epoch.median_step == 1.0
    assert epoch.samples_per_second == pytest.approx(3 * 4 * 2 / 3.5)
    assert epoch.au == pytest.approx(100 * 1.5 / 3.5)
    assert epoch.ended - epoch.began == 8.5


@pytest.mark.parametrize("name", ["per_epoch_stats.json", "0_per_epoch_stats.json"])
def test_epochs_are_told_apart_in_both_spellings(tmp_path: Path, name: str) -> None:
    write(tmp_path, [[[1.0, 1.0], [1.0, 0.5], [1.0, 0.5]]], times_name=name)
    epochs = read_epochs(tmp_path, batch=1, ranks=1)
    assert [epoch.number for epoch in epochs] == [1, 2, 3]
    assert [epoch.au for epoch in epochs] == [50.0, 100.0, 100.0]


def test_blocks_that_checkpoints_part_are_one_epoch(tmp_path: Path) -> None:
    write(tmp_path, [[[1.0, 1.0, 1.0]]])
    file = tmp_path / "0_output.json"
    record = json.loads(file.read_text())
    for name in ("load", "proc", "compute"):
        whole = record["1"][name].pop("block1")
        record["1"][name] |= {"block10": whole[2:], "block2": whole[:2]}
    file.write_text(json.dumps(record))
    (epoch,) = read_epochs(tmp_path, batch=1, ranks=1)
    assert epoch.steps == 3


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        ([[[1.0, 1.0]], [[1.0, 1.0, 1.0]]], "different numbers of steps: 2, 3"),
        ([[[1.0, 1.0], [1.0, 1.0]], [[1.0, 1.0]]], "rank 1 of 1"),
        ([[[1.0]]], "has 1 steps"),
        ([[]], "the training did not run"),
        ([[[1.0, -1.0]]], "a time below 0"),
    ],
)
def test_ranks_that_do_not_agree_are_no_result(tmp_path: Path, ranks: list[list[list[float]]], words: str) -> None:
    write(tmp_path, ranks)
    with pytest.raises(BadResult, match=words):
        read_epochs(tmp_path, batch=1, ranks=len(ranks))


def test_a_rank_that_left_nothing_is_named(tmp_path: Path) -> None:
    write(tmp_path, [[[1.0, 1.0]]])
    assert output_ranks(tmp_path) == [0]
    with pytest.raises(BadResult, match=r"1_output\.json: can't be read"):
        read_epochs(tmp_path, batch=1, ranks=2)


def test_times_that_are_none_are_named(tmp_path: Path) -> None:
    write(tmp_path, [[[1.0, 1.0]]])
    (tmp_path / "per_epoch_stats.json").write_text('{"1": {"block1": {"start": "soon", "end": "later"}}}')
    with pytest.raises(BadResult, match="'soon' where a time is expected"):
        read_epochs(tmp_path, batch=1, ranks=1)
    (tmp_path / "per_epoch_stats.json").unlink()
    with pytest.raises(BadResult, match="holds no per_epoch_stats"):
        read_epochs(tmp_path, batch=1, ranks=1)


_STEP = st.floats(0.001, 100)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.integers(2, 12).flatmap(lambda n: st.lists(st.lists(_STEP, min_size=n, max_size=n), min_size=1, max_size=3)),
    st.integers(1, 9),
)
def test_a_utilisation_is_a_share_and_speed_follows_from_it(tmp_path: Path, ranks: list[list[float]], batch: int) -> None:
    least = min(step for steps in ranks for step in steps)
    write(tmp_path, [[steps] for steps in ranks], compute=least / 2)
    (epoch,) = read_epochs(tmp_path, batch=batch, ranks=len(ranks))
    assert 0 < epoch.au <= 100
    most = len(ranks) * batch / (least / 2)
    assert epoch.samples_per_second == pytest.approx(most * epoch.au / 100)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "[INFO] 2026-01-01T10:00:00 Starting epoch 1: 50 steps expected [/x/statscounter.py:192]",
            "Starting epoch 1: 50 steps expected",
        ),
        ("[OUTPUT] Ending epoch 2 - 50 steps completed in 1.20 s", "Ending epoch 2 - 50 steps completed in 1.20 s"),
        ("[INFO] Rank 0 step 3 processed", ""),
    ],
)
def test_progress_is_what_a_user_wants_to_know(line: str, said: str) -> None:
    assert progress(line) == said
