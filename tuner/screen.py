"""What people see: progress while a run goes on, and the answer at its end. All that is printed for people is printed here."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from runners.runner import Failure, Measurement, Objective, Problem, Runner
from spaces.space import ENUMERABLE, Config, Domain, Knob, Space
from spaces.units import format_duration
from tuner.budget import Budget, Limits
from tuner.recommendation import Recommendation
from tuner.reporter import Reporter
from tuner.trial import Phase, Trial

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status
    from rich.table import Table

_WIDE = 250
_MARK = {"error": "[bold red]error[/]", "warning": "[yellow]warning[/]", "note": "[dim]note[/]"}


def console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    out = Console(stderr=stderr, highlight=False)
    if not out.is_terminal and "COLUMNS" not in os.environ:
        # Nobody's screen is too narrow for a pipe or a file, and cut names are no use to who reads it later.
        out = Console(stderr=stderr, highlight=False, soft_wrap=True, width=_WIDE)
    return out


def table(*titles: str) -> Table:
    """A plain table; its last column is the one that gives way where the screen is narrow."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, header_style="dim")
    for title in titles[:-1]:
        made.add_column(title, no_wrap=True, overflow="fold")
    made.add_column(titles[-1], overflow="fold")
    return made


def escape(text: str) -> str:
    from rich.markup import escape as rich_escape

    return rich_escape(text)


class Progress(Reporter):
    """One live line on a terminal; elsewhere a line a phase and one every ten seconds."""

    def __init__(self) -> None:
        self._space: Space | None = None
        self._objective: Objective | None = None
        self._console = console(stderr=True)
        self._status: Status | None = None
        self._budget: Budget | None = None
        self._phase = ""
        self._measured = self._failed = 0
        self._last_line = 0.0

    def started(self, study: str, runner: Runner, budget: Budget) -> None:
        space = runner.space
        self._space, self._objective, self._budget = space, runner.objective, budget
        if space.size <= ENUMERABLE:
            many = f"{len(space.configs())} distinct settings that can run here, of {space.size} combinations"
        else:
            many = f"{space.size} combinations to choose from"
        if budget.limits == Limits(None, None, None):
            many = ""  # nothing is searched
        bounds = [
            f"at most {format_duration(budget.limits.seconds)}" if budget.limits.seconds is not None else "",
            f"{budget.limits.trials} measurements" if budget.limits.trials is not None else "",
            f"{_bytes(budget.limits.bytes_written)} written" if budget.limits.bytes_written is not None else "",
        ]
        told = ", ".join(filter(None, (many, *bounds)))
        self._console.print(f"study [bold]{escape(study)}[/]" + (f": {told}" if told else ""))
        if runner.engine_reason:
            self._console.print(f"engine {runner.engine}: [dim]{escape(runner.engine_reason)}[/]")
        if self._console.is_terminal:
            self._status = self._console.status("preparing")
            self._status.start()

    def resumed(self, trials: int, abandoned: int) -> None:
        lost = f"; {abandoned} was cut off and is measured again" if abandoned else ""
        self._console.print(f"going on after {trials} finished measurements{lost}")

    def problem(self, problem: Problem) -> None:
        show_problem(self._console, problem)

    def preparing(self, what: str) -> None:
        self._console.print(f"[dim]{escape(what)}[/]")

    def phase(self, name: Phase, why: str) -> None:
        self._phase = name
        if name == "compare":
            self._budget = None  # each that is compared has its own
        self._console.print(f"[bold]{name}[/] [dim]{escape(why)}[/]")

    def measured(self, trial: Trial, best: Trial | None) -> None:
        self._measured += 1
        self._failed += isinstance(trial.outcome, Failure)
        line = self._line(best)
        if self._status is not None:
            self._status.update(line)
        elif time.monotonic() - self._last_line > 10:
            self._last_line = time.monotonic()
            self._console.print(line)

    def finished(self, recommendation: Recommendation) -> None:
        self.close()

    def close(self) -> None:
        """Gives the terminal back; safe to call twice."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _line(self, best: Trial | None) -> str:
        parts = [f"{self._phase}: {self._measured} measured"]
        if self._failed:
            parts.append(f"{self._failed} failed")
        if self._budget is not None:
            limits = self._budget.limits
            if limits.seconds is not None:
                parts.append(f"{format_duration(max(0.0, limits.seconds - self._budget.seconds))} left")
            if limits.bytes_written is not None:
                parts.append(f"{_bytes(self._budget.bytes_written)} of {_bytes(limits.bytes_written)} written")
        if best is not None and isinstance(best.outcome, Measurement) and self._objective and self._space:
            value = best.outcome.metrics[self._objective.metric]
            # Last, since a narrow screen cuts the end off.
            setting = _changes(best.config, self._space.default, self._space)
            shown = "the defaults" if setting == "itself" else setting
            parts.append(f"best reading {value:.3g} {self._objective.unit} ({shown})")
        return " · ".join(parts)


def show_problem(out: Console, problem: Problem) -> None:
    out.print(f"{_MARK[problem.severity]} {escape(problem.message)}")
    if problem.mend:
        out.print(f"        {escape(problem.mend)}")


def show_answer(out: Console, answer: Recommendation, space: Space, files: Mapping[str, str], study: str) -> None:
    """The four questions: which setting, how much better, how sure, what next; ``study`` as a command must name it."""
    adopt = answer.decision == "adopt"
    space = _whole(space, answer.config)
    out.print()
    verdict = "[bold green]use this setting[/]" if adopt else "[bold]keep the present setting[/]"
    out.print(f"{verdict}  [dim]{escape(answer.reason)}[/]")
    rows = table("", "recommended", "baseline") if adopt else table("", "present")
    for knob in space.knobs:
        row = [knob.name, knob.show(answer.config[knob.name])]
        if adopt:
            same = answer.config[knob.name] == answer.baseline[knob.name]
            row.append("[dim]same[/]" if same else knob.show(answer.baseline[knob.name]))
        rows.add_row(*row)
    for name, value in answer.metrics.items():
        row = [name, f"{value:.3g}"]
        if adopt:
            before = answer.baseline_metrics.get(name)
            row.append("-" if before is None else f"{before:.3g}")
        rows.add_row(*row)
    out.print(rows)
    if answer.gain is not None:
        # Of a kept baseline it is the best other setting's, which is what more budget may prove.
        out.print(f"gain     {_gain(answer)}" if adopt else f"other    the best one looked like {_gain(answer)}")
    for line in _details(answer, space):
        out.print(line)
    for warning in answer.warnings:
        out.print(f"[yellow]warning[/]  {escape(warning)}")
    for name, text in files.items():
        out.print(f"\n[dim]{escape(name)}[/]")
        out.print(escape(text.rstrip()))
    out.print("\nnext")
    for command, why in _next(answer, study):
        out.print(f"  {escape(command)}   [dim]{why}[/]")


def show_trials(out: Console, history: Sequence[Trial], space: Space, objective: Objective) -> None:
    """Every measurement, in the order it was made."""
    rows = table("#", "phase", objective.metric, *(knob.name for knob in space.knobs), "")
    for number, trial in enumerate(history):
        outcome = trial.outcome
        phase = trial.phase if trial.round < 0 else f"{trial.phase} {trial.round}"
        value = f"{outcome.metrics.get(objective.metric, 0):.3g}" if isinstance(outcome, Measurement) else outcome.kind
        note = outcome.reason if isinstance(outcome, Failure) else ""
        settings = (knob.show(trial.config[knob.name]) for knob in space.knobs)
        rows.add_row(str(number), phase, value, *settings, escape(note))
    out.print(rows)


def _gain(answer: Recommendation) -> str:
    gain = answer.gain
    assert gain is not None
    return (
        f"[bold]{_times(gain.ratio)}[/] the baseline, {gain.confidence:.0%} interval {_times(gain.low)} to "
        f"{_times(gain.high)}, by the ratios within {answer.evidence.get('rounds', '?')} interleaved rounds"
    )


def _times(ratio: float) -> str:
    return f"{ratio:.3f}x" if 0.95 < ratio < 1.05 else f"{ratio:.2f}x"


def _details(answer: Recommendation, space: Space) -> list[str]:
    evidence = answer.evidence
    why = f"; {evidence['stopped']}" if evidence.get("stopped") else ""
    lines = [f"search   {evidence.get('settings_tried')} of {evidence.get('settings')} settings tried{why}"]
    if answer.equals:
        names = "; ".join(_changes(config, answer.config, space) for config in answer.equals[:3])
        more = f" and {len(answer.equals) - 3} more" if len(answer.equals) > 3 else ""
        lines.append(f"equals   {names}{more} (can't be told apart from it)")
    if cheaper := [config for config in answer.equals if space.cost(config) < space.cost(answer.config)]:
        names = "; ".join(_changes(config, answer.config, space) for config in cheaper[:3])
        lines.append(f"cheaper  {names} takes less of the machine, but its own lead over the baseline isn't proven")
    best = evidence.get("best_by_metric")
    for metric, found in (best if isinstance(best, dict) else {}).items():
        if isinstance(found, dict):
            own = _changes(cast(Config, found["config"]), answer.config, space)
            loss = cast(float, found["loss"])
            words = "the same setting is best" if own == "itself" else f"{own} is best with {found.get('value')}"
            lines.append(f"alone    {metric}: {words}" + (f"; this one loses {loss:.0%} of it" if loss >= 0.005 else ""))
    failures = ", ".join(f"{count} {kind}" for kind, count in answer.failures.items())
    lines.append(
        f"spent    {format_duration(answer.seconds)}, {answer.trials} measurements"
        + (f" ({failures})" if failures else "")
        + f", {_bytes(answer.bytes_written)} written"
    )
    machine = answer.machine
    lines.append(
        f"machine  {machine.get('host')}: {machine.get('cpus')} CPUs, {machine.get('cpu')}, kernel {machine.get('kernel')}"
    )
    lines += _hosts(answer)
    return [escape(line) for line in lines]


def _hosts(answer: Recommendation) -> list[str]:
    """On which hosts it was measured, where those are others than this machine; and what each of them got."""
    named = answer.machine.get("hosts")
    if not isinstance(named, list) or not named:
        return []
    names = [str(each.get("name") if isinstance(each, dict) else each) for each in named]
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    lines = [f"hosts    {len(names)}: {shown}"]
    measured = answer.evidence.get("measured")
    each = measured.get("hosts") if isinstance(measured, dict) else None
    metric = next(iter(answer.metrics), "")
    if isinstance(each, dict) and metric:
        figures = cast("Mapping[str, Mapping[str, Mapping[str, float]]]", each)
        words = ", ".join(f"{host} {figures[host]['metrics'][metric]:.3g}" for host in names[:8] if host in figures)
        lines += [f"         {metric} of each, when it was measured last: {words}"] if words else []
    return lines


def _whole(space: Space, config: Config) -> Space:
    """``space`` with the knobs of ``config`` that a runner added to the target's own."""
    known = {knob.name for knob in space.knobs}
    others = [(name, value) for name, value in config.items() if name not in known]
    return replace(space, knobs=(*space.knobs, *(Knob(n, Domain("choice", (v,)), v, "", "") for n, v in others)))


def _changes(config: Config, other: Config, space: Space) -> str:
    """``config`` by what differs from ``other``."""
    parts = [f"{k.name}={k.show(config[k.name])}" for k in space.knobs if config[k.name] != other[k.name]]
    return " ".join(parts) or "itself"


def _next(answer: Recommendation, study: str) -> Sequence[tuple[str, str]]:
    if answer.decision == "keep":
        whole = [(f"tune show {study} --trials", "everything that was measured")]
        searched_all = answer.evidence.get("settings_tried") == answer.evidence.get("settings")
        return whole if searched_all else [*whole, (f"tune resume {study} --time 10m", "search on with a larger budget")]
    return [
        (f"tune verify {study}", "a fresh comparison with the baseline"),
        (f"tune export {study} --into FILE", "merge it into your file (--diff shows it first)"),
    ]


def _bytes(count: int) -> str:
    """Rounded for people, in powers of 1024."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit in ("B", "KiB") else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
