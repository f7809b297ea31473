"""What ds_nvme_tune printed and logged on real runs is read right; whatever else it may have left does no harm."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.aio import ds_nvme_tune as tool
from runners.aio import opponents
from runners.aio.ds_logs import (
    Logs,
    config_of,
    parse_name,
    parse_printed,
    parse_speed,
    read_logs,
    setting_of,
    winner,
)
from runners.aio.options import Options
from runners.aio.pasted import as_flag
from runners.opponent import Allowance
from runners.process import Completed
from runners.runner import Failure, Problem, UsageError

RECORDED = Path(__file__).parents[2] / "data" / "aio" / "ds_nvme_tune"
PRINTED = (RECORDED / "printed.txt").read_text()
READ, WRITE = (RECORDED / "read.txt").read_text(), (RECORDED / "write.txt").read_text()
NO_FOLDER, HUNG = (RECORDED / "no_folder.txt").read_text(), (RECORDED / "hung.txt").read_text()
PRINTED_CONFIG = {
    "block_size": 1 << 20,
    "queue_depth": 8,
    "intra_op_parallelism": 2,
    "single_submit": False,
    "overlap_events": True,
}


def log(folder: Path, name: str, text: str) -> None:
    place = folder / f"_aio_bench_{name.split('_')[0]}_logs"
    place.mkdir(parents=True, exist_ok=True)
    (place / name).write_text(text)


def speed(way: str, value: float) -> str:
    return (
        f"args = Namespace()\nTask {way} Speed = 99.0 GB/sec\nE2E {way} Latency = 0.1 sec\nE2E {way} Speed = {value} GB/sec\n"
    )


def test_a_printed_answer_is_read() -> None:
    printed = parse_printed(PRINTED)
    assert printed is not None
    assert (printed.read, printed.write) == (1.10, 2.67)
    assert printed.block["num_threads"] == 2
    assert printed.block["single_submit"] == "false"
    assert setting_of(printed.block) == PRINTED_CONFIG
    assert json.loads(printed.text) == {"aio": printed.block}


def test_an_answer_in_todays_names_is_read_too() -> None:
    assert setting_of({**PRINTED_CONFIG}) == PRINTED_CONFIG


@pytest.mark.parametrize(
    "change",
    [
        {"num_threads": None},
        {"num_threads": True},
        {"num_threads": 0},
        {"queue_depth": "8"},
        {"block_size": 1 << 40},
        {"single_submit": "maybe"},
        {"overlap_events": 1},
    ],
)
def test_an_answer_that_is_none(change: dict[str, object]) -> None:
    printed = parse_printed(PRINTED)
    assert printed is not None
    assert setting_of({**printed.block, **change}) is None


@given(st.integers(0, len(PRINTED.rstrip()) - 1))
def test_an_answer_cut_short_is_none(length: int) -> None:
    assert parse_printed(PRINTED[:length]) is None


@given(st.text(max_size=200), st.text(max_size=200))
def test_garbage_is_no_answer_and_never_an_error(before: str, after: str) -> None:
    parse_printed(before + after)
    parse_printed(f"Best performance (GB/sec): read = {before}, write = 1\n{{{after}")
    found = parse_printed(f"{before}\n{PRINTED}\n{after}")
    assert found is None or isinstance(found.block, dict)


@given(
    st.dictionaries(st.sampled_from([*PRINTED_CONFIG, "num_threads"]), st.none() | st.booleans() | st.integers() | st.text())
)
def test_a_block_of_any_shape_gives_a_sane_setting_or_none(block: dict[str, object]) -> None:
    config = setting_of(block)
    if config is not None:
        assert set(config) == set(PRINTED_CONFIG)
        assert all(isinstance(config[name], bool) for name in ("single_submit", "overlap_events"))


def test_speeds_in_recorded_logs() -> None:
    assert parse_speed(READ) == pytest.approx(0.9505, abs=1e-3)
    assert (parse_speed(WRITE) or 0) > 0
    assert parse_speed(NO_FOLDER) is None
    assert parse_speed(HUNG) is None


@pytest.mark.parametrize("figure", ["nan", "inf", "-1.0", "fast", ""])
def test_figures_that_are_none(figure: str) -> None:
    assert parse_speed(f"E2E Read Speed = {figure} GB/sec\n") is None


@given(st.text())
def test_any_log_gives_a_finite_speed_or_none(text: str) -> None:
    for each in (text, f"E2E Write Speed = {text} GB/sec\n"):
        value = parse_speed(each)
        assert value is None or (math.isfinite(value) and value >= 0)


def test_names_of_logs() -> None:
    name = "read_block_overlap_ftd1_d32_bs8M_p4.txt"
    assert parse_name(name, "read") == ("block", "overlap", 1, 32, 8 << 20, 4)
    assert config_of(("single", "sequential", 1, 32, 8 << 20, 4)) == {
        "block_size": 8 << 20,
        "queue_depth": 32,
        "intra_op_parallelism": 4,
        "single_submit": True,
        "overlap_events": False,
    }
    assert parse_name(name, "write") is None
    assert parse_name("notes.txt", "read") is None


@given(st.text(max_size=60), st.sampled_from(["read", "write"]))
def test_any_name_is_a_setting_or_none(name: str, way: str) -> None:
    assert parse_name(name, way) is None
    key = parse_name(f"{way}_block_overlap_ftd1_d32_bs{name}_p4.txt", way)
    assert key is None or key[4] >= 0


def test_the_winner_is_the_largest_sum(tmp_path: Path) -> None:
    for threads, read, write in ((1, 1.0, 3.0), (2, 1.4, 2.7), (4, 2.0, 1.0)):
        log(tmp_path, f"read_block_overlap_ftd1_d32_bs1M_p{threads}.txt", speed("Read", read))
        log(tmp_path, f"write_block_overlap_ftd1_d32_bs1M_p{threads}.txt", speed("Write", write))
    log(tmp_path, "read_block_overlap_ftd1_d128_bs1M_p1.txt", speed("Read", 9.0))  # its write is still to come
    (tmp_path / "_aio_bench_read_logs" / "notes.txt").write_text(speed("Read", 99.0))
    logs = read_logs(tmp_path)
    assert winner(logs) == (("block", "overlap", 1, 32, 1 << 20, 2), 1.4, 2.7)
    assert (logs.done, logs.settings) == (7, 4)


def test_while_nothing_was_written_the_best_read_stands(tmp_path: Path) -> None:
    log(tmp_path, "read_block_overlap_ftd1_d8_bs1M_p1.txt", speed("Read", 1.0))
    log(tmp_path, "read_single_overlap_ftd1_d8_bs1M_p1.txt", speed("Read", 1.1))
    log(tmp_path, "write_block_overlap_ftd1_d8_bs1M_p1.txt", "")
    assert winner(read_logs(tmp_path)) == (("single", "overlap", 1, 8, 1 << 20, 1), 1.1, None)


def test_when_all_runs_failed_there_is_no_winner(tmp_path: Path) -> None:
    for way in ("read", "write"):
        for threads in (1, 2):
            log(tmp_path, f"{way}_block_overlap_ftd1_d8_bs1M_p{threads}.txt", NO_FOLDER)
    logs = read_logs(tmp_path)
    assert winner(logs) is None
    assert (logs.done, logs.settings) == (0, 0)
    assert winner(read_logs(tmp_path / "nothing")) is None


def test_stale_logs_of_another_sweep_do_not_confuse(tmp_path: Path) -> None:
    """With unequal numbers of logs the tool itself breaks down."""
    log(tmp_path, "read_block_overlap_ftd1_d8_bs1M_p1.txt", speed("Read", 1.0))
    log(tmp_path, "write_block_overlap_ftd1_d8_bs1M_p1.txt", speed("Write", 2.0))
    log(tmp_path, "write_block_sequential_ftd1_d64_bs4M_p1.txt", speed("Write", 90.0))
    assert winner(read_logs(tmp_path)) == (("block", "overlap", 1, 8, 1 << 20, 1), 1.0, 2.0)


def test_a_hung_run_leaves_its_last_words(tmp_path: Path) -> None:
    log(tmp_path, "read_block_overlap_ftd1_d8_bs1M_p1.txt", speed("Read", 1.0))
    log(tmp_path, "read_block_overlap_ftd1_d70000_bs1M_p1.txt", HUNG)
    assert read_logs(tmp_path).dying == "Assertion `submit_ret > 0' failed."


def test_logs_that_are_no_text_or_no_files(tmp_path: Path) -> None:
    place = tmp_path / "_aio_bench_read_logs"
    (place / "read_block_overlap_ftd1_d9_bs1M_p1.txt").mkdir(parents=True)
    (place / "read_block_overlap_ftd1_d8_bs1M_p1.txt").write_bytes(b"\xff\xfe\n" + speed("Read", 1.5).encode())
    assert list(read_logs(tmp_path).read.values()) == [1.5]


def watch(folder: Path, size: int = 100, limit: int = 10**9) -> tool._Watch:
    return tool._Watch(folder, [folder], size, 4, Allowance(60.0, limit), lambda _text: None)


def test_bytes_are_counted_with_the_warm_up(tmp_path: Path) -> None:
    (tmp_path / "_aio_read_100.pt.0_0").write_bytes(b"r" * 100)
    (tmp_path / "_aio_write_100.pt.0_0").write_bytes(b"w" * 30)
    for threads in (1, 2):
        log(tmp_path / "logs", f"write_block_overlap_ftd1_d8_bs1M_p{threads}.txt", speed("Write", 2.0))
    assert watch(tmp_path).written(watch(tmp_path).logs()) == 100 + 2 * 2 * 100
    log(tmp_path / "logs", "write_block_overlap_ftd1_d8_bs1M_p4.txt", "")  # under way
    assert watch(tmp_path).written(watch(tmp_path).logs()) == 100 + 2 * 2 * 100 + 30
    assert not watch(tmp_path, limit=730)()
    assert watch(tmp_path, limit=729)(), "the run under way may write 200 bytes"


def test_how_it_ended_is_said(tmp_path: Path) -> None:
    error = (RECORDED / "no_folder_stderr.txt").read_text()
    crashed = Completed(("ds_nvme_tune",), 1, "", error, 3.0)
    said = tool._pick(crashed, watch(tmp_path), {})
    assert said.config is None
    assert not said.finished
    assert said.note.startswith("broke down with 0 of 8 runs done: TypeError: unsupported operand")
    silent = Completed(("ds_nvme_tune",), 0, "", "", 3.0)
    assert "exit code 0" in tool._pick(silent, watch(tmp_path), {}).note
    stopped = tool._pick(Failure("timeout", "stopped", "", 60.0), watch(tmp_path), {})
    assert stopped.note == "stopped after 1m00s, 0 of 8 runs done; it had no figure to choose by"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('{"block_size": ["1M"], "queue_depth": [8, 9], "io_parallel": [1, 2, 4]}', 6),
        ("[]", 0),
        ("3", 0),
        ("{", 0),
        ('{"a": 1}', 0),
    ],
)
def test_settings_planned(tmp_path: Path, text: str, count: int) -> None:
    path = tmp_path / "sweep.json"
    path.write_text(text)
    assert tool.planned(path) == count
    assert tool.planned(None) == 64
    assert tool.planned(tmp_path / "none") == 0


def test_without_deepspeed_it_is_a_problem_with_a_mend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "find_program", lambda: None)
    problem = tool.compete([tmp_path], None, None, Allowance(5.0, 1 << 30), print)
    assert isinstance(problem, Problem)
    assert problem.mend == "pip install deepspeed"


def test_options_are_checked(tmp_path: Path) -> None:
    for bad in ("64X", "1000", "0", "1.5M"):
        with pytest.raises(UsageError, match="--ds-io-size"):
            opponents.check(Options(), opponents.OpponentOptions(ds_io_size=bad))
    with pytest.raises(UsageError, match="--ds-sweep-config"):
        opponents.check(Options(), opponents.OpponentOptions(ds_sweep_config=str(tmp_path / "none.json")))
    opponents.check(Options(), opponents.OpponentOptions(ds_io_size="64M"))


def test_strings_for_booleans() -> None:
    assert [as_flag(v) for v in (True, "true", "False", "yes", 1, None)] == [True, True, False, None, None, None]


def test_the_logs_dataclass_counts_only_results() -> None:
    key = ("block", "overlap", 1, 8, 1 << 20, 1)
    assert Logs({key: 1.0}, {key: None}).done == 1
