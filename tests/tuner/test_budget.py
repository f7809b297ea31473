"""Seconds, measurements and bytes; the clock is the test's own."""

from support.synthetic import Clock

from tuner.budget import Budget, Limits


def test_each_limit_refuses_in_words() -> None:
    clock = Clock()
    budget = Budget(Limits(60, 10, 1 << 30), clock=clock)
    assert budget.refuses(seconds=60, trials=10, bytes_written=1 << 30) is None
    assert "--time 1m00s" in (budget.refuses(seconds=61, trials=1, bytes_written=0) or "")
    assert "--trials 10" in (budget.refuses(seconds=1, trials=11, bytes_written=0) or "")
    assert "--max-write 1G" in (budget.refuses(seconds=1, trials=1, bytes_written=(1 << 30) + 1) or "")


def test_what_was_spent_counts_also_by_earlier_sessions() -> None:
    clock = Clock(100.0)
    budget = Budget(Limits(60, 10, 100), clock=clock, seconds_before=30, trials=4, bytes_written=50)
    clock.now += 20
    budget.spend(trials=2, bytes_written=10)
    assert (budget.seconds, budget.trials, budget.bytes_written) == (50, 6, 60)
    assert budget.refuses(seconds=11, trials=1, bytes_written=1) is not None
    assert budget.refuses(seconds=9, trials=4, bytes_written=40) is None


def test_no_limit_never_refuses() -> None:
    assert Budget(Limits(None, None, None)).refuses(seconds=1e12, trials=10**9, bytes_written=10**18) is None
