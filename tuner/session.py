"""From what a user asked for to a run: opens the storage, makes the runner and the strategy, and closes what it opened."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from runners.runner import EnvironmentProblem, Json, Problem, Runner, UsageError
from spaces.space import ENUMERABLE, BadValue, Space, Value
from tuner import files, machine
from tuner.budget import Budget
from tuner.database import check_storage, default_storage
from tuner.errors import NotUsable, TunerError, WrongUsage
from tuner.race.race import RaceRules
from tuner.recommendation import Recommendation
from tuner.reporter import Reporter
from tuner.request import Request, check, limits
from tuner.search import priors
from tuner.search.strategy import default_strategy
from tuner.storage import Storage, new_name
from tuner.study import Header, Study
from tuner.targets import Target, load
from tuner.tuning import Tuning
from tuner.turn import turn


@dataclass(frozen=True, slots=True)
class Ask:
    """One run as a user asked for it: the runner's options, the knobs' domains as typed (by knob name), the request."""

    target: Target
    options: Any
    narrow: Mapping[str, str]
    request: Request


@contextlib.contextmanager
def user_mistakes() -> Iterator[None]:
    """What spaces and runners raise for bad input and unusable machines, as errors with an exit code."""
    try:
        yield
    except BadValue as error:
        raise WrongUsage(str(error)) from None
    except UsageError as error:
        raise WrongUsage(str(error)) from None
    except EnvironmentProblem as error:
        raise NotUsable(error.message, error.mend) from None


@dataclass(frozen=True, slots=True)
class Opened:
    """A new study with all that its run takes; ``known`` are settings worth trying first."""

    study: Study
    runner: Runner
    request: Request
    baseline: Mapping[str, Value]
    known: list[dict[str, Value]]
    warnings: list[str]


def start(ask: Ask, reporter: Reporter) -> Recommendation:
    """A new study, run to its answer."""
    with opened(ask, reporter) as new:
        return run(new, reporter)


@contextlib.contextmanager
def opened(ask: Ask, reporter: Reporter, *, experience: bool = True) -> Iterator[Opened]:
    """A new study; ``experience``: what earlier studies of this user proved is known."""
    request = _with_defaults(ask.request, ask.target.defaults)
    check(request)
    check_storage(request.storage or default_storage())
    with user_mistakes():
        space = ask.target.space.narrow(ask.narrow)
        runner = ask.target.create(ask.options, space)
        # Before the runner touches anything: a file with the settings to beat may be the one that it tries others in.
        baseline, notes = _baseline(ask.target, request, ask.options)
    with user_mistakes(), runner:
        # Knobs that the runner adds to the target's own begin with their defaults.
        baseline = {**runner.space.default, **baseline}
        _refuse_empty(runner.space)
        warnings = _preflight(runner, reporter)
        for note in notes:
            reporter.problem(Problem("baseline", "warning", note))
        warnings = [*warnings, *notes]
        _refuse_illegal(runner.space, baseline, request)
        with Storage(request.storage or default_storage()) as storage:
            now = time.time()
            header = Header(
                target=ask.target.name,
                space=runner.space.fingerprint,
                objective=runner.objective,
                baseline=baseline,
                narrow=dict(ask.narrow),
                options=_resolved(ask.options, runner),
                tuning=_plain(request),
                machine={**machine.identity(), **runner.facts()},
                started=now,
            )
            known = _priors(storage, ask.target.name, runner, experience=experience)
            study = storage.create(request.study or new_name(ask.target.name, now), header)
            with turn(request.storage or default_storage(), study.name):
                yield Opened(study, runner, request, baseline, known, warnings)


def resume(name: str, override: Request, reporter: Reporter, *, anyway: bool = False) -> Recommendation:
    """An existing study goes on with the budget that is left, or with what ``override`` names instead.

    Raises WrongUsage where the space or the machine is another one, unless ``anyway``.
    """
    with Storage(override.storage or default_storage(), create=False) as storage, contextlib.ExitStack() as held:
        study = storage.open(name)
        held.enter_context(turn(override.storage or default_storage(), name))
        request = _merged(study, override)
        check(request)
        target, options = load(study.header.target), options_of(study)
        with user_mistakes():
            runner = target.create(options, target.space.narrow(study.header.narrow))
        with user_mistakes(), runner:
            refuse_other_machine(study, runner, anyway=anyway)
            if study.recommendation() is not None and not (override.time or override.trials or override.max_write):
                raise WrongUsage(
                    f"study {name} is finished", f"tune show {name}; or go on with a larger --time, --trials or --max-write"
                )
            warnings = _preflight(runner, reporter)
            known = _priors(storage, target.name, runner)
            return run(Opened(study, runner, request, study.header.baseline, known, warnings), reporter)


@contextlib.contextmanager
def reopened(name: str, storage: str | None, *, anyway: bool) -> Iterator[tuple[Study, Runner]]:
    """A study and its runner for fresh measurements, on the machine that it was made on unless ``anyway``."""
    with Storage(storage or default_storage(), create=False) as opened:
        study = opened.open(name)
        target = load(study.header.target)
        with user_mistakes():
            runner = target.create(options_of(study), target.space.narrow(study.header.narrow))
            with runner:
                refuse_other_machine(study, runner, anyway=anyway)
                _preflight(runner, Reporter())
                yield study, runner


def options_of(study: Study) -> Any:
    """The runner's options that a study was started with."""
    kind = load(study.header.target).options
    known = {f.name for f in fields(kind)}
    return kind(**{name: value for name, value in study.header.options.items() if name in known})


def refuse_other_machine(study: Study, runner: Runner, *, anyway: bool) -> None:
    if anyway:
        return
    if study.header.space != runner.space.fingerprint:
        raise WrongUsage(
            f"study {study.name} was made with other knobs or rules, so its measurements may mean something else",
            "start a new study, or add --anyway",
        )
    changed = machine.differences(study.header.machine, {**machine.identity(), **runner.facts()})
    if changed:
        raise WrongUsage(
            f"study {study.name} was made on another machine or set-up: {'; '.join(changed)}",
            "start a new study, or add --anyway",
        )


def run(opened: Opened, reporter: Reporter, *, spent: float = 0.0) -> Recommendation:
    """Runs a study to its answer; ``spent`` are seconds that went into it before, outside its measurements."""
    study, runner, request = opened.study, opened.runner, opened.request
    history = study.trials(runner.space)
    budget = Budget(
        limits(request),
        seconds_before=study.elapsed() + spent,
        trials=len(history),
        bytes_written=sum(t.outcome.bytes_written for t in history),
    )
    runner.message = reporter.preparing
    reporter.started(study.name, runner, budget)
    rng = random.Random(f"{request.seed}-{len(history)}")
    tuning = Tuning(
        runner=runner,
        study=study,
        strategy=default_strategy(runner.objective, priors=opened.known),
        budget=budget,
        baseline=opened.baseline,
        rng=rng,
        reporter=reporter,
        rules=RaceRules(confidence=request.confidence, min_gain=request.min_gain),
        warnings=opened.warnings,
    )
    return tuning.run()


def _preflight(runner: Runner, reporter: Reporter) -> list[str]:
    """Reports what the machine lacks and returns the warnings; an error ends the run."""
    problems: list[Problem] = runner.check()
    for problem in problems:
        if problem.severity == "error":
            raise NotUsable(problem.message, problem.mend)
        reporter.problem(problem)
    return [problem.message for problem in problems if problem.severity == "warning"]


def _baseline(target: Target, request: Request, options: Any) -> tuple[dict[str, Value], list[str]]:
    """The settings to beat, and where the system takes something else from the user's file than it says."""
    if request.baseline is None:
        return target.space.default, []
    text = files.read_text(Path(request.baseline), "--baseline")
    try:
        present = target.exporter.present(text, _plain(options))
        notes = target.exporter.present_notes(text, _plain(options))
    except WrongUsage as error:
        raise WrongUsage(f"--baseline {request.baseline}: {error.message}", error.mend) from None
    return {**target.space.default, **present}, list(notes)


def _priors(storage: Storage, target: str, runner: Runner, *, experience: bool = True) -> list[dict[str, Value]]:
    """Settings worth trying first: what this user proved earlier, then the packaged ones; legal ones only."""
    proven = []
    for line in storage.listing() if experience else []:
        if line.target == target and line.decision == "adopt":
            with contextlib.suppress(TunerError):
                answer = storage.open(line.name).recommendation()
                if answer is not None:
                    proven.append(dict(answer.config))
    space = runner.space
    known = priors.merge(proven[:4], priors.packaged(target, runner.facts()))
    names = {knob.name for knob in space.knobs}
    fitting = (dict(space.canonical({**space.default, **c})) for c in known if names.issuperset(c))
    return [config for config in fitting if space.contains(config) and space.legal(config)]


def _refuse_empty(space: Space) -> None:
    """Where every combination breaks a rule, the rule that a first one breaks is what the user must hear."""
    if space.size <= ENUMERABLE and not space.configs():
        first = {knob.name: knob.domain.values[0] for knob in space.knobs}
        raise WrongUsage(f"none of the settings asked for can run here: {'; '.join(dict.fromkeys(space.broken(first)))}")


def _refuse_illegal(space: Space, baseline: Mapping[str, Value], request: Request) -> None:
    broken = space.broken(baseline)
    if broken and request.baseline is not None:
        raise WrongUsage(f"--baseline {request.baseline}: its settings can't run here: {'; '.join(broken)}")


def _with_defaults(request: Request, defaults: Mapping[str, str]) -> Request:
    missing = {name: value for name, value in defaults.items() if getattr(request, name) is None}
    return replace(request, **missing)  # type: ignore[arg-type]


def _merged(study: Study, override: Request) -> Request:
    """What the study was started with, changed by what is named now."""
    known = {f.name for f in fields(Request)}
    before = Request(**{name: value for name, value in study.header.tuning.items() if name in known})  # type: ignore[arg-type]
    named = {f.name: getattr(override, f.name) for f in fields(Request) if getattr(override, f.name) != f.default}
    return replace(before, **named)


def _resolved(options: Any, runner: Runner) -> dict[str, Json]:
    """The options with the engine that "auto" came out as: a study goes on with the engine it began with."""
    plain = _plain(options)
    if "engine" in plain:
        plain["engine"] = runner.engine
    return plain


def _plain(record: Any) -> dict[str, Json]:
    return dict(asdict(record))
