"""CPU inference of language models by ranks (xFasterTransformer and its like): ranks, pinning, memory, waiting, communication.

Sources: xFT's source and benchmark scripts (2.1.2), the manuals of libgomp and libiomp5, numactl(8), the oneCCL guide.
"""

from __future__ import annotations

from spaces.space import Space
from spaces.xft.environment import BINDING, HUGE_PAGES, VARIABLES, XFT, Software, assigned, ccl, runtime
from spaces.xft.knobs import CCL, DEFAULTS, KNOBS, PLACEMENT, XFT_ONLY
from spaces.xft.rules import Limits, for_job

__all__ = [
    "BINDING",
    "CCL",
    "DEFAULTS",
    "HUGE_PAGES",
    "KNOBS",
    "PLACEMENT",
    "SPACE",
    "SUMMARY",
    "VARIABLES",
    "XFT",
    "XFT_ONLY",
    "Limits",
    "Software",
    "assigned",
    "ccl",
    "for_job",
    "runtime",
]

SUMMARY = "CPU inference of language models: ranks, pinning, memory, waiting threads, xFT's switches, communication."

SPACE = for_job(Space(KNOBS), Limits())
