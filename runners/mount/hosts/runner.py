"""The runner of a study on several client hosts: all mount, all read at the same time, and their rates add up."""

from __future__ import annotations

import json
import shlex
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from runners.hosts import parse_hosts
from runners.launch.crew import Unreachable
from runners.launch.direct import Ssh
from runners.launch.reach import Reach
from runners.mount import generated
from runners.mount.hosts import joined
from runners.mount.hosts.fleet import PATIENCE, Answer, Fleet, Kind
from runners.mount.loads import Load, TunableLoad, chosen, create
from runners.mount.options import LoadOptions, work_of
from runners.mount.work import Able
from runners.runner import Failure, Json, Objective, Outcome, Problem, UsageError
from spaces.space import Config, Space
from spaces.units import format_size

# What hosts may do after the limit of a measurement: unmount, end programs.
_AFTER = 60.0
# Options that are this side's business.
_OURS = ("hosts", "ssh", "python")


class HostsRunner:
    """Measures what a load reads on all hosts together; ``hosts`` reach them. See runners.runner.Runner."""

    def __init__(self, kind: Kind, narrowed: Space, load: Load, hosts: Fleet, generate: int) -> None:
        self._kind, self._narrowed, self.load, self._fleet = kind, narrowed, load, hosts
        self.objective: Objective = load.objective
        self.message: Callable[[str], None] = lambda _text: None
        self._facts: dict[str, Mapping[str, Json]] = {}
        self._space = narrowed
        self._generate, self._prepared = generate, False

    @classmethod
    def of(cls, kind: Kind, options: LoadOptions, narrowed: Space) -> HostsRunner:
        """Starts nothing, asks nobody. Raises UsageError."""
        hosts = parse_hosts(options.hosts)
        # The same load on all of them, whatever each would take by itself.
        options = replace(options, load=chosen(options.load))
        work = work_of(options)
        load = create(options.load, work)
        own = {name: value for name, value in asdict(options).items() if name not in _OURS}
        python = options.python or "python3"
        reached = Fleet(kind, own, hosts, Ssh(Reach(ssh=_words(options.ssh), python=python)), python)
        return cls(kind, narrowed, load, reached, work.generate)

    # -- what is tuned there -------------------------------------------------------------------------------------------

    @property
    def engine(self) -> str:
        return self.load.name

    @property
    def engine_reason(self) -> str:
        return ""

    @property
    def space(self) -> Space:
        """Asks the hosts when it is first asked for: it is theirs. Raises UsageError and EnvironmentProblem."""
        self._ask_first()
        return self._space

    def facts(self) -> Mapping[str, Json]:
        """Those of the first host, as for ``space``."""
        self._ask_first()
        return {**next(iter(self._facts.values())), "hosts": [host.name for host in self._fleet.hosts]}

    def _ask_first(self) -> None:
        if not self._facts:
            self._learn(self._fleet.create())

    def doctor(self) -> list[Problem]:
        """Problems of the hosts, without a mount."""
        try:
            return problems(self._fleet.doctor())
        except Unreachable as error:
            return list(error.problems)

    def check(self) -> list[Problem]:
        try:
            self._at_work()
            told = self._fleet.ask({"do": "check"})
        except Unreachable as error:
            return list(error.problems)
        self._learn(told)
        found = problems(told)
        for one, other in self._fleet.same():
            message = f"{one} and {other} are one machine: what it can do is shared between them, and counted as two hosts'"
            found.append(Problem("hosts-same", "warning", message, "name each machine once"))
        versions = {host: str(facts.get(self._kind.target)) for host, facts in self._facts.items()}
        if len(set(versions.values())) > 1:
            said = ", ".join(f"{host} {version}" for host, version in versions.items())
            message = f"the hosts have different versions: {said}"
            found.append(Problem("hosts-versions", "warning", message, "one version on all hosts"))
        return found

    def _at_work(self) -> None:
        if not self._fleet.at_work:
            self._learn(self._fleet.create())

    def _learn(self, told: Mapping[str, Answer]) -> None:
        self._facts = {host: answer["facts"] for host, answer in told.items()}
        limits = joined.limits([answer["limits"] for answer in told.values()])
        space = self._kind.within(self._narrowed, self._kind.limits(limits))
        able = [Able(**answer["able"]) for answer in told.values() if answer["able"] is not None]
        if able and isinstance(self.load, TunableLoad):
            space = self.load.extend(space, able)
        self._space = space

    def prepare(self) -> None:
        self._at_work()
        if self._generate:
            self.message(f"writing {format_size(self._generate)} from each host")
        self._learn(self._fleet.ask({"do": "prepare"}, self._patience))
        self._prepared = True

    @property
    def _patience(self) -> float:
        """Seconds for what may have to move a generated set."""
        return PATIENCE + self._generate / generated.SLOWEST

    def bytes_to_prepare(self) -> int:
        return self._generate * len(self._fleet.hosts)

    @property
    def bytes_prepared(self) -> int:
        return self.bytes_to_prepare() if self._prepared else 0

    def bytes_per_measurement(self) -> int:
        return 0

    # -- measuring -----------------------------------------------------------------------------------------------------

    def measure(self, config: Config, limit: float) -> Outcome:
        """One reading on all hosts at once; ``limit`` seconds for mounting and reading together."""
        begun = time.monotonic()
        broken = self.space.broken(config)
        if broken:
            return Failure("infeasible", broken[0])
        if not self._fleet.at_work:
            return Failure("environment", "the hosts are no longer reached: one of them was lost before")
        told = self._fleet.try_together({"do": "measure", "config": dict(config), "limit": limit}, limit + _AFTER)
        found = {host: joined.outcome_of(answer) for host, answer in told.items()}
        return replace(joined.outcome(found, self.objective.metric), seconds=time.monotonic() - begun)

    def cross_check(self, config: Config) -> None:
        """The bytes that left the store are the second opinion; there is no other program to ask."""

    def close(self) -> None:
        """Puts every host right. Raises EnvironmentProblem where a host says that it can't."""
        self._fleet.close(self._patience)

    def __enter__(self) -> HostsRunner:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def problems(told: Mapping[str, Answer]) -> list[Problem]:
    """The hosts' problems, each once, with the names of those that have it."""
    found: dict[str, list[str]] = {}
    for host, answer in told.items():
        for problem in answer["problems"]:
            found.setdefault(json.dumps(problem), []).append(host)
    return [_of_hosts(json.loads(text), hosts, len(told)) for text, hosts in found.items()]


def _of_hosts(told: Mapping[str, Any], hosts: Sequence[str], of: int) -> Problem:
    where = "every host" if len(hosts) == of else ", ".join(hosts)
    mend = str(told["mend"])
    return Problem(str(told["id"]), told["severity"], f"{where}: {told['message']}", f"on {where}: {mend}" if mend else "")


def _words(ssh: str) -> tuple[str, ...]:
    """``--ssh`` as an argument list whose program is on this machine. Raises UsageError."""
    try:
        words = tuple(shlex.split(ssh))
    except ValueError:
        raise UsageError("ssh", ssh, "a quote is not closed") from None
    if not words or shutil.which(words[0]) is None:
        why = "is no program on this machine; install it (openssh-client) or name another"
        raise UsageError("ssh", ssh or "''", why)
    return words
