"""Which of libfabric's providers really start between these hosts: a job each, within a limit."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from runners.oneccl.failures import explain
from runners.oneccl.place import Facts
from runners.oneccl.warm import Starter
from runners.runner import Failure
from spaces.oneccl import PROVIDER_NAMES

TRANSPORTS = ("mpi", "ofi")


@dataclass(frozen=True, slots=True)
class Providers:
    """``failed`` has, by transport and provider, what came of those that don't start; the others of ``tried`` do."""

    tried: tuple[tuple[str, str], ...]
    failed: Mapping[tuple[str, str], Failure]

    def working(self, transport: str) -> tuple[str, ...]:
        return tuple(name for kind, name in self.tried if kind == transport and (kind, name) not in self.failed)


def environment(transport: str, provider: str, alone: bool) -> dict[str, str]:
    """The variables that make a job depend on ``provider``: within a host MPI would not look at it by itself."""
    name = PROVIDER_NAMES.get(provider, provider)
    if transport == "ofi":
        return {"CCL_ATL_TRANSPORT": "ofi", "FI_PROVIDER": name}
    fabrics = {"I_MPI_FABRICS": "ofi"} if alone else {}
    return {"CCL_ATL_TRANSPORT": "mpi", "FI_PROVIDER": name, "I_MPI_OFI_PROVIDER": name, **fabrics}


def unlisted(wanted: Sequence[str], told: Mapping[str, Facts]) -> dict[str, str]:
    """For each provider that libfabric finds nothing for on some host, a sentence; hosts that can't say rule none out."""
    refused: dict[str, str] = {}
    for host, facts in told.items():
        listed = facts["providers"]
        if listed is None:
            continue
        for name in wanted:
            if name not in listed and name not in refused:
                others = ", ".join(each for each in listed if ";" not in each) or "none"
                refused[name] = f"libfabric on {host} finds no network for the provider {name}; it finds {others}"
    return refused


def probe(
    starter: Starter, wanted: Sequence[str], transports: Sequence[str], limit: Callable[[], float], extra: Mapping[str, str]
) -> Providers:
    """Starts a job with each provider on each transport; ``extra`` is what every job here is given."""
    tried: list[tuple[str, str]] = []
    failed: dict[tuple[str, str], Failure] = {}
    for transport in transports:
        for provider in wanted:
            tried.append((transport, provider))
            env = {**environment(transport, provider, starter.place.alone), **extra}
            job = starter.start(env, limit())
            if isinstance(job, Failure):
                failed[transport, provider] = explain(job, env)
                continue
            used = job.seen.provider
            job.close()
            if used and provider not in re.split(r"[;+]", used):
                failed[transport, provider] = Failure(
                    "infeasible", f"libfabric takes {used} where the provider {provider} is set"
                )
    return Providers(tuple(tried), failed)
