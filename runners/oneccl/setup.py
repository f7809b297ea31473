"""One job as asked for and as this place lets it be: hosts asked, the default job started, providers tried."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass, replace
from functools import cached_property

from runners.launch.mpi import TITLES
from runners.launch.mpirun import Mpirun, mpirun
from runners.launch.reach import Reach
from runners.oneccl import benchmark, hosts, library, place, providers
from runners.oneccl.jobs import Jobs
from runners.oneccl.library import Found
from runners.oneccl.options import Options
from runners.oneccl.place import Facts, Network, Place
from runners.oneccl.predict import nodes_of
from runners.oneccl.providers import Providers
from runners.oneccl.warm import TOO_MANY, Starter
from runners.oneccl.workload import Workload, workload
from runners.runner import EnvironmentProblem, Failure, UsageError
from spaces.oneccl import PINNING, Limits
from spaces.space import Space

_UNREACHING = 20.0


@dataclass(frozen=True, slots=True)
class Learned:
    """What oneCCL does by itself here: its transport, provider ("" is shared memory), and the cores that each rank may use."""

    transport: str
    version: str
    provider: str
    cpus: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Setup:
    """What can be known without asking a host."""

    options: Options
    work: Workload
    place: Place
    found: Found
    launcher: Mpirun
    python: str
    strays: tuple[str, ...] = ()
    program: str = ""

    @classmethod
    def of(cls, options: Options, before: tuple[str, ...] = ()) -> Setup:
        """``before`` comes before each program that is started on this host. Raises UsageError and EnvironmentProblem."""
        work, where = workload(options), place.place(options)
        nodes_of(options, len(where.hosts))
        found = library.find(options, any_age=options.engine == "benchmark")
        program = benchmark.find(options, found.root)
        if options.engine == "benchmark" and not program:
            raise UsageError(
                "engine", "benchmark", f"there is no benchmark program below {found.root}; name it with --benchmark"
            )
        if options.engine == "benchmark":
            work = replace(work, by_program=True)
        strays = tuple(library.strays(os.environ))
        python = options.python or (sys.executable if where.here else "python3")
        # Programs start without the shell's own variables of oneCCL and MPI.
        without = ("env", *(word for name in strays for word in ("-u", name))) if strays else ()
        reach = Reach(
            ssh=place.words("ssh", options.ssh),
            before=(*before, *without),
            python=python,
            here=hosts.own_names(),
        )
        if not all(reach.is_here(host) for host in where.hosts) and shutil.which(reach.ssh[0]) is None:
            if options.ssh == "ssh":
                raise EnvironmentProblem("there is no ssh on this host", "sudo apt install openssh-client")
            raise UsageError("ssh", options.ssh, f"there is no program {reach.ssh[0]}; write the command that reaches a host")
        launcher = mpirun((found.mpirun,), reach)
        if isinstance(launcher, Failure):
            raise EnvironmentProblem(launcher.reason, "name Intel MPI's mpirun with --mpi")
        if launcher.mpi.kind == "openmpi":
            why = f"it is {TITLES['openmpi']}'s; oneCCL's ranks start with Intel MPI's or MPICH's"
            raise UsageError("mpi", found.mpirun, why)
        return cls(options, work, where, found, launcher, python, strays, program)

    @property
    def reach(self) -> Reach:
        return self.launcher.reach

    @cached_property
    def told(self) -> dict[str, Facts]:
        """What each host tells. Raises EnvironmentProblem."""
        return hosts.ask(self.place, self.found, self.reach, self.python)

    @cached_property
    def network(self) -> Network:
        """Raises UsageError for an interface that is not there, EnvironmentProblem where hosts share no network."""
        names = [host.name for host in self.place.hosts]
        found = place.network(self.options, names, self.told)
        if not self.place.alone and not found.address:
            raise EnvironmentProblem(
                f"it is not known by which interface {names[0]} can be reached from the others",
                f"name it with --iface; {names[0]} has {', '.join(sorted(self.told[names[0]]['interfaces']))}",
            )
        return found

    @cached_property
    def starter(self) -> Starter:
        launcher = replace(self.launcher, interface="" if self.network.iface == "lo" else self.network.iface)
        return Starter(launcher, self.found, self.place, self.network, self.work, self.python)

    @cached_property
    def jobs(self) -> Jobs:
        memory = min(int(facts["memory"]) for facts in self.told.values())
        return Jobs(self.starter.start, self.place.ppn, memory)

    def interface(self) -> dict[str, str]:
        """The variables that keep every setting on the interface, the baseline too."""
        iface = self.network.iface
        return {"CCL_KVS_IFACE": iface, "FI_TCP_IFACE": iface} if iface else {}

    @cached_property
    def learned(self) -> Learned:
        """From a job without any variable set. Raises EnvironmentProblem where even that can't run, UsageError for --pin."""
        place.check_pins(self.options, self.place, self.told)
        limit = _UNREACHING if self.network.iface == "lo" and not self.place.alone else self.jobs.start_limit
        job = self._first(limit)
        if isinstance(job, Failure):
            iface = self.network.iface
            mend = "tune doctor oneccl, with the same options"
            if job.kind == "timeout" and iface:
                mend = f"another --iface: {iface} may not reach the other hosts"
            elif TOO_MANY in job.reason:
                mend = "fewer ranks, with --ppn"
            raise EnvironmentProblem(f"oneCCL without any setting can't run here: {job.reason}", mend)
        asked = tuple(tuple(sorted(cores)) for cores in self.place.pins)
        if asked and job.cpus != asked:
            raise EnvironmentProblem(
                f"ranks run on the cores {[list(cores) for cores in job.cpus]} where --pin {self.options.pin} was asked for",
                "name cores that each host has, in rising order",
            )
        return job

    def _first(self, limit: float) -> Learned | Failure:
        if self.work.by_program:
            return self._first_of_program(limit)
        job = self.starter.start(self.interface(), limit)
        if isinstance(job, Failure):
            return job
        job.close()
        self.jobs.started(job.seconds)
        return Learned(job.seen.transport or "mpi", job.version, job.seen.provider, tuple(map(tuple, job.cpus)))

    def _first_of_program(self, limit: float) -> Learned | Failure:
        smallest = min(self.work.plain)
        done = benchmark.run(self.program, self.starter, self.interface(), limit, 1, [smallest])
        if isinstance(done, Failure):
            return done
        told = done[1]
        cpus = told.cores() or tuple(
            tuple(self.told[host.name]["cpus"]) for host in self.place.hosts for _ in range(self.place.ppn)
        )
        return Learned(told.transport or "mpi", told.release.removeprefix("Gold-"), told.provider, cpus)

    @property
    def transport(self) -> str:
        """oneCCL's own choice."""
        return self.learned.transport

    def unlisted(self, space: Space) -> dict[str, str]:
        wanted = [str(value) for value in space["provider"].domain.values if value != "default"]
        return providers.unlisted(wanted, self.told)

    def probe(self, space: Space) -> Providers:
        """Starts what libfabric lists and the search may take."""
        wanted = [str(value) for value in space["provider"].domain.values if value != "default"]
        left = [name for name in wanted if name not in providers.unlisted(wanted, self.told)]
        if not self.place.alone:
            left = [name for name in left if name != "shm"]  # it waits for ever, which is known
        asked = {self.transport if value == "default" else str(value) for value in space["transport"].domain.values}
        transports = [each for each in providers.TRANSPORTS if each in asked]
        if self.place.alone and "ofi" not in space["fabrics"].domain.values:
            transports = [each for each in transports if each != "mpi"]  # within a host MPI looks at no provider
        return providers.probe(self.starter, left, transports, lambda: self.jobs.start_limit, self.interface())

    def limits(self, space: Space) -> Limits:
        """What the job and its hosts allow."""
        cores = min(len(cpus) for cpus in self.learned.cpus)
        pins = self.place.pins
        whole = min(len(facts["cpus"]) for facts in self.told.values())
        numa = max(int(facts["numa"]) for facts in self.told.values())
        refused: dict[tuple[str, bool | int | str], str] = {
            ("provider", name): why for name, why in self.unlisted(space).items()
        }
        if pins:
            refused |= {("pinning", value): "--pin decides where ranks run" for value in PINNING}
        elif self.launcher.mpi.kind != "intel":
            refused |= {("pinning", value): "only Intel MPI's mpirun has these variables" for value in PINNING}
        cards = min(sum(bool(each["address"]) for each in facts["interfaces"].values()) for facts in self.told.values())
        devices = min(len(facts["rdma"]) for facts in self.told.values())
        return Limits(
            collective=self.work.selected,
            sizes=self.work.plain,
            element=self.work.element,
            hosts=len(self.place.hosts),
            ranks=self.place.ranks,
            local_ranks=self.place.ppn,
            cores_per_rank=cores,
            pinned_cores={"core": 1, "auto:scatter": cores, "numa": max(1, whole // numa)},
            default_transport=self.transport,
            several_nics=max(cards, devices) > 1,
            refused=refused,
        )

    def close(self) -> None:
        if "jobs" in self.__dict__:
            self.jobs.close()
