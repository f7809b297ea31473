"""Variables of oneCCL, Intel MPI and libfabric that are wrong together, or with the ranks, cores and hosts of a job."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from runners.oneccl import variables
from runners.oneccl.variable_table import TABLE, known
from spaces.oneccl import COLLECTIVES, variable_of

_OFF = {"0", "off", "no", "disable"}
_ON = {"1", "on", "yes", "enable"}


@dataclass(frozen=True, slots=True)
class Conflict:
    """``name`` is the variable that a user should look at; ``mend`` what to do about it."""

    name: str
    message: str
    mend: str


@dataclass(frozen=True, slots=True)
class Job:
    """What is known of the job: ranks of a host, cores of a rank, hosts; None is not known."""

    ppn: int | None = None
    cores: int | None = None
    hosts: int | None = None


def conflicts(values: Mapping[str, str], job: Job | None = None) -> list[Conflict]:
    """Everything wrong with a job's variables, single ones first, in the order in which they are given."""
    job = job or Job()
    return [*_single(values, job), *_workers(values, job), *_transport(values), *_network(values, job), *_pinning(values)]


def _single(values: Mapping[str, str], job: Job) -> Iterator[Conflict]:
    listed = values.get("CCL_WORKER_AFFINITY", "auto").strip().lower() != "auto"
    for name, value in values.items():
        cores = None if listed else job.cores  # a list of cores takes the place of the rank's own
        message = variables.check(name, value, None, cores)
        if message is not None:
            yield Conflict(name, message, mend(name, value))


def mend(name: str, value: str) -> str:
    """What to do about a value that ``check`` refuses: ``name=value`` where it is plain what was meant."""
    variable = known(name)
    if variable is not None and variable.kind == "flag":
        try:
            return f"{name}={int(variables.parse_flag(value))}"
        except ValueError:
            return f"{name} is 0 or 1"
    if variable is not None and variable.kind == "provider" and value.strip().lower() == "tcp;ofi_rxm":
        return f"{name}=tcp"
    if variable is not None and variable.kind == "algorithms":
        plain = re.sub(r"\s+", "", value).lower()
        if variables.check(name, plain) is None:
            return f"{name}={plain}"
    return "correct the value"


def _workers(values: Mapping[str, str], job: Job) -> Iterator[Conflict]:
    name = "CCL_WORKER_AFFINITY"
    workers = _count(values, "CCL_WORKER_COUNT")
    try:
        count = variables.parse_cpus(values[name]) if name in values else None
    except ValueError:
        count = None
    if count is not None and workers is not None:
        listed = f"{count} {'core' if count == 1 else 'cores'}"
        if job.ppn is not None and count < job.ppn * workers:
            need = job.ppn * workers
            each = f"{workers} {'worker' if workers == 1 else 'workers'}"
            message = f"names {listed} and {need} are needed: {job.ppn} ranks a host x {each}; oneCCL ends the job"
            yield Conflict(name, f"{name} {message}", f"name {need} cores, those of a host's first rank first")
        elif job.ppn is None and "CCL_WORKER_COUNT" not in values and count > 1:
            message = f"names {listed} and CCL_WORKER_COUNT is not set: a rank has one worker, so these are for {count} ranks"
            yield Conflict(name, f"{name} {message}", "set CCL_WORKER_COUNT, or say --ppn N where that is meant")
        elif job.ppn is not None and count > job.ppn * workers:
            message = f"names {listed} and only the first {job.ppn * workers} are used"
            yield Conflict(name, f"{name} {message}", f"name {job.ppn * workers} cores, or set CCL_WORKER_COUNT")
    if values.get("CCL_WORKER_OFFLOAD") == "0":
        for idle in ("CCL_YIELD", "CCL_SPIN_COUNT", "CCL_WORKER_WAIT", "CCL_WORKER_AFFINITY"):
            if idle in values:
                yield Conflict(idle, f"{idle} is for worker threads, and CCL_WORKER_OFFLOAD=0 has none", "remove one of them")
    elif values.get("I_MPI_PIN", "").strip().lower() in _OFF and job.ppn != 1 and count is None:
        message = "with I_MPI_PIN=0 the oneCCL workers of all ranks go to the same last cores of a host, and take turns there"
        yield Conflict("I_MPI_PIN", message, "remove it, or set CCL_WORKER_OFFLOAD=0 too")
    if values.get("I_MPI_ASYNC_PROGRESS", "").strip().lower() in _ON:
        message = "I_MPI_ASYNC_PROGRESS=1 starts threads on the cores that oneCCL's workers take; such jobs hang"
        yield Conflict("I_MPI_ASYNC_PROGRESS", message, "remove it: oneCCL has its own workers")


def _count(values: Mapping[str, str], name: str) -> int | None:
    """A count as it is set, 1 where it isn't, None where it can't be read."""
    text = values.get(name, "1").strip()
    return int(text) if text.isdecimal() and 0 < int(text) < 1 << 16 else None


def _transport(values: Mapping[str, str]) -> Iterator[Conflict]:
    transport = values.get("CCL_ATL_TRANSPORT", "").strip().lower()
    if transport == "ofi":
        for name in map(variable_of, COLLECTIVES):
            if name in values and variables.check(name, values[name]) is None:
                entries = variables.parse_algorithms(name, values[name])
                if any(algorithm == "direct" for algorithm, _, _ in entries):
                    message = (
                        f"{name} asks for direct, which is MPI's own: with the transport ofi oneCCL silently takes another"
                    )
                    yield Conflict(name, message, "choose another algorithm, or CCL_ATL_TRANSPORT=mpi")
        if "I_MPI_FABRICS" in values:
            yield Conflict("I_MPI_FABRICS", "I_MPI_FABRICS is MPI's, and the transport ofi goes without MPI", "remove it")
        if "I_MPI_OFI_PROVIDER" in values and "FI_PROVIDER" not in values:
            message = "I_MPI_OFI_PROVIDER is read by MPI alone, and the transport ofi goes without MPI"
            yield Conflict("I_MPI_OFI_PROVIDER", message, f"FI_PROVIDER={values['I_MPI_OFI_PROVIDER']}")
    else:
        if values.get("CCL_UNORDERED_COLL") == "1" and transport == "mpi":
            message = "CCL_UNORDERED_COLL=1 needs the transport ofi: with mpi oneCCL ends the job"
            yield Conflict("CCL_UNORDERED_COLL", message, "remove it, or CCL_ATL_TRANSPORT=ofi")
        if values.get("CCL_ATL_SHM") == "1" and transport == "mpi":
            yield Conflict("CCL_ATL_SHM", "CCL_ATL_SHM=1 is for the transport ofi: MPI has its own", "remove it")
        own, mpi = (values.get(name, "").strip().lower() for name in ("FI_PROVIDER", "I_MPI_OFI_PROVIDER"))
        if own and mpi and own != mpi:
            message = f"FI_PROVIDER is {own!r}, but MPI takes I_MPI_OFI_PROVIDER, which is {mpi!r}"
            yield Conflict("FI_PROVIDER", message, "give both the same value, or remove one")


def _network(values: Mapping[str, str], job: Job) -> Iterator[Conflict]:
    several = job.hosts is not None and job.hosts > 1
    if several:
        for name in ("FI_PROVIDER", "I_MPI_OFI_PROVIDER"):
            if values.get(name, "").strip().lower() == "shm":
                message = f"{name}=shm reaches no other host, and the job has {job.hosts}: it hangs without a word"
                yield Conflict(name, message, f"{name}=tcp, or verbs;ofi_rxm where there is RDMA")
    for name in ("FI_TCP_IFACE", "FI_VERBS_IFACE", "CCL_KVS_IFACE"):
        # On one host, lo is what makes CCL_KVS_IFACE work where there are many interfaces.
        if values.get(name, "").strip() == "lo" and (several or (job.hosts is None and name != "CCL_KVS_IFACE")):
            message = f"{name}=lo reaches no other host: a job on several hangs without a word"
            yield Conflict(name, message, "name the interface of the network that the hosts share, or remove it")


def _pinning(values: Mapping[str, str]) -> Iterator[Conflict]:
    if "I_MPI_PIN_DOMAIN" in values and "I_MPI_PIN_PROCESSOR_LIST" in values:
        message = "I_MPI_PIN_PROCESSOR_LIST is not read where I_MPI_PIN_DOMAIN is set"
        yield Conflict("I_MPI_PIN_PROCESSOR_LIST", message, "remove one of the two")
    if values.get("I_MPI_PIN", "").strip().lower() in _OFF and "I_MPI_PIN_DOMAIN" in values:
        yield Conflict("I_MPI_PIN_DOMAIN", "I_MPI_PIN_DOMAIN is not read where I_MPI_PIN is 0", "remove one of the two")


def unknown(name: str) -> Conflict | None:
    """What to say of a CCL_ name that oneCCL doesn't have; None for one that it has, and for other programs' names."""
    if not name.startswith("CCL_") or known(name) is not None:
        if name in TABLE and TABLE[name].dead and not TABLE[name].device:
            return Conflict(name, f"{name} {TABLE[name].dead}", "remove it")
        return None
    meant = variables.nearest(name)
    if meant is None:
        return Conflict(name, f"oneCCL has no variable {name}; it passes over it in silence", "correct or remove it")
    return Conflict(name, f"oneCCL has no variable {name} and passes over it in silence; {meant} is what it reads", meant)
