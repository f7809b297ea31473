"""The race of a study: begun with the best of its search, run round by round, and taken up again where it was cut off."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from runners.runner import Json, Outcome, Runner
from spaces.space import Config, Key, Value
from tuner.pacing import Forecast
from tuner.race.race import Race, RaceRules, plan
from tuner.search.finalists import finalists
from tuner.study import Study
from tuner.trial import Phase, score


@dataclass(slots=True)
class Racing:
    """``measure`` measures a setting in a round. What is decided is noted in the study: a resumed race replays it.

    Without ``begin`` or ``resume`` there are no finalists, and the race is over before it starts.
    """

    runner: Runner
    study: Study
    baseline: Mapping[str, Value]
    rules: RaceRules
    rng: random.Random
    forecast: Forecast
    measure: Callable[[Config, Phase, int], Outcome]
    race: Race = field(init=False)
    number: int = 0

    def __post_init__(self) -> None:
        self.race = self._of((), self.rules)

    def begin(self, most: int, simple: Config | None) -> None:
        """With at most ``most`` finalists, ``simple`` among them if there is one."""
        # More finalists than the budget has rounds for only thin the proof out.
        count, rules = plan(self.forecast.raceable(), self.rules, most) or (1, self.rules)
        configs = finalists(self.runner.space, self.forecast.history, self.runner.objective, count)
        if simple is not None and simple not in configs and count > 1:
            configs = [*configs[: count - 1], simple]
        self.number = 1 + self._last_round()
        race: dict[str, Json] = {
            "finalists": [dict(c) for c in configs],
            "first_round": self.number,
            "max_rounds": rules.max_rounds,
        }
        self.study.note("race", race)
        self.race = self._of(configs, rules)

    def resume(self) -> bool:
        """Replays a race that an earlier session began and did not finish; False where the search is to go on."""
        note = self.study.noted("race")
        if not isinstance(note, dict) or self.study.recommendation() is not None:
            return False
        configs, first = cast("list[Config]", note["finalists"]), cast(int, note["first_round"])
        self.race = self._of(configs, replace(self.rules, max_rounds=cast(int, note["max_rounds"])))
        thinned = cast("dict[str, int]", note.get("thinned", {}))
        last = self._last_round()
        for number in range(first, last + 1):
            if str(number) in thinned:
                self.race.thin(thinned[str(number)])
            values = {
                self.runner.space.key(t.config): score(t.outcome, self.runner.objective)
                for t in self.forecast.history
                if t.round == number and t.phase == "race"
            }
            expected = self.race.next_round(self.rng)
            if set(expected) == set(values):
                self.race.record(values)
        self.number = last + 1
        return True

    def run(self) -> str:
        """Rounds until the race is decided; why it was cut off before, "" if it wasn't."""
        space = self.runner.space
        while True:
            self._thin()
            keys = self.race.next_round(self.rng)
            if not keys:
                return ""
            refusal = self.forecast.refusal(len(keys))
            if refusal:
                return refusal
            values: dict[Key, float | None] = {}
            for key in keys:
                config = self.baseline if key == space.key(self.baseline) else space.config(key)
                values[key] = score(self.measure(config, "race", self.number), self.runner.objective)
            self.race.record(values)
            self.number += 1

    def _of(self, configs: Sequence[Config], rules: RaceRules) -> Race:
        space = self.runner.space
        keys = [space.key(c) for c in configs]
        cost = {space.key(c): space.cost(c) for c in [*configs, self.baseline]}
        return Race(keys, space.key(self.baseline), cost, rules)

    def _last_round(self) -> int:
        return max((t.round for t in self.forecast.history), default=-1)

    def _thin(self) -> None:
        """Before a round: fewer contenders, where a proof with all of them would take longer than what is left."""
        race = self.race
        todo = race.minimum_rounds - race.rounds
        # In the first round jobs may have been started that later ones find there.
        if race.rounds < 2 or todo <= 0:
            return
        able = (count for count in range(race.contenders, 1, -1) if self.forecast.in_time(todo, count, self.baseline))
        count = next(able, 1)
        note = self.study.noted("race")
        if count < race.contenders and isinstance(note, dict):
            # A resumed race is replayed, and this with it.
            thinned = cast("dict[str, Json]", note.get("thinned", {}))
            self.study.note("race", {**note, "thinned": {**thinned, str(self.number): count}})
            race.thin(count)
