"""The engine of a user's own program: started for each rank as the layout says, its figures found by a pattern."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from runners.runner import Failure, Json, Problem, UsageError
from runners.xft import results
from runners.xft.engines import oneshot
from runners.xft.engines.engine import Run
from runners.xft.goal import Goal, Request
from runners.xft.layout import Layout
from runners.xft.options import Options
from runners.xft.place import Place
from spaces.xft import Software

GROUPS = ("next_ms", "first_ms", "tokens_per_s")


class CommandEngine:
    """Every rank runs the same program; the figures are in what rank 0 prints, or any rank if that one prints none."""

    name = "command"
    stand_in = False

    def __init__(self, place: Place, goal: Goal, options: Options) -> None:
        self._place, self._goal = place, goal
        self._program = _words(options.program)
        self._pattern = compiled(options.pattern) if options.pattern else None

    @property
    def software(self) -> Software:
        """Nobody knows what the program is made of: where ranks and threads are and how they wait is tuned."""
        return Software("command", "gomp", self._place.iomp5, ccl=False)

    def notes(self) -> tuple[str, ...]:
        return ()

    def facts(self) -> Mapping[str, Json]:
        return {"program": shlex.join(self._program)}

    def check(self) -> list[Problem]:
        program = self._program[0]
        if self._place.alone and "/" not in program and shutil.which(program) is None:
            return [
                Problem(
                    "xft-program",
                    "error",
                    f"no folder of the PATH has {program}, which --program names",
                    "name it with its path",
                )
            ]
        return []

    def refuses(self, layout: Layout) -> str:
        """Nothing is known of the program."""
        del layout
        return ""

    def measure(self, layout: Layout, limit: float) -> Run | Failure:
        done = oneshot.run(self._place, layout, self._program, {}, "", limit)
        if isinstance(done, Failure):
            return done
        ranks, reports = done
        why = "no rank printed anything"
        for ended in ranks:
            found = self._figures(oneshot.printed(ended))
            if not isinstance(found, str):
                evidence: dict[str, Json] = {"figures_of_rank": ended.rank}
                return Run(found, reports if len(reports) == len(ranks) else (), (), evidence)
            why = found if ended.rank == 0 else why
        return Failure("crash", why, oneshot.printed(ranks[0])[-4096:])

    def close(self) -> None:
        """Nothing is kept between measurements."""

    def _figures(self, text: str) -> tuple[Request, ...] | str:
        return of_pattern(self._pattern, text, self._goal) if self._pattern else of_figures(results.parse(text))


def of_figures(found: results.Figures | str) -> tuple[Request, ...] | str:
    """Requests from what xFT's programs print."""
    if isinstance(found, str):
        return found
    if found.loops:
        return tuple(Request(first, (following,)) for first, following in found.loops)
    return (Request(found.first_ms, () if found.next_ms is None else (found.next_ms,)),)


def of_pattern(pattern: re.Pattern[str], text: str, goal: Goal) -> tuple[Request, ...] | str:
    """A request for each match; the whole pattern may match once for a figure, or once for all of them."""
    requests: list[Request] = []
    for match in pattern.finditer(text):
        told: dict[str, float] = {}
        for name, value in match.groupdict().items():
            if value is not None:
                try:
                    told[name] = float(value)
                except ValueError:
                    return f"--pattern finds {value[:40]!r} for {name}, which is no number"
                if not 0 < told[name] < 1e12:
                    return f"--pattern finds {value[:40]} for {name}, which no program takes"
        following = told.get("next_ms") or (1e3 * goal.batch / told["tokens_per_s"] if "tokens_per_s" in told else None)
        requests.append(Request(told.get("first_ms"), () if following is None else (following,)))
    if not requests:
        return "--pattern matches nothing of what the program printed"
    firsts = [each.first_ms for each in requests if each.first_ms is not None]
    nexts = [each.next_ms for each in requests if each.next_ms]
    if len(firsts) == len(nexts) or not firsts or not nexts:
        pairs = max(len(firsts), len(nexts))
        return tuple(Request(firsts[at] if firsts else None, nexts[at] if nexts else ()) for at in range(pairs))
    return f"--pattern finds {len(firsts)} times of first tokens and {len(nexts)} of next ones"


def compiled(text: str) -> re.Pattern[str]:
    """Raises UsageError."""
    try:
        pattern = re.compile(text, re.MULTILINE)
    except re.error as error:
        raise UsageError("pattern", text, f"is no regular expression: {error}") from None
    names = set(pattern.groupindex)
    if not names or names - set(GROUPS):
        example = r"TPOT:\s*(?P<next_ms>[0-9.]+)"
        raise UsageError("pattern", text, f"needs groups named {', '.join(GROUPS)} or some of them, like {example}")
    return pattern


def _words(text: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError:
        raise UsageError("program", text, "a quote is not closed") from None
    if not words:
        raise UsageError("program", "''", "name a program with its arguments, like 'python bench.py'")
    return (_file(text, words[0]), *words[1:]) if "/" in words[0] else words


def _file(text: str, named: str) -> str:
    """The path of a program that is named by one; raises UsageError where it can't be started."""
    try:
        path = Path(named).expanduser()
    except RuntimeError:
        raise UsageError("program", text, f"there is no such user as in {named}") from None
    if not path.exists():
        raise UsageError("program", text, f"there is no {named}")
    if path.is_dir():
        raise UsageError("program", text, f"{named} is a folder; name the program in it")
    if not os.access(path, os.X_OK):
        raise UsageError(
            "program", text, f"{named} may not be executed: chmod +x, or name what runs it first, like 'python3 {named}'"
        )
    return str(path)
