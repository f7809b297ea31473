from __future__ import annotations

import math
import random
from collections.abc import Callable

from runners.runner import Failure, Measurement, Objective, Outcome
from spaces.space import Config, Knob, Space, flag, log2
from tuner.search.stop import worth
from tuner.search.strategy import default_strategy
from tuner.trial import Trial

OBJECTIVE = Objective("value", "")
SPACE = Space(
    (
        Knob("a", log2(1, 256), 1, "", "test"),
        Knob("b", log2(1, 256), 1, "", "test"),
        Knob("c", log2(1, 16), 1, "", "test"),
        Knob("d", flag(), False, "", "test"),
    )
)


def stopped_at(truth: Callable[[Config], float], count: int, seed: int = 0, noise: float = 0.04) -> tuple[int, str]:
    """After how many measurements the rule fired, and its words."""
    rng = random.Random(seed)

    def measure(config: Config) -> Outcome:
        value = truth(config) * math.exp(rng.gauss(0, noise))
        return Measurement({"value": value}, (value,), 1.0)

    strategy = default_strategy(OBJECTIVE)
    history: list[Trial] = []
    while len(history) < count:
        reason = worth(SPACE, history, OBJECTIVE)
        if reason:
            return len(history), reason
        if len(history) % 7 == 0:
            history.append(Trial(SPACE.default, measure(SPACE.default), "baseline"))
            continue
        config = strategy.propose(SPACE, history, rng)
        assert config is not None
        history.append(Trial(config, measure(config), "search"))
    return count, ""


def test_it_stops_where_nothing_can_be_gained() -> None:
    used = [stopped_at(lambda _: 2.0, 80, seed) for seed in range(4)]
    assert all(reason for _, reason in used)
    assert min(count for count, _ in used) >= 24
    assert "%" in used[0][1]


def test_it_goes_on_where_each_step_gains() -> None:
    def rising(config: Config) -> float:
        # Every doubling of any knob gains; the best of 810 is the last corner.
        return math.exp(0.2 * sum(math.log2(int(config[k])) for k in "abc") + 0.3 * bool(config["d"]))

    for seed in range(3):
        rng = random.Random(seed)
        drawn = [c for c in SPACE.configs() if sum(math.log2(int(c[k])) for k in "abc") < 14]
        history = [Trial(SPACE.default, Measurement({"value": 1.0}, (1.0,), 1.0), "baseline")]
        for config in rng.sample(drawn, 60):
            value = rising(config) * math.exp(rng.gauss(0, 0.04))
            history.append(Trial(config, Measurement({"value": value}, (value,), 1.0), "search"))
        assert all(worth(SPACE, history[:n], OBJECTIVE) is None for n in range(1, 61, 3))


def test_not_before_enough_is_known() -> None:
    assert worth(SPACE, [], OBJECTIVE) is None
    history = [Trial(c, Measurement({"value": 1.0}, (1.0,), 1.0), "search") for c in SPACE.configs()[:12]]
    assert worth(SPACE, history, OBJECTIVE) is None


def test_nothing_left_is_a_reason() -> None:
    space = Space((Knob("d", flag(), False, "", "test"),))
    history = [
        Trial({"d": False}, Measurement({"value": 1.0}, (1.0,), 1.0), "baseline"),
        Trial({"d": True}, Failure("infeasible", ""), "search"),
    ]
    assert worth(space, history, OBJECTIVE) == "every setting that may run was measured"


def test_when_all_fails_it_does_not_claim_to_know() -> None:
    history = [Trial(c, Failure("timeout", ""), "search") for c in SPACE.configs()[:60]]
    assert worth(SPACE, history, OBJECTIVE) is None
