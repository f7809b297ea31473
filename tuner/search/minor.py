"""Knobs that mostly decide little are left alone at first: few measurements don't find their way in all directions at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from spaces.space import Config, Space

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# After so many settings a minor knob away from its default leaves this share of what a candidate is worth, after twice as many
# the square root of it, and so on: a belief that wears off as measurements come in (Hvarfner et al., piBO, ICLR 2022).
_SETTINGS, _SHARE = 20, 0.1


def early(space: Space, known: int) -> bool:
    """Whether minor knobs are still doubted much."""
    return space.core is not space and known < 2 * _SETTINGS


def doubts_of(space: Space, known: int) -> Callable[[Sequence[Config]], NDArray[np.float64]] | None:
    """Weights of settings from 0 to 1 after ``known`` were measured; None where no knob is minor."""
    if space.core is space:
        return None
    minor = [knob for knob in space.knobs if knob.name in space.minor]
    strength = _SETTINGS / max(1, known)

    def doubts(configs: Sequence[Config]) -> NDArray[np.float64]:
        import numpy as np

        changed = np.array([sum(config[knob.name] != knob.default for knob in minor) for config in configs])
        return np.asarray(_SHARE ** (strength * changed))

    return doubts
