"""Several hosts as the place of a measurement: a worker on each, rank 0 on the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from runners.hosts.host import Host
from runners.launch.direct import Ssh
from runners.launch.job import Launcher
from runners.launch.reach import Reach
from runners.launch.seat import HostFailure
from runners.runner import EnvironmentProblem, Failure, Json, Problem
from runners.tcpstore import fit, kernel, meeting, shares
from runners.tcpstore.crew import Crew
from runners.tcpstore.job import Job
from runners.tcpstore.kernel import Left
from runners.tcpstore.options import Options
from runners.tcpstore.places import Found, told
from runners.worker import Reply


class Abroad:
    """Reaches its hosts when it is first asked something. ``launcher``: how, where that is not by ssh."""

    def __init__(
        self, options: Options, hosts: Sequence[Host], ssh: Sequence[str], python: str, launcher: Launcher | None = None
    ) -> None:
        self._options, self._hosts, self._python = options, tuple(hosts), python
        self.hosts = tuple(host.name for host in hosts)
        self._launcher = launcher or Ssh(Reach(ssh=tuple(ssh), python=python))
        self._crew: Crew | None = None
        self._met: meeting.Meeting | None = None
        self._loaded: Mapping[str, Json] | None = None
        # What the hosts' facts were when they were first asked: what a number holds for, whatever was raised since.
        self._torch: dict[str, str] = {}
        self._machines: list[fit.Machine] = []
        self._before: dict[str, int] = {}
        self._left: list[Problem] = []
        shares.spread(hosts, options.world_size)

    @property
    def crew(self) -> Crew:
        """The workers. Raises EnvironmentProblem that names a host that can't be used."""
        if self._crew is None or not self._crew.alive:
            self._crew, self._loaded = Crew.connect(self._hosts, self._launcher, self._python), None
            if not self._machines:
                self._learn(self._crew)
        return self._crew

    def _learn(self, crew: Crew) -> None:
        self._machines = [seat.machine for seat in crew.seats]
        self._torch = {seat.host.name: str(seat.facts["torch"]) for seat in crew.seats}
        self._before = dict(crew.head.facts["backlogs"])
        self._left = [Left(**each).problem(seat.host.name) for seat in crew.seats for each in seat.facts["left"]]

    @property
    def met(self) -> meeting.Meeting:
        if self._met is None:
            options = self._options
            self._met = meeting.meet(self.crew, options.master, options.world_size, options.port)
        return self._met

    @property
    def found(self) -> Found:
        met = self.met
        return Found(met.name, met.ip, met.lookup, met.refused, self._before, self._torch[self.hosts[0]])

    def problems(self) -> list[Problem]:
        from runners.tcpstore.checks import backlog_problems, port_problems, system_problems

        options = self._options
        crew, met = self.crew, self.met
        head = self.hosts[0]
        return [
            *self._left,
            *self._torches(crew),
            *shares.problems(
                self._hosts, options.world_size, options.processes, self._machines, force=options.force, raised=options.system
            ),
            *met.problems,
            *port_problems(options.port),
            *backlog_problems(options.world_size, self._before.get(kernel.SOMAXCONN), system=options.system, host=head),
            *system_problems(options, self._before, self.refusal),
        ]

    def _torches(self, crew: Crew) -> list[Problem]:
        found = []
        for seat in crew.seats:
            if not seat.facts["torch"]:
                message = f"{seat.host.name}: PyTorch is not installed for {seat.facts['python']}"
                mend = f"--python names the Python that has it; or there: {seat.facts['python']} -m pip install torch"
                found.append(Problem("torch", "error", message, mend))
        versions = {each for each in self._torch.values() if each}
        if len(versions) > 1:
            said = ", ".join(f"{host} {version or 'none'}" for host, version in self._torch.items())
            message = f"the hosts have different versions of PyTorch: {said}; the server is {self.hosts[0]}'s"
            found.append(Problem("torch-versions", "warning", message, "one version on all hosts"))
        return found

    def facts(self) -> dict[str, Json]:
        options, found = self._options, self.found
        counts = self.processes(options.world_size, options.processes)
        placed = shares.spread(self._hosts, options.world_size)
        return {
            "torch": found.torch,
            "processes": sum(counts) + 1,
            "master": {"name": found.name, "ip": found.ip, "loopback": found.lookup.loopback},
            "somaxconn": found.backlogs.get(kernel.SOMAXCONN),
            "nofile": self._machines[0].descriptors.soft,
            "hosts": [
                {"name": share.host.name, "ranks": share.count, "torch": self._torch[share.host.name], "cores": has.cores}
                for share, has in zip(placed, self._machines, strict=True)
            ],
        }

    def load(self) -> Mapping[str, Json]:
        crew = self.crew
        if self._loaded is None:
            self._loaded = crew.load()
        return self._loaded

    def abilities(self) -> Mapping[str, Mapping[str, Json]]:
        return {seat.host.name: dict(seat.can) for seat in self.crew.seats}

    def machines(self) -> list[fit.Machine]:
        if not self._machines:
            self._learn(self.crew)
        return self._machines

    def processes(self, ranks: int, wanted: int) -> list[int]:
        placed = shares.spread(self._hosts, ranks)
        return [shares.processes(share, wanted, has) for share, has in zip(placed, self.machines(), strict=True)]

    def emulated(self, ranks: int, wanted: int) -> bool:
        placed = shares.spread(self._hosts, ranks)
        counts = self.processes(ranks, wanted)
        return any(count < share.count - (share.first == 0) for share, count in zip(placed, counts, strict=True))

    def largest(self) -> int:
        has = self.machines()

        def fits(size: int) -> bool:
            return not shares.problems(self._hosts, size, 0, has, force=False, raised=self._options.system, search=False)

        return shares.largest(fits, len(self._hosts))

    def refusal(self, backlog: int) -> str:
        said = str(
            self.crew.everywhere(lambda seat: seat.ask({"do": "may_raise", "backlog": backlog})["refusal"], [self.crew.head])[
                0
            ]
        )
        return f"{said} on {self.hosts[0]}" if said else ""

    def measure(self, job: Job, wanted: int, backlog: int, limit: float) -> Reply | Failure:
        try:
            self.load()
            counts = self.processes(job.clients, wanted)
            found = self.crew.measure(replace(job, timeout=min(job.timeout, limit)), counts, backlog)
        except EnvironmentProblem as problem:
            return Failure("environment", problem.message)
        if not isinstance(found, HostFailure):
            return found
        if found.told is None:
            return found.failure
        return told(found.told, job, self._machines[0].descriptors.soft, found.host.name)

    def close(self) -> None:
        crew, self._crew = self._crew, None
        if crew is not None:
            crew.close()
