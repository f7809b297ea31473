"""A figure is that of a setting only where the ranks had what was laid out; what else went on is told beside it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from runners.xft import evidence
from runners.xft.layout import Layout, RankPlace
from runners.xft.seats import Memory


def layout(memory: Memory = Memory()) -> Layout:  # noqa: B008  it is frozen
    def rank(number: int, host: str, cpus: tuple[int, ...]) -> RankPlace:
        return RankPlace(number, host, number % 2, cpus, len(cpus), memory, {"OMP_NUM_THREADS": str(len(cpus))}, (9,))

    return Layout((rank(0, "hbA", (0, 2)), rank(1, "hbA", (4, 6)), rank(2, "hbB", (0, 2)), rank(3, "hbB", (4, 6))))


def report(cpus: tuple[int, ...], **changes: Any) -> dict[str, Any]:
    """A rank that computed for two seconds on its CPUs, as it was told to."""
    return {
        "node": "x",
        "cpus": list(cpus),
        "num_threads": len(cpus),
        "threads": [{"cpus": list(cpus), "last": cpu, "seconds": 1.9} for cpu in cpus],
        "busy": {str(cpu): 1.95 for cpu in cpus},
        "wall": 2.0,
        "in_sums": 0.4,
        "omp": {"OMP_NUM_THREADS": str(len(cpus))},
        "memory": {"policy": "default", "nodes": []},
        "pages": {"0": 100 << 20},
        "runtime": "libgomp",
        "talk": "gloo",
        **changes,
    }


def reports(**of_third: Any) -> list[dict[str, Any]]:
    found = [deepcopy(report(cpus)) for cpus in ((0, 2), (4, 6), (0, 2), (4, 6))]
    found[2] = {**found[2], **of_third}
    return found


def test_ranks_as_laid_out_give_no_doubt() -> None:
    assert evidence.contradiction(layout(), reports()) == ""
    told = evidence.told(layout(), reports())
    assert told.warnings == ()
    assert told.evidence["idle_cpus"] == {}
    assert told.evidence["doubled_cpus"] == {}
    ranks = told.evidence["ranks"]
    assert isinstance(ranks, list)
    assert len(ranks) == 4


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"cpus": [0, 1]}, "rank 2 on hbB: it may use the CPUs 0-1 and 0,2 were set"),
        ({"threads": [{"cpus": [0, 2, 7], "last": 7, "seconds": 1.0}]}, "a thread of it may use CPU 7"),
        ({"num_threads": 1, "omp": {"OMP_NUM_THREADS": "1"}}, "it computes with 1 threads (1 arrived) and 2 were set"),
        ({"omp": {}}, "OMP_NUM_THREADS= arrived and 2 was set"),
    ],
)
def test_what_differs_is_named_with_rank_and_host(changes: dict[str, Any], said: str) -> None:
    assert said in evidence.contradiction(layout(), reports(**changes))


@pytest.mark.parametrize(
    ("policy", "have", "pages", "said"),
    [
        (Memory("bind", (0,)), {"policy": "bind", "nodes": [0]}, {"0": 100}, ""),
        (Memory("bind", (0,)), {"policy": "bind", "nodes": [0]}, {"0": 50, "1": 50}, "50 % of its memory is on the nodes 0"),
        (Memory("prefer", (2,)), {"policy": "default", "nodes": []}, {"0": 9}, "policy is default and prefer 2 was set"),
        (Memory("prefer", (2,)), {"policy": "prefer", "nodes": [2]}, {"0": 9}, ""),
        (Memory("bind", (0,)), {}, {}, ""),
    ],
)
def test_memory_is_where_it_was_to_be(policy: Memory, have: Any, pages: Any, said: str) -> None:
    ranks = [{**each, "memory": have, "pages": pages} for each in reports()]
    found = evidence.contradiction(layout(policy), ranks)
    assert said in found
    assert bool(said) == bool(found)


def test_spare_cores_and_oneccls_own_threads_are_no_contradiction() -> None:
    worker = [*reports()[2]["threads"], {"cpus": [9], "last": 9, "seconds": 1.0}]
    assert evidence.contradiction(layout(), reports(threads=worker)) == ""
    pinned = [*reports()[2]["threads"], {"cpus": [7], "last": 7, "seconds": 1.0}]
    assert "CPU 7" in evidence.contradiction(layout(), reports(threads=pinned))
    assert evidence.contradiction(layout(), reports(threads=pinned, talk="oneccl")) == ""


def test_idle_and_doubled_cpus_and_other_load_are_told_by_host() -> None:
    idle = reports(busy={"0": 1.9, "2": 0.05}, threads=[{"cpus": [0, 2], "last": 0, "seconds": 1.9}])
    assert evidence.told(layout(), idle).evidence["idle_cpus"] == {"hbB": "2"}
    crowd = [{"cpus": [0], "last": 0, "seconds": 0.9} for _ in range(2)]
    told = evidence.told(layout(), reports(threads=crowd))
    assert told.evidence["doubled_cpus"] == {"hbB": "0"}
    assert any("more threads than CPUs computed on hbB" in each for each in told.warnings)
    busy = reports(threads=[{"cpus": [0, 2], "last": 0, "seconds": 0.8}])
    told = evidence.told(layout(), busy)
    assert any("other programs took" in each and "hbB" in each for each in told.warnings)
    assert not any("hbA" in each for each in told.warnings)


def test_two_ranks_on_one_core_are_doubled() -> None:
    shared = Layout(tuple(RankPlace(n, "h", n, (0,), 1, Memory(), {"OMP_NUM_THREADS": "1"}) for n in range(2)))
    told = evidence.told(shared, [report((0,)), report((0,))])
    assert told.evidence["doubled_cpus"] == {"h": "0"}


def test_a_straggler_is_named() -> None:
    late = evidence.stragglers(layout(), reports(in_sums=0.01, wall=2.0))
    assert late == []  # a quarter longer at least
    (said,) = evidence.stragglers(layout(), [{**each, "in_sums": 1.0 if n != 2 else 0.1} for n, each in enumerate(reports())])
    assert said.startswith("rank 2 on hbB computes 1.9 times as long")


def test_a_runtime_that_was_not_preloaded_is_found_out() -> None:
    env = {"LD_PRELOAD": "/nowhere/libiomp5.so"}
    assert "ranks have libgomp" in evidence.other_runtime(env, reports())
    assert evidence.other_runtime(env, [{**each, "runtime": "libiomp5"} for each in reports()]) == ""
    assert evidence.other_runtime({}, reports()) == ""
