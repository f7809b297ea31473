"""What a job on each transport holds, and which of it really runs: looked at once a transport."""

from __future__ import annotations

from runners.oneccl.proof import Proof, prove
from runners.oneccl.setup import Setup
from runners.oneccl.table import Layout, layout
from runners.runner import EnvironmentProblem, Failure
from spaces.oneccl import ALGORITHMS, class_of
from spaces.space import Space


class Proofs:
    def __init__(self, setup: Setup, narrowed: Space) -> None:
        self._setup, self._narrowed = setup, narrowed
        self._found: dict[str, Proof] = {}

    def entries(self, transport: str) -> Layout:
        """Every algorithm that the search or the baseline may ask for, with the bytes that it is timed with."""
        work, space = self._setup.work, self._narrowed
        known = [each for each in ALGORITHMS[work.selected] if each != "direct" or transport == "mpi"]
        wanted = {size: [each for each in known if each in space[class_of(size)].domain.values] for size in work.plain}
        return layout(work.plain, wanted, work.element)

    def of(self, transport: str) -> Proof:
        """Raises EnvironmentProblem where not even a job with oneCCL's own transport starts, or a host is gone."""
        if transport not in self._found:
            self._found[transport] = self._look(transport)
        return self._found[transport]

    def _look(self, transport: str) -> Proof:
        setup, entries = self._setup, self.entries(transport)
        other = {} if transport == setup.transport else {"CCL_ATL_TRANSPORT": transport}
        env, limit = {**other, **setup.interface()}, 2 * setup.jobs.start_limit
        found = prove(setup.starter, env, entries, limit)
        if isinstance(found, Failure) and found.kind == "crash":  # bad luck, it may be
            found = prove(setup.starter, env, entries, limit)
        if not isinstance(found, Failure):
            return found
        if found.kind == "environment" or transport == setup.transport:
            mend = "tune doctor oneccl, with the same options"
            raise EnvironmentProblem(f"a job with the transport {transport} can't run here: {found.reason}", mend)
        return Proof({}, dict.fromkeys(entries, found.reason))
