"""oneCCL and Intel MPI on CPUs: transport, provider, progress threads, algorithm for each size, and pinning of ranks.

Sources: the oneCCL guide (environment variables), oneCCL's source (src/common/env, src/exec), the Intel MPI reference (process
pinning, fabrics control), and runs of oneCCL 2022.1 with Intel MPI 2021.18.
"""

from __future__ import annotations

from dataclasses import replace

from spaces.oneccl.environment import (
    Assigned,
    algorithm_table,
    assigned,
    environment,
    interface_environment,
    transport_of,
    variables,
)
from spaces.oneccl.knobs import ALGORITHMS, COLLECTIVES, KNOBS, PINNING, PROVIDER_NAMES, SIZE_CLASSES, class_of, variable_of
from spaces.oneccl.rules import FUSED_SIZE, WARM, Limits, cost, for_job, offloads, rules
from spaces.space import Space

__all__ = [
    "ALGORITHMS",
    "COLLECTIVES",
    "FUSED_SIZE",
    "PINNING",
    "PROVIDER_NAMES",
    "SIZE_CLASSES",
    "SPACE",
    "SUMMARY",
    "WARM",
    "Assigned",
    "Limits",
    "algorithm_table",
    "assigned",
    "class_of",
    "cost",
    "environment",
    "for_job",
    "interface_environment",
    "offloads",
    "rules",
    "transport_of",
    "variable_of",
    "variables",
]

SUMMARY = "oneCCL collectives on CPUs: transport, libfabric provider, workers, algorithm for each size, pinning."

# Names every collective's algorithms, so that a user may ask for any; the rules are those of a job of which nothing is known.
SPACE = replace(for_job(Space(KNOBS), Limits()), knobs=KNOBS)
