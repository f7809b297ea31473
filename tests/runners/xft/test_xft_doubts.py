"""Figures that can't be true are found out, whatever the program says of itself."""

from __future__ import annotations

import math

import pytest

from runners.xft.doubts import doubt
from runners.xft.engines.engine import Run
from runners.xft.goal import Request
from runners.xft.known_models import KNOWN
from runners.xft.layout import Layout, RankPlace
from runners.xft.model import Demand
from runners.xft.seats import Memory

LAYOUT = Layout((RankPlace(0, "h", 0, (0,), 1, Memory(), {}),))
DEMAND = Demand(KNOWN["llama-2-7b"], "bf16")


def run(ms: float = 50.0, digest: tuple[float, ...] = (3.5, 2.0)) -> Run:
    return Run((Request(100.0, (ms, ms)),), (), digest)


@pytest.mark.parametrize(
    ("found", "right", "dtype", "said"),
    [
        (run(), (3.5, 2.0), "fp32", ""),
        (run(), (), "fp32", ""),
        (run(digest=(3.51, 2.0)), (3.5, 2.0), "bf16", ""),
        (run(digest=(3.51, 2.0)), (3.5, 2.0), "fp32", "one rank alone finds 3.5, 2"),
        (run(digest=(7.0, 2.0)), (3.5, 2.0), "bf16", "best scores are 7, 2"),
        (run(digest=(math.nan,)), (3.5,), "fp32", "are not numbers"),
        (run(ms=0.5), (), "bf16", "faster than any memory"),
    ],
)
def test_doubts_have_their_reasons(found: Run, right: tuple[float, ...], dtype: str, said: str) -> None:
    told = doubt(LAYOUT, found, right, dtype, DEMAND)
    assert said in told
    assert bool(said) == bool(told)


def test_nobody_knows_what_a_program_of_the_users_computes() -> None:
    assert doubt(LAYOUT, run(ms=0.5, digest=()), (), "bf16", None) == ""
