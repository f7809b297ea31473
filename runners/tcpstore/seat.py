"""One host of several: the worker process there, what it has, and how its clock differs from ours."""

from __future__ import annotations

import time

from runners.hosts.host import Host
from runners.launch.job import Launcher
from runners.launch.seat import HostFailure
from runners.launch.seat import Seat as AnySeat
from runners.runner import EnvironmentProblem
from runners.tcpstore import fit, network
from runners.tcpstore.clocks import Clock

_MODULE = "runners.tcpstore.there"
# All that the worker imports of ours.
CARRIED = (
    "spaces.space", "spaces.units", "runners.limits", "runners.options", "runners.process", "runners.runner",
    "runners.tcpstore.able", "runners.tcpstore.broken", "runners.tcpstore.crowd", "runners.tcpstore.figures",
    "runners.tcpstore.fit", "runners.tcpstore.job", "runners.tcpstore.kernel", "runners.tcpstore.names",
    "runners.tcpstore.network", "runners.tcpstore.options", "runners.tcpstore.rank", "runners.tcpstore.weigh", _MODULE,
)  # fmt: skip
_LOAD = 180.0
_QUESTIONS = 6


class Seat(AnySeat):
    """``can`` is there after ``load``."""

    module, carried = _MODULE, CARRIED
    wanted = " and has torch"
    environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # noqa: RUF012

    def __init__(self, host: Host, launcher: Launcher, python: str) -> None:
        super().__init__(host, launcher, python)
        self.clock = Clock()
        self.can: dict[str, str] = {}

    def load(self) -> None:
        """Loads torch there and tries what it can. Raises EnvironmentProblem where it has none that works."""
        try:
            self.can = {name: str(why) for name, why in self.ask({"do": "able"}, _LOAD)["can"].items()}
        except HostFailure as problem:
            mend = f"name the Python that has torch on {self.host.name}: --python PROGRAM (now {self.facts['python']})"
            raise EnvironmentProblem(f"{self.host.name}: torch does not start: {problem.failure.reason}", mend) from None

    @property
    def machine(self) -> fit.Machine:
        told = self.facts["machine"]
        return fit.Machine(**{**told, "descriptors": network.Descriptors(**told["descriptors"])})

    def set_clock(self) -> None:
        """Asks for the time there again, a few times in a row."""
        for _ in range(_QUESTIONS):
            asked = time.monotonic()
            there = float(self.ask({"do": "clock"})["clock"])
            self.clock.hear(asked, there, time.monotonic())
