"""oneCCL's benchmark: tables and CSV files of every family of versions, and what must not be used of them.

The tables in tests/data/oneccl follow the formats of the program's source by version; that of 2021.10 is from two hosts.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.oneccl.benchmark_output import Table, read_csv, read_table
from runners.runner import Failure

DATA = Path(__file__).parents[2] / "data" / "oneccl"


def text(name: str) -> str:
    return (DATA / name).read_text()


def table(name: str, returncode: int = 0, stderr: str = "") -> Table:
    found = read_table(text(name), returncode, stderr)
    assert isinstance(found, Table), found
    return found


def failure(found: Table | Failure) -> Failure:
    assert isinstance(found, Failure), found
    return found


@pytest.mark.parametrize("name", ["table_2021.14.txt", "table_2021.14_ext.txt", "table_2022.txt"])
def test_tables_with_elements(name: str) -> None:
    found = table(name)
    assert (found.collective, found.ranks) == ("allreduce", 2)
    assert [(row.size, row.elements, row.repetitions) for row in found.rows] == [
        (1024, 256, 100),
        (65536, 16384, 100),
        (4194304, 1048576, 100),
    ]
    last = found.rows[-1]
    assert (last.average, last.fastest, last.slowest) == pytest.approx((7719.03e-6, 7702.15e-6, 7735.90e-6))
    assert last.decisive == last.slowest
    assert last.deviation == pytest.approx(0.0022)
    assert (last.dtype, last.reduction) == ("float32", "sum")
    assert found.options["iter_policy"] == "off"


def test_table_without_elements() -> None:
    found = table("table_2021.10.txt")
    assert (found.collective, found.ranks, len(found.rows)) == ("allreduce", 2, 8)
    assert found.rows[0].size == 4
    assert found.rows[0].slowest == pytest.approx(30.86e-6)
    assert {row.repetitions for row in found.rows} == {16}
    assert {row.elements for row in found.rows} == {None}


def test_table_of_means_only() -> None:
    found = table("table_2021.1.txt")
    assert found.collective == "bcast"
    assert [(row.size, row.slowest, row.repetitions) for row in found.rows] == [(8, None, None), (1024, None, None)]
    assert found.rows[1].decisive == pytest.approx(14.06e-6)  # both buffers, not the mean of one


@pytest.mark.parametrize("name", ["csv_2021.1.csv", "csv_2021.5.csv", "csv_2021.14.csv"])
def test_csv_files(name: str) -> None:
    found = read_csv(text(name))
    assert isinstance(found, Table)
    assert found.ranks == 2
    first, last = found.rows
    if name == "csv_2021.1.csv":
        assert (found.collective, last.size, last.elements, last.average) == ("bcast", 1024, 256, pytest.approx(14.06e-6))
    else:
        assert (found.collective, first.size, first.repetitions) == ("allreduce", 1024, 100)
        assert first.slowest == pytest.approx(8.3e-6)
    if name == "csv_2021.14.csv":
        assert (last.size, last.average) == (1 << 30, pytest.approx(1.9826))


def test_table_and_csv_agree() -> None:
    from_csv = read_csv(text("csv_2021.14.csv"))
    assert isinstance(from_csv, Table)
    printed, written = table("table_2021.14.txt").rows[0], from_csv.rows[0]
    assert (printed.size, printed.average, printed.slowest) == pytest.approx((written.size, written.average, written.slowest))


def test_crash_with_a_bus_error_uses_no_row() -> None:
    found = failure(read_table(text("table_bus_error.txt"), 255))
    assert found.kind == "crash"
    assert "/dev/shm is too small" in found.reason
    assert "none of its rows are used" in found.reason


@pytest.mark.parametrize("name", ["table_2021.14.txt", "table_2021.10.txt", "table_2021.1.txt", "table_2022.txt"])
def test_every_cut_is_a_failure(name: str) -> None:
    whole = text(name)
    end = whole.index("# All done") + len("# All done")
    for cut in range(0, end, 7):
        assert failure(read_table(whole[:cut], 0)).kind in ("crash", "wrong")
    assert isinstance(read_table(whole[:end], 0), Table)
    assert failure(read_table(whole, 143)).kind == "crash"


def test_status_and_cause_are_said() -> None:
    stderr = "(4711): benchmark.cpp:main:90: ASSERT 'coll' FAILED: create_colls error, unknown coll name: allredcue\n"
    found = failure(read_table("options:\n  processes:      2\n", 255, stderr))
    assert "ended with status 255; none of its rows are used: (4711): benchmark.cpp" in found.reason
    assert "without its last line" in failure(read_table("", 0)).reason


def test_wrong_results_are_wrong() -> None:
    found = failure(read_table(text("table_wrong.txt"), 255))
    assert found.kind == "wrong"
    assert "expected 11.000000, got 10.000000" in found.reason


@pytest.mark.parametrize("found", [read_table(text("table_summed.txt"), 0), read_csv(text("csv_summed.csv"))])
def test_sums_are_refused(found: Table | Failure) -> None:
    assert failure(found).kind == "wrong"
    assert "sums over allreduce and bcast" in failure(found).reason
    assert "one collective a call" in failure(found).reason


def test_rows_own_repetitions_count() -> None:
    assert [row.repetitions for row in table("table_auto.txt").rows] == [16, 1]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("27.62", "27.62 |CCL_WARN|", "its head has 7 columns"),
        ("         27.62", "", "its head has 7 columns"),
        ("27.62", "nan", "'nan' where microseconds belong"),
        ("65536", "65536.5", "'65536.5' where a whole number belongs"),
        ("         65536         16384", "x 65536 16384", "2 of 3 rows"),
        ("t_avg[usec]", "mean[usec]", "its head names no mean time"),
    ],
)
def test_damaged_rows_are_not_passed_over(old: str, new: str, said: str) -> None:
    found = failure(read_table(text("table_2021.14.txt").replace(old, new, 1), 0))
    assert found.kind == "crash"
    assert said in found.reason


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "no CSV file of oneCCL's benchmark"),
        ("a,b\n1,2\n", "no CSV file of oneCCL's benchmark"),
        (text("csv_2021.14.csv").splitlines()[0] + "\n", "holds no rows"),
        (text("csv_2021.14.csv")[:-20], "line 3 has"),
        (text("csv_2021.14.csv").replace("7.91", "x"), "line 2 has 'x' where microseconds belong"),
    ],
)
def test_damaged_csv_files(content: str, said: str) -> None:
    assert said in failure(read_csv(content)).reason


NUMBERS = st.tuples(st.integers(0, 1 << 40), st.integers(1, 10**6), st.floats(0.01, 1e9), st.floats(0, 400))


@settings(deadline=None)
@given(
    st.lists(NUMBERS, min_size=1, max_size=8),
    st.permutations(["#elem_count", "#repetitions", "t_min[usec]", "t_max[usec]", "t_avg[usec]", "stddev[%]", "new[x]"]),
    st.integers(3, 7),
    st.sampled_from(["", "2026:11:30-12:00:00:( 4711) |CCL_WARN| something\n", "\n"]),
)
def test_columns_are_found_by_name(
    numbers: list[tuple[int, int, float, float]], names: list[str], kept: int, noise: str
) -> None:
    names = list(dict.fromkeys(["t_avg[usec]", *names[:kept]]))
    head = "".join(f"{name:>17}" for name in ["#bytes", *names])
    lines = []
    for size, count, time, deviation in numbers:
        values = {"#elem_count": str(size // 4), "#repetitions": str(count), "stddev[%]": f"{deviation:.2f}"}
        lines.append(f"{size:>17}" + "".join(f"{values.get(name, f'{time:.2f}'):>17}" for name in names))
    printed = (
        f"# Benchmarking: reduce \n# #processes: 3\n\n{head}\n" + noise.join(f"{line}\n" for line in lines) + "\n# All done\n"
    )
    found = read_table(printed, 0)
    assert isinstance(found, Table), found
    assert (found.collective, found.ranks) == ("reduce", 3)
    for row, (size, count, time, _) in zip(found.rows, numbers, strict=True):
        assert row.size == size
        assert row.average == pytest.approx(round(time, 2) * 1e-6)
        assert row.repetitions == (count if "#repetitions" in names else None)


@settings(deadline=None)
@given(st.text(max_size=300), st.sampled_from([0, 255]))
def test_any_output_is_read_or_a_failure(output: str, returncode: int) -> None:
    assert isinstance(read_table(output, returncode, output), Failure)
    assert isinstance(read_csv(output), Failure)
    assert isinstance(read_table(f"# Benchmarking: reduce\n#bytes t_avg[usec]\n{output}\n# All done\n", 0), Table | Failure)
