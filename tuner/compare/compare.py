"""Our search and other people's, each run for real on this machine, and all that they picked raced side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from spaces.units import format_duration, parse_duration
from tuner import session
from tuner.compare import opponents as strategies
from tuner.compare.contest import Contest
from tuner.compare.report import size
from tuner.compare.result import Result, Terms
from tuner.errors import WrongUsage
from tuner.reporter import Reporter
from tuner.request import check, limits
from tuner.session import Ask
from tuner.targets import Target

_USUAL = ("random", "grid", "tpe")


def names(target: Target) -> list[str]:
    """Whom our search can be held against: the target's own opponents, then the strategies over our runner."""
    own = target.opponents
    return [*(own.OPPONENTS if own else ()), *strategies.OPPONENTS]


def chosen(target: Target, against: str | None) -> list[str]:
    """The names in ``against`` (a,b,c), or the usual ones; raises WrongUsage."""
    known = names(target)
    if against is None:
        return [name for name in known if name in _USUAL or name not in strategies.OPPONENTS]
    asked = list(dict.fromkeys(part.strip() for part in against.split(",")))
    for name in asked:
        if name not in known and name != "ours":
            raise WrongUsage(f"--against {against}: {name!r} is none of {', '.join(known)}")
    return [name for name in asked if name != "ours"]


def compare(
    ask: Ask, against: Sequence[str], more: Any, terms: Terms, reporter: Reporter, keep: Callable[[Result], None]
) -> Result:
    """Runs ours, then everybody in ``against``, then the race. ``keep`` is called whenever there is more to keep.

    ``more`` are the options of the target's own opponents. Raises TunerError; Interrupted with what was finished kept.
    """
    own = ask.target.opponents
    with session.user_mistakes():
        if own is not None:
            own.check(ask.options, more)
    with session.opened(_bounded(ask, terms), reporter, experience=False) as opened:
        begun = time.monotonic()
        opened.runner.message = reporter.preparing
        opened.runner.prepare()
        preparing = time.monotonic() - begun
        reporter.preparing(_bounds(opened, against, own.OPPONENTS if own is not None else {}, terms))
        contest = Contest(opened, terms, reporter, keep, preparing)
        with contest.interruptible():
            contest.ours(lambda: session.run(opened, reporter, spent=preparing))
            for name in against:
                if own is not None and name in own.OPPONENTS:
                    contest.program(name, own.OPPONENTS[name], ask.options, more)
                else:
                    contest.strategy(name)
            return contest.race()


def _bounds(opened: session.Opened, against: Sequence[str], own: Collection[str], terms: Terms) -> str:
    """What may be spent in all, in words."""
    programs = sum(name in own for name in against)
    here = limits(opened.request)
    each = [
        f"{format_duration(here.seconds)}" if here.seconds else "",
        size(here.bytes_written) if here.bytes_written else "",
    ]
    words = f"ours and strategies ({len(against) - programs}): at most {' and '.join(filter(None, each))} each"
    if programs:
        allowed = f"{format_duration(terms.programs.seconds)} and {size(terms.programs.bytes_written)}"
        words += f"; programs of others ({programs}): at most {allowed} each"
    return f"{words}; then {terms.rounds} rounds of all picks"


def _bounded(ask: Ask, terms: Terms) -> Ask:
    """Unless asked otherwise nobody over our runner gets more time than the programs do."""
    check(ask.request)
    usual = ask.target.defaults.get("time")
    if ask.request.time is not None or (usual is not None and parse_duration(usual) <= terms.programs.seconds):
        return ask
    return replace(ask, request=replace(ask.request, time=f"{terms.programs.seconds:.3f}s"))
