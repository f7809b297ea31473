"""What a user should know of this machine, or of the hosts, before oneCCL is tuned on it."""

from __future__ import annotations

from collections.abc import Iterator

from runners import hosts_doctor
from runners.launch.direct import Ssh
from runners.oneccl import hosts
from runners.oneccl.options import Options
from runners.oneccl.providers import Providers
from runners.oneccl.setup import Setup
from runners.runner import EnvironmentProblem, Problem
from spaces.oneccl import SPACE


def of_setup(setup: Setup) -> list[Problem]:
    """Problems of the hosts and of the job, the default job started. Raises EnvironmentProblem, UsageError."""
    need, api = setup.work.memory(setup.place.ranks), not setup.work.by_program
    found = [*_shell(setup), *hosts.problems(setup.place, setup.found, setup.told, need, api=api)]
    if any(problem.severity == "error" for problem in found):
        return found
    setup.learned  # noqa: B018  a job starts, or this raises
    if setup.work.folded:
        message = f"the trace has many sizes; {len(setup.work.sizes)} stand for them, one for each doubling"
        found.append(Problem("oneccl-sizes", "note", message))
    if setup.network.iface == "lo" and not setup.place.alone:
        found.append(Problem("oneccl-iface", "warning", "the interface lo does not reach other hosts", "another --iface"))
    return found


def _shell(setup: Setup) -> Iterator[Problem]:
    if setup.strays:
        names = ", ".join(setup.strays)
        yield Problem(
            "oneccl-shell",
            "warning",
            f"this shell sets {names}: jobs are started without, so that the baseline is oneCCL's own",
            "to beat these settings instead, write them to a file: --baseline FILE",
        )


def of_providers(found: Providers) -> list[Problem]:
    """A note for each provider that is listed and doesn't start."""
    return [
        Problem("oneccl-provider", "note", f"transport {transport}, provider {name}: {failure.reason}")
        for (transport, name), failure in found.failed.items()
    ]


def problems(options: Options) -> list[Problem]:
    """All that `tune doctor oneccl` tells."""
    try:
        setup = Setup.of(options)
    except EnvironmentProblem as problem:
        return [Problem("oneccl-missing", "error", problem.message, problem.mend)]
    found: list[Problem] = []
    try:
        if not setup.place.here:
            found += hosts_doctor.problems(setup.place.hosts, Ssh(setup.reach), setup.python)
            if any(problem.severity == "error" for problem in found):
                return found
        found += of_setup(setup)
        if any(problem.severity == "error" for problem in found):
            return found
        found += of_providers(setup.probe(SPACE))
        found.append(Problem("oneccl-ready", "note", _ready(setup)))
    except EnvironmentProblem as problem:
        found.append(Problem("oneccl-start", "error", problem.message, problem.mend))
    finally:
        setup.close()
    return found


def _ready(setup: Setup) -> str:
    where = "this host" if setup.place.here else f"{len(setup.place.hosts)} hosts"
    learned, iface = setup.learned, setup.network.iface
    by = f"transport {learned.transport}, {learned.provider or 'shared memory'}"
    through = f", interface {iface} ({setup.network.reason})" if iface else ""
    return f"oneCCL {learned.version} by {setup.launcher.mpi.title}, {setup.place.ranks} ranks on {where}, {by}{through}"
