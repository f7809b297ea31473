"""A recommendation in a user's own env file or launch script."""

from __future__ import annotations

from spaces.xft import PLACEMENT, VARIABLES
from tuner.errors import WrongUsage
from tuner.exporters import format as contract
from tuner.exporters.format import Merged
from tuner.exporters.shell import assign, last, without
from tuner.exporters.xft import options as file_options
from tuner.exporters.xft.calls import calls
from tuner.exporters.xft.entries import entries, ours
from tuner.exporters.xft.files import threads_of
from tuner.exporters.xft.reading import ASIDE, OURS, oneccl_names, placement, refuse, topologies
from tuner.recommendation import Recommendation


def merge(text: str, recommendation: Recommendation, options: contract.Options) -> Merged:
    """The recommendation's variables set in a user's file, and those of its knobs that are to be left alone taken out.

    A script's own ranks must have the recommended cores and memory already: it is not rewritten. Raises WrongUsage.
    """
    refuse(text)
    job = file_options.launch(recommendation, options)
    if found := calls(text):
        _same_place(text, recommendation, options)
    own = [] if found else [*ours(recommendation), *threads_of(recommendation, job)]
    wanted = {entry.name: entry.value for entry in (*entries(recommendation, job), *own)}
    if found:  # each rank has its own
        wanted = {name: value for name, value in wanted.items() if name not in ASIDE}
    notes = []
    variables = {*VARIABLES, *(f"CLUSTERTUNE_{name.upper()}" for name in OURS), *(oneccl_names() if job.software.ccl else ())}
    for name in sorted(variables - wanted.keys() - (ASIDE if found else set())):
        while (each := last(text).get(name)) is not None:
            text = without(text, each)
            notes.append(f"removed {name}={each.value}: the recommendation leaves it alone")
    return Merged(assign(text, wanted), tuple(notes))


def _same_place(text: str, recommendation: Recommendation, options: contract.Options) -> None:
    plan = file_options.plan(recommendation.machine)
    hosts = plan.topologies if plan else topologies(options)
    placed = placement(calls(text), text, hosts)
    if any(placed[name] != recommendation.config[name] for name in PLACEMENT):
        raise WrongUsage(
            "its ranks have other cores or memory than the recommendation, and calls of numactl are not rewritten.",
            "write a new script: tune export STUDY --format script -o run_xft.sh",
        )
