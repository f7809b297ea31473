"""Figures are found in every shape that xFT's programs print, in milliseconds, whatever stands around them."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.xft.results import Figures, parse, parse_csv

NEW = (
    "=" * 50 + "qwen Final Performance" + "=" * 50 + "\n"
    "Inference Avg Latency:\t410.50 ms\nFirst token Avg Latency:\t90.25 ms\nNext token Max Latency:\t12.00 ms\n"
    "Next token Min Latency:\t9.50 ms\nNext token P90 Latency:\t11.00 ms\nNext token Avg Latency:\t10.33 ms\n"
    "Average Input Length:\t32.0\nTTFT:\t90.25 ms\nTPOT:\t10.33 ms\nThroughput:\t96.81 tokens/s\n" + "=" * 120 + "\n"
)
OLD = (
    "=" * 50 + "llama Final Performance" + "=" * 50 + "\n"
    "Inference Latency:\t1.25 s\nFirst token Avg Latency:\t90.00 ms\nNext token Max Latency:\t40.00 ms\n"
    "Next token Min Latency:\t36.00 ms\nNext token P90 Latency:\t39.00 ms\nNext token Avg Latency:\t37.42 ms\n"
    "Next token Latency:\t39.00 ms\nThroughput without 1st token:\t25.64 tokens/s\n"
)


def test_the_block_of_today() -> None:
    found = parse(NEW)
    assert found == Figures("block of benchmark.py", 10.33, 90.25, 410.5, 11.0, 12.0, 9.5, 32.0, 96.81)


def test_the_old_branch_has_seconds_and_calls_its_p90_the_next_token() -> None:
    found = parse(OLD)
    assert isinstance(found, Figures)
    assert (found.total_ms, found.next_ms, found.p90_ms) == (1250.0, 37.42, 39.0)


def test_the_cpp_example_drops_its_first_loop() -> None:
    loops = [(400.0, 50.0), (90.0, 10.0), (92.0, 1e-05)]
    text = "".join(f"[INFO] First token time: {a} ms\nnoise\n[INFO] Second token time: {b} ms\n" for a, b in loops)
    found = parse(text)
    assert isinstance(found, Figures)
    assert found.loops == ((90.0, 10.0), (92.0, 1e-05))
    assert found.first_ms == 91.0


def test_of_several_runs_the_last_one_counts() -> None:
    found = parse(OLD + NEW)
    assert isinstance(found, Figures)
    assert found.next_ms == 10.33
    assert found.source == "block of benchmark.py"


@given(
    prefix=st.sampled_from(["", "[0] ", "[1,0]<stdout>: ", "0: ", "\x1b[32m[INFO]\x1b[0m ", "[hbA:0] "]),
    first=st.floats(0.01, 1e6),
    following=st.floats(0.02, 1e6),
    noise=st.text(st.characters(codec="ascii", exclude_characters=":=\r\n"), max_size=40),
    ends=st.sampled_from(["\n", "\r\n"]),
)
def test_prefixes_colours_and_line_ends_change_nothing(
    prefix: str, first: float, following: float, noise: str, ends: str
) -> None:
    lines = ["=" * 50 + "m Final Performance" + "=" * 50, f"First token Avg Latency:\t{first:.2f} ms", noise,
             f"Next token Avg Latency:\t{following:.2f} ms", "[INFO] ENABLE_TUNED_COMM is enabled"]  # fmt: skip
    found = parse(ends.join(prefix + line for line in lines))
    assert isinstance(found, Figures)
    assert (found.first_ms, found.next_ms) == (float(f"{first:.2f}"), float(f"{following:.2f}"))


@given(st.text(max_size=400))
def test_no_text_breaks_it(text: str) -> None:
    assert isinstance(parse(text), Figures | str)
    assert isinstance(parse_csv(text), Figures | str)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "holds no figures"),
        ("Average Input Length:\t32.0\n", "holds no figures"),
        (NEW.replace("10.33", "nan"), "nan ms"),
        (NEW.replace("10.33", "0.00"), "0 ms"),
        (NEW.replace("10.33", "-3.00"), "-3 ms"),
        (NEW.replace("10.33", "13.50"), "contradicts itself"),
        ("Throughput:\t96.81 tokens/s\n", "neither the first token"),
    ],
)
def test_what_no_program_takes_is_no_figure(text: str, word: str) -> None:
    found = parse(text)
    assert isinstance(found, str)
    assert word in found


def row(**values: str) -> str:
    names = ["test_time", "infer_avg(ms)", "1st_avg(ms)", "2nd_max(ms)", "2nd_min(ms)", "2nd_P90(ms)", "2nd_avg(ms)",
             "throughput_wo_1st (tokens/s)", "model_name", "Fake_model", "Response"]  # fmt: skip
    out = io.StringIO()
    writer = csv.DictWriter(out, names)
    writer.writeheader()
    for next_ms in ("99.0", values["next_ms"]):
        writer.writerow({"test_time": "2026-01-01", "infer_avg(ms)": "400", "1st_avg(ms)": "90.5", "2nd_max(ms)": "100",
                         "2nd_min(ms)": "1", "2nd_P90(ms)": "11", "2nd_avg(ms)": next_ms,
                         "throughput_wo_1st (tokens/s)": "96.8", "model_name": "qwen", "Fake_model": "True",
                         "Response": 'a, "quoted"\nanswer'})  # fmt: skip
    return "\ufeff" + out.getvalue()


def test_the_csv_file_is_appended_to_and_its_last_row_counts() -> None:
    found = parse_csv(row(next_ms="10.33"))
    assert isinstance(found, Figures)
    assert (found.next_ms, found.first_ms, found.decode_tokens_per_s) == (10.33, 90.5, 96.8)


def test_a_csv_file_of_another_program_is_none() -> None:
    assert "no CSV file of benchmark.py" in str(parse_csv("a,b\n1,2\n"))
    assert "no whole line" in str(parse_csv("1st_avg(ms),2nd_avg(ms),model_name,Response\n"))
