"""Which warm jobs are kept: the last used ones, as memory allows, none that is worn out or spins while it waits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from runners.runner import Failure
from runners.xft.engines.warm import Jobs
from runners.xft.layout import Layout, RankPlace
from runners.xft.seats import Memory


class Job:
    """What Jobs asks of a job."""

    def __init__(self, memory: int = 10) -> None:
        self.memory, self.worn, self.dead, self.restless, self.closed, self.rested = memory, False, False, False, 0, 0

    def rest(self) -> None:
        self.rested += 1

    def close(self) -> None:
        self.closed += 1


def layout(number: int) -> Layout:
    return Layout((RankPlace(0, "h", 0, (number,), 1, Memory(), {"OMP_NUM_THREADS": "1"}),))


class Starts:
    def __init__(self, memory: int = 10) -> None:
        self.memory, self.jobs = memory, list[Any]()

    def __call__(self, _layout: Layout, _limit: float) -> Any:
        self.jobs.append(Job(self.memory))
        return self.jobs[-1]


def test_a_layout_keeps_its_job_and_another_environment_is_another_job() -> None:
    starts = Starts()
    jobs = Jobs(starts, 1000)
    first = jobs.get(layout(0), 1)
    assert jobs.get(layout(0), 1) is first
    rank = layout(0).ranks[0]
    assert jobs.get(Layout((replace(rank, env={"OMP_WAIT_POLICY": "passive"}),)), 1) is not first
    assert jobs.get(Layout((replace(rank, memory=Memory("bind", (0,))),)), 1) is not first
    jobs.close()
    assert [job.closed for job in starts.jobs] == [1, 1, 1]


def test_the_longest_unused_goes_where_there_are_many_or_memory_is_short() -> None:
    starts = Starts()
    jobs = Jobs(starts, 1000)
    for number in range(7):
        jobs.get(layout(number), 1)
    assert [job.closed for job in starts.jobs] == [1, 0, 0, 0, 0, 0, 0]
    large = Starts(400)
    short = Jobs(large, 1000)
    for number in range(3):
        short.get(layout(number), 1)
    assert [job.closed for job in large.jobs] == [1, 0, 0]


def test_worn_and_restless_and_dead_jobs_are_not_kept() -> None:
    starts = Starts()
    jobs = Jobs(starts, 1000)
    worn: Any = jobs.get(layout(0), 1)
    worn.worn = True
    assert jobs.get(layout(0), 1) is not worn
    assert worn.closed == 1
    spins: Any = jobs.get(layout(1), 1)
    spins.restless = True
    jobs.settle(spins)
    assert (spins.rested, spins.closed) == (1, 1)
    quiet: Any = jobs.get(layout(2), 1)
    jobs.settle(quiet)
    assert jobs.get(layout(2), 1) is quiet


def test_a_start_that_fails_is_told_and_nothing_is_kept() -> None:
    jobs = Jobs(lambda _layout, _limit: Failure("timeout", "late"), 1000)
    assert isinstance(jobs.get(layout(0), 1), Failure)
    jobs.close()
