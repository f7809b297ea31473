"""What a user narrowed a knob to and no setting can have here: said at once, not by a study that finds nothing."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

from runners.runner import UsageError
from spaces.space import Knob, Space

_DRAWN = 1024


def check(here: Space, whole: Space) -> None:
    """Raises UsageError where no setting of ``here`` can run and one would, were a knob's values those of ``whole``."""
    if here.pool(random.Random(0), _DRAWN):
        return
    for knob in here.knobs:
        if knob.domain.values != whole[knob.name].domain.values and _with(here, whole[knob.name]).pool(
            random.Random(0), _DRAWN
        ):
            values = ",".join(knob.show(value) for value in knob.domain.values)
            raise UsageError(knob.name.replace("_", "-"), values, _reason(here))
    # Several at once: nothing that one option could say.


def _with(space: Space, knob: Knob) -> Space:
    return replace(space, knobs=tuple(knob if each.name == knob.name else each for each in space.knobs))


def _reason(space: Space) -> str:
    """What most settings break."""
    rng = random.Random(0)
    reasons: Counter[str] = Counter()
    for _ in range(64):
        reasons.update(space.broken(space.canonical({knob.name: rng.choice(knob.domain.values) for knob in space.knobs})))
    return reasons.most_common(1)[0][0]
