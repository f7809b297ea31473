"""Settings as rows of numbers, so that distance means how much two settings differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spaces.space import Config, Knob, Space, Value

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows = NDArray[np.float64]


class Encoding:
    """Settings as rows of numbers: a column for an ordinal knob or a flag, one for each value of a choice."""

    def __init__(self, space: Space) -> None:
        self._knobs = [knob for knob in space.knobs if len(knob.domain.values) > 1]
        # A space holds few values and many settings.
        self._known: list[dict[Value, list[float]]] = [{} for _ in self._knobs]
        self.columns: list[slice] = []
        for knob in self._knobs:
            first = self.columns[-1].stop if self.columns else 0
            self.columns.append(slice(first, first + len(_numbers(knob, knob.domain.values[0]))))
        self.columns = self.columns or [slice(0, 1)]

    def rows(self, configs: Sequence[Config]) -> Rows:
        """An array of ``len(configs)`` rows; a value outside its knob's domain is placed where it would be."""
        import numpy as np

        flat: list[list[float]] = []
        for config in configs:
            row: list[float] = []
            for knob, known in zip(self._knobs, self._known, strict=True):
                value = config[knob.name]
                numbers = known.get(value)
                if numbers is None:
                    numbers = known[value] = _numbers(knob, value)
                row += numbers
            flat.append(row or [0.0])
        return np.array(flat, dtype=np.float64)


def _numbers(knob: Knob, value: Value) -> list[float]:
    values = knob.domain.values
    if knob.domain.kind == "choice":
        # Two different values are at distance one, like the ends of an ordinal knob.
        return [math.sqrt(0.5) * (value == other) for other in values]
    if knob.domain.kind == "flag":
        return [float(value is True)]
    low, high, here = float(values[0]), float(values[-1]), float(value)
    if knob.domain.kind == "log2":
        # Off (0) is a step below the smallest value that is on.
        off = next((float(number) for number in values if float(number) > 0), 1.0) / 2
        low, high, here = (math.log2(number) if number > 0 else math.log2(off) for number in (low, high, here))
    return [(here - low) / (high - low)]
