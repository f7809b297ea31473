"""Tables of many algorithms, figures of many calls, and what can't be true."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.oneccl import figures, workload
from runners.oneccl.options import Options
from runners.oneccl.table import DEFAULT, layout, table
from runners.oneccl.variables import parse_algorithms
from runners.runner import Failure, UsageError


@given(st.lists(st.integers(1, 300), min_size=1, max_size=12, unique=True), st.sampled_from([1, 2, 4, 8]))
def test_each_algorithm_has_a_size_of_its_own(counts: list[int], element: int) -> None:
    sizes = [count * element for count in counts]
    algorithms = ("direct", "ring", "2d")
    found = layout(sizes, dict.fromkeys(sizes, algorithms), element)
    assert len(found) == 4 * len(sizes)
    assert len(set(found.values())) == len(found)
    assert all(found[size, DEFAULT] == size for size in sizes)
    assert all(
        at > 0 and at % element == 0 and abs(at - size) <= 4 * max(element, size // 1024) * (len(sizes) + 1)
        for (size, _), at in found.items()
    )
    lines = table(found).split(";")
    assert len(lines) == 3 * len(sizes)
    assert not {f"-{size}" for size in sizes} & {line[line.index("-") :] for line in lines}, "a line names an asked size"


def test_the_table_is_one_that_oneccl_reads() -> None:
    found = layout((1024, 65536), {1024: ("ring", "2d"), 65536: ("ring",)}, 4)
    assert table(found) == "2d:1016-1016;ring:1020-1020;ring:65472-65472"
    assert len(parse_algorithms("CCL_ALLREDUCE", table(found))) == 3
    assert table(found, [(1024, "2d"), (65536, "ring")]) == "ring:1020-1020"
    assert table(layout((1024,), {1024: ()}, 4)) == ""


def test_one_element_is_the_barriers() -> None:
    assert layout((4,), {4: ("ring",)}, 4) == {(4, DEFAULT): 4, (4, "ring"): 8}


ROUNDS = {1024: [[10_000, 12_000], [11_000, 900_000]], 1 << 20: [[100_000, 100_000], [300_000, 100_000]]}


def test_the_objective_is_the_weighted_time() -> None:
    told = figures.metrics(ROUNDS, {1024: 100.0, 1 << 20: 2.0})
    assert told == {
        "time_us": pytest.approx(100 * 11.5 + 2 * 100),
        "us_1K": 11.5,
        "gbs_1K": pytest.approx(1024 / 11.5 / 1e3),
        "us_1M": 100.0,
        "gbs_1M": pytest.approx(10.48576),
    }
    assert figures.samples(ROUNDS, {1024: 1.0, 1 << 20: 1.0}) == (111.0, 655.5)
    assert figures.quantiles(ROUNDS)["1K"] == {
        "p10": 10.0,
        "p50": 12.0,
        "p90": 900.0,
        "p99": 900.0,
        "mean": 233.25,
        "calls": 4,
    }


@pytest.mark.parametrize(
    ("nanoseconds", "hosts", "speed", "word"),
    [
        (33_600_000, 2, 1000, ""),  # 4 MiB over 1 Gbit/s
        (20_000_000, 2, 1000, "more than the link"),
        (20_000_000, 2, None, ""),
        (20_000_000, 1, 1000, ""),
        (0, 1, None, "more than memory"),
        (1_000, 1, None, "more than memory"),
    ],
)
def test_what_cannot_be_true_is_said(nanoseconds: int, hosts: int, speed: int | None, word: str) -> None:
    said = figures.impossible({4 << 20: [[nanoseconds]]}, "allreduce", hosts, speed)
    assert word in said
    assert bool(word) == bool(said)


def test_a_wrong_result_is_wrong_and_an_error_is_infeasible() -> None:
    good = {"rounds": [[5]]}
    assert figures.sorted_out([good, good], [1, 2]) == {1: [[5]], 2: [[5]]}
    wrong = figures.sorted_out([good, {"wrong": "not the sum"}], [1, 2])
    failed = figures.sorted_out([{"failed": "result 11"}, good], [1, 2])
    assert isinstance(wrong, Failure)
    assert wrong.kind == "wrong"
    assert isinstance(failed, Failure)
    assert failed.kind == "infeasible"


def test_sizes_become_elements() -> None:
    found = workload.workload(Options(sizes="1K:3,64K", dtype="float64", collective="allgather"))
    assert found.sizes == ((1024, 3), (65536, 1))
    assert found.selected == "allgatherv"
    assert found.memory(4) == 5 * 65536 + (64 << 10)
    with pytest.raises(UsageError, match=r"--sizes 6: 6 bytes are no whole number of float32 elements of 4 bytes"):
        workload.workload(Options(sizes="6"))
    with pytest.raises(UsageError, match="the largest that is timed"):
        workload.workload(Options(sizes="2G"))


def test_a_trace_of_many_sizes_is_folded(tmp_path: object) -> None:
    from pathlib import Path

    path = Path(str(tmp_path)) / "trace.csv"
    path.write_text("size,count\n" + "".join(f"{1000 + 7 * index},2\n" for index in range(2000)))
    found = workload.workload(Options(trace=str(path)))
    assert found.folded
    assert len(found.sizes) <= 24
    assert sum(weight for _, weight in found.sizes) == 4000
    assert all(size % 4 == 0 for size in found.plain)
