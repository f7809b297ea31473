"""A setting with one knob set back to the baseline's: what each of its knobs is worth, and which it can do without."""

from __future__ import annotations

from spaces.space import Config, Space, Value


def flips(space: Space, config: Config, baseline: Config) -> dict[str, dict[str, Value]]:
    """By knob: ``config`` with that knob set back to the baseline's, where that is legal and not the same in effect."""
    own = space.key(space.canonical(config))
    found = {}
    for knob in space.knobs:
        flipped = {**config, knob.name: baseline[knob.name]}
        if space.key(space.canonical(flipped)) != own and space.legal(flipped):
            found[knob.name] = flipped
    return found


def simpler(space: Space, config: Config, baseline: Config) -> dict[str, dict[str, Value]]:
    """Those of ``flips`` that cost less than ``config``."""
    found = flips(space, config, baseline)
    return {knob: flipped for knob, flipped in found.items() if space.cost(flipped) < space.cost(config)}
