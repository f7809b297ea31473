"""Why a measurement can't be that of its setting: other CPUs than laid out, other results than one rank's, no such times."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from runners.xft import evidence
from runners.xft.engines.engine import Run
from runners.xft.layout import Layout
from runners.xft.model import BYTES, Demand

# The weights that a token reads, over what no host's caches and memory give: bytes a second.
_IMPOSSIBLE = 20e12
# Results of the same model differ by rounding: sums come in another order.
_ROUNDING: Mapping[str, float] = {"fp32": 2e-3}
_COARSE = 0.1


def doubt(layout: Layout, run: Run, right: Sequence[float], dtype: str, demand: Demand | None) -> str:
    """A sentence, "" where all is as it should be.

    ``right`` are the scores that the model must come to, () where none are known yet; ``dtype`` is what it was computed with.
    ``demand`` is what was computed, None where nobody knows.
    """
    if run.reports and (why := evidence.contradiction(layout, run.reports)):
        return why
    return _of_results(run.digest, right, dtype) or ("" if demand is None else _of_times(layout, run, demand))


def _of_results(digest: Sequence[float], right: Sequence[float], dtype: str) -> str:
    if not all(math.isfinite(each) for each in digest):
        return "the model's results are not numbers"
    allowed = _ROUNDING.get(dtype, _COARSE)
    pairs = zip(digest, right, strict=False)
    if any(abs(mine - wanted) > allowed * max(1.0, abs(wanted)) for mine, wanted in pairs):
        return f"the model's best scores are {_short(digest)} and one rank alone finds {_short(right)}"
    return ""


def _of_times(layout: Layout, run: Run, demand: Demand) -> str:
    following = [request.mean_next for request in run.requests if request.mean_next is not None]
    read = demand.shape.split * BYTES[demand.dtype] / max(1, demand.shape.experts)
    if not following or min(following) * _IMPOSSIBLE * len(layout.hosts) >= 1e3 * read:
        return ""
    return f"{min(following):.3g} ms a token would read {read / 1e9:.3g} GB of weights faster than any memory gives them"


def _short(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:.4g}" for number in numbers)
