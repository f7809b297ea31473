"""Ranks spread over hosts, what each host must have for them, weights, and clocks that are compared by questions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.hosts.host import Host
from runners.runner import UsageError
from runners.tcpstore import fit, network, shares
from runners.tcpstore.clocks import Clock
from runners.tcpstore.job import Job
from runners.tcpstore.shares import spread
from runners.tcpstore.weigh import Weights, weights

ROOMY = fit.Machine(network.Descriptors(20000, 20000), 28232, 16 << 30, 30000, 2)


def hosts(*slots: int) -> list[Host]:
    return [Host(f"h{number}", each) for number, each in enumerate(slots)]


@given(st.lists(st.integers(1, 200), min_size=1, max_size=40), st.integers(0, 3000))
def test_every_rank_is_on_one_host_and_every_host_has_one(slots, more):
    placed = spread(hosts(*slots), len(slots) + more)
    ranks = [rank for share in placed for rank in range(share.first, share.first + share.count)]
    assert ranks == list(range(len(slots) + more))
    assert all(share.count >= 1 for share in placed)


@given(st.lists(st.integers(1, 200), min_size=1, max_size=40))
def test_a_rank_a_slot_where_the_slots_are_as_many_as_the_ranks(slots):
    assert [share.count for share in spread(hosts(*slots), sum(slots))] == slots


def test_ranks_go_by_slots():
    assert [share.count for share in spread(hosts(1, 1), 9)] == [5, 4]
    assert [share.count for share in spread(hosts(2, 6), 80)] == [20, 60]
    with pytest.raises(UsageError, match=r"--world-size 1: 2 hosts are named"):
        spread(hosts(1, 1), 1)


@given(st.integers(0, 40), st.integers(1, 40), st.integers(1, 10))
def test_a_host_s_processes_hold_its_ranks_and_no_others(first, count, processes):
    job = Job("libuv", "keys", "h", "together", 90, processes, 1, 1, 1.0, first=first, count=count)
    held = job.shares()
    assert sorted(rank for each in held for rank in each) == list(range(first, first + count))
    assert (held[0] == [0]) is (first == 0)
    assert all(held)


def test_each_host_is_counted_for_itself():
    tight = replace(ROOMY, descriptors=network.Descriptors(256, 4096))
    # Rank 0's host needs a descriptor a rank; the other one holds clients alone, and they raise their own limit.
    assert not shares.problems(hosts(1, 1), 1000, 0, [ROOMY, tight], force=False)
    (found,) = shares.problems(hosts(1, 1), 1000, 0, [tight, ROOMY], force=False)
    assert (found.id, found.severity) == ("nofile", "error")
    assert found.message.startswith("on h0: rank 0 of 1000 needs 1032 open files and its limit is 256")
    assert not shares.problems(hosts(1, 1), 1000, 0, [tight, ROOMY], force=False, raised=True)
    few = replace(ROOMY, descriptors=network.Descriptors(128, 128))
    (found,) = shares.problems(hosts(1, 1), 4000, 0, [ROOMY, few], force=False)
    assert found.message == "on h1: 2000 clients in 4 processes take 532 open files each and the hard limit is 128"
    assert not shares.problems(hosts(1, 1), 4000, int(found.mend.split()[1].strip(",")), [ROOMY, few], force=False)
    poor = replace(ROOMY, memory=64 << 20)
    (found,) = shares.problems(hosts(1, 1), 1000, 0, [ROOMY, poor], force=True)
    assert (found.id, found.severity) == ("memory", "warning")
    assert found.message.startswith("on h1: 500 ranks")


@pytest.mark.parametrize("lean", [replace(ROOMY, memory=64 << 20), replace(ROOMY, tasks=900), replace(ROOMY, ports=600)])
def test_the_size_that_would_fit_fits(lean):
    (found, *_) = shares.problems(hosts(1, 3), 100_000, 0, [ROOMY, lean], force=False)
    most = int(found.mend.split()[1])
    assert not shares.problems(hosts(1, 3), most, 0, [ROOMY, lean], force=False)
    assert shares.problems(hosts(1, 3), most + 1, 0, [ROOMY, lean], force=False)


# --weigh


def test_weights_as_they_are_spelled():
    assert weights("", 1) == Weights(1, 1)
    assert weights("", 20) == Weights(1, 20)
    assert weights("creation=1,barrier=50", 1) == Weights(1, 50)
    assert weights(" barrier = 2.5 ", 1) == Weights(1, 2.5)
    assert weights("creation=0", 3) == Weights(0, 3)
    assert Weights(2, 50).of(10, 0.5) == 45


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("barriers=2", "'barriers=2' is none of creation=W and barrier=W"),
        ("creation", "'creation' is none of"),
        ("creation=1,", "'nothing' is none of"),
        ("creation=-1", "creation must be a number from 0 to"),
        ("barrier=many", "barrier must be a number"),
        ("barrier=nan", "barrier must be a number"),
        ("creation=1,creation=2", "creation is named twice"),
        ("creation=0,barrier=0", "something must count"),
    ],
)
def test_weights_that_are_none(text, why):
    with pytest.raises(UsageError, match=f"--weigh {text}: .*{why}"):
        weights(text, 1)


def test_barriers_are_counted_in_one_place():
    with pytest.raises(UsageError, match="barrier=2 and --barriers 7 say the same thing"):
        weights("barrier=2", 7)


@given(st.text(max_size=40), st.integers(0, 1000))
def test_weights_of_any_text_are_weights_or_one_sentence(text, barriers):
    try:
        found = weights(text, barriers)
    except UsageError:
        return
    assert found.creation + found.barrier > 0


# Clocks


@given(
    st.floats(-1e6, 1e6),
    st.lists(st.tuples(st.floats(0, 0.5), st.floats(0, 0.5), st.floats(0, 5)), min_size=1, max_size=30),
)
def test_a_clock_is_never_further_off_than_it_says(ahead, trips):
    """Whatever the way there and the way back take; the other clock drifts by no more than 100 seconds in a million."""
    clock, now = Clock(), 1000.0
    for there, back, pause in trips:
        asked = now + pause
        read = asked + there
        now = read + back
        clock.hear(asked, read + ahead + 1e-4 * (read - 1000.0), now)
    later = now + 7.0
    truth = ahead + 1e-4 * (later - 1000.0)
    assert abs(clock.ahead(later) - truth) <= clock.unsure(later) + 1e-6 + 1e-4


def test_a_quick_answer_counts_until_it_is_old():
    clock = Clock()
    clock.hear(0.0, 100.0005, 0.001)
    clock.hear(1.0, 101.4, 1.4)
    assert clock.ahead(2.0) == pytest.approx(100.0)
    clock.hear(9000.0, 9100.55, 9000.1)
    assert clock.ahead(9001.0) == pytest.approx(100.5)
