"""The record of one study: every single measurement as a trial of an Optuna study."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from runners.runner import Failure, FailureKind, Json, Measurement, Objective, Outcome
from spaces.space import Config, Knob, Space, Value
from tuner.database import spelled, translated
from tuner.errors import WrongUsage
from tuner.recommendation import Gain, Recommendation
from tuner.trial import Phase, Trial, score

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.storages import RDBStorage
    from optuna.trial import FrozenTrial

SCHEMA = 1
# Attributes of an Optuna study under which ours keeps what it was started with and what came out.
HEADER = "clustertune"
ANSWER = "recommendation"


@dataclass(frozen=True, slots=True)
class Header:
    """What a study was started with; ``narrow`` holds the knobs' domains as typed, ``options`` the runner's."""

    target: str
    space: str
    objective: Objective
    baseline: Mapping[str, Value]
    narrow: Mapping[str, str]
    options: Mapping[str, Json]
    tuning: Mapping[str, Json]
    machine: Mapping[str, Json]
    started: float
    schema: int = SCHEMA


class Study:
    """One study. ``begin`` and ``finish`` each commit, so a kill between them leaves a row that resuming finds."""

    def __init__(
        self,
        where: str,
        rdb: RDBStorage,
        number: int,
        name: str,
        header: Header,
        check_present: Callable[[], None] = lambda: None,
    ) -> None:
        self._where, self._rdb, self._check_present = where, rdb, check_present
        self.number, self.name, self.header = number, name, header

    @property
    def spelled(self) -> str:
        """The study as a command must name it: with its storage, where that is not the usual one."""
        return spelled(self.name, self._where)

    def begin(self, space: Space, config: Config, phase: Phase, round: int = -1) -> int:
        """Writes a running trial and returns its id."""
        from optuna.trial import TrialState, create_trial

        self._check_present()
        template = create_trial(
            state=TrialState.RUNNING,
            params=dict(config),
            distributions=_distributions(space, self.header.baseline, config),
            user_attrs={"phase": phase, "round": round},
        )
        with translated(self._where):
            return self._rdb.create_new_trial(self.number, template)

    def finish(self, trial: int, outcome: Outcome, elapsed: float) -> None:
        """Closes a running trial; ``elapsed`` is the study's wall time so far in seconds, over all its sessions."""
        from optuna.trial import TrialState

        value = outcome.metrics.get(self.header.objective.metric) if isinstance(outcome, Measurement) else None
        measured = score(outcome, self.header.objective) is not None
        with translated(self._where):
            self._rdb.set_trial_user_attr(trial, "outcome", {**_outcome_to_json(outcome), "elapsed": elapsed})
            if measured and value is not None:
                self._rdb.set_trial_state_values(trial, TrialState.COMPLETE, [value])
            else:
                self._rdb.set_trial_state_values(trial, TrialState.FAIL)

    def abandon_running(self) -> int:
        """Closes what a killed session left running, without inventing an outcome; returns how many there were.

        A trial that was killed between its outcome and its state is finished with the outcome it has.
        """
        from optuna.trial import TrialState

        abandoned = 0
        with translated(self._where):
            for frozen in self._rdb.get_all_trials(self.number, deepcopy=False, states=(TrialState.RUNNING,)):
                outcome = _outcome(frozen)
                value = outcome.metrics.get(self.header.objective.metric) if isinstance(outcome, Measurement) else None
                if value is not None:
                    self._rdb.set_trial_state_values(frozen._trial_id, TrialState.COMPLETE, [value])
                    continue
                abandoned += outcome is None
                self._rdb.set_trial_state_values(frozen._trial_id, TrialState.FAIL)
        return abandoned

    def trials(self, space: Space) -> list[Trial]:
        """Every finished measurement in the order it was made; abandoned ones, which measured nothing, are left out."""
        found = []
        with translated(self._where):
            frozen_trials = self._rdb.get_all_trials(self.number, deepcopy=False)
        for frozen in frozen_trials:
            outcome = _outcome(frozen)
            if outcome is not None and all(knob.name in frozen.params for knob in space.knobs):
                attributes = frozen.user_attrs
                config = {knob.name: frozen.params[knob.name] for knob in space.knobs}
                phase = cast(Phase, attributes.get("phase", "search"))
                found.append(Trial(config, outcome, phase, int(attributes.get("round", -1))))
        return found

    def elapsed(self) -> float:
        """Wall seconds that the study's sessions spent, up to its last finished measurement."""
        with translated(self._where):
            frozen_trials = self._rdb.get_all_trials(self.number, deepcopy=False)
        return max((float(t.user_attrs.get("outcome", {}).get("elapsed", 0.0)) for t in frozen_trials), default=0.0)

    def note(self, key: str, value: Json) -> None:
        """Keeps a fact of the run beside its trials, replacing the one of that name."""
        with translated(self._where):
            self._rdb.set_study_user_attr(self.number, key, value)

    def noted(self, key: str) -> Json:
        with translated(self._where):
            return cast(Json, self._rdb.get_study_user_attrs(self.number).get(key))

    def answer(self, recommendation: Recommendation) -> None:
        with translated(self._where):
            self._rdb.set_study_user_attr(self.number, ANSWER, to_json(recommendation))

    def recommendation(self) -> Recommendation | None:
        with translated(self._where):
            raw = self._rdb.get_study_user_attrs(self.number).get(ANSWER)
        if not isinstance(raw, dict):
            return None
        gain = raw.get("gain")
        fields: dict[str, Any] = {**raw, "gain": Gain(**gain) if gain else None}
        fields["equals"], fields["warnings"] = tuple(raw["equals"]), tuple(raw["warnings"])
        return Recommendation(**fields)


def to_json(record: Header | Recommendation) -> dict[str, Any]:
    """Plain JSON; a round trip keeps what NaN or a tuple would not."""
    return cast("dict[str, Any]", json.loads(json.dumps(asdict(record), default=list)))


def read_header(name: str, attributes: Mapping[str, Any]) -> Header:
    raw = attributes.get(HEADER)
    if not isinstance(raw, dict):
        raise WrongUsage(f"study {name!r} was not made by clustertune", "`tune studies` lists the ones that were")
    schema = raw.get("schema")
    if not isinstance(schema, int) or schema > SCHEMA:
        raise WrongUsage(
            f"study {name!r} was written by a newer clustertune (format {schema}, this one knows {SCHEMA})",
            "pip install --upgrade clustertune",
        )
    try:
        return Header(**{**raw, "objective": Objective(**raw["objective"])})
    except (KeyError, TypeError) as error:
        raise WrongUsage(f"study {name!r} is damaged: {error}", f"tune delete {name}, and start a new one") from None


def _outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    if isinstance(outcome, Measurement):
        return {
            "metrics": dict(outcome.metrics),
            "samples": list(outcome.samples),
            "seconds": outcome.seconds,
            "bytes_written": outcome.bytes_written,
            "evidence": dict(outcome.evidence),
        }
    # The tail of a log says why a program died; whole logs would swell the file.
    return {**asdict(replace(outcome, log=outcome.log[-2000:]))}


def _outcome(frozen: FrozenTrial) -> Outcome | None:
    raw = frozen.user_attrs.get("outcome")
    if not isinstance(raw, dict):
        return None
    if "kind" in raw:
        kind = cast(FailureKind, raw["kind"])
        return Failure(kind, raw["reason"], raw["log"], raw["seconds"], raw["bytes_written"])
    return Measurement(raw["metrics"], tuple(raw["samples"]), raw["seconds"], raw["bytes_written"], raw["evidence"])


def _distributions(space: Space, *configs: Config) -> dict[str, BaseDistribution]:
    """Optuna's view of the knobs, wide enough for ``configs``: a baseline may lie outside a narrowed domain."""
    return {knob.name: _distribution(knob, [config[knob.name] for config in configs]) for knob in space.knobs}


def _distribution(knob: Knob, others: Sequence[Value]) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, IntDistribution

    values = [*knob.domain.values, *others]
    if knob.domain.ordinal:
        numbers = [int(value) for value in values]
        return IntDistribution(min(numbers), max(numbers), log=knob.domain.kind == "log2" and min(numbers) > 0)
    # Optuna wants the same choices in the same order in every trial of a study.
    return CategoricalDistribution(sorted(set(values), key=str))
