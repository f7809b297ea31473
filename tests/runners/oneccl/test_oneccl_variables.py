"""oneCCL's variables: what would end a job or pass in silence is named, and what is right is let be."""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.oneccl.combinations import Job, conflicts, unknown
from runners.oneccl.variable_table import TABLE, known
from runners.oneccl.variables import check, nearest, parse_algorithms, parse_cpus, providers
from spaces.oneccl import COLLECTIVES, SPACE, environment, variable_of

FLAGS = [name for name, variable in TABLE.items() if variable.kind == "flag"]
CHOICES = [(name, value) for name, variable in TABLE.items() if variable.kind == "choice" for value in variable.values]


@pytest.mark.parametrize("name", FLAGS)
def test_flags_are_zero_or_one(name: str) -> None:
    assert check(name, "0") is None
    assert check(name, "1") is None
    for value in ("yes", "True", "off", "2", "", " 1", "01"):
        said = check(name, value)
        assert said is not None
        assert "only 0 and 1 are valid" in said


@pytest.mark.parametrize(("name", "value"), CHOICES)
def test_choices_in_any_case(name: str, value: str) -> None:
    assert check(name, value.upper()) is None
    said = check(name, f"{value}x")
    assert said is not None
    assert value in said


# Each of these was started: the job ended, or oneCCL printed another value than the one that was set.
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("CCL_FUSION", "yes", "CCL_FUSION is 'yes': only 0 and 1 are valid, and anything else ends the job; write 1"),
        ("CCL_ALGO_FALLBACK", "off", "write 0"),
        ("CCL_YIELD", "", "it is one of none, pause, sleep, sched_yield"),
        ("CCL_PRIORITY", "foo", "it is one of none, direct, lifo"),
        ("CCL_WORKER_COUNT", "1k", "write a whole number without a unit"),
        ("CCL_SPIN_COUNT", "abc", "write a whole number"),
        ("CCL_SPIN_COUNT", "10k", "write a whole number"),
        ("CCL_CHUNK_COUNT", "0", "it must be at least 1"),
        ("CCL_CHUNK_COUNT", "-1", "write a whole number"),
        ("CCL_ALLREDUCE", "Ring", "CCL_ALLREDUCE names the algorithm 'Ring'; write ring; any other ends the job"),
        ("CCL_ALLREDUCE", "ring:16384-0", "ends before it begins"),
        ("CCL_ALLREDUCE", "ring:0-16K", "FIRST-LAST in bytes without a unit"),
        ("CCL_ALLREDUCE", "ring:0-16384; 2d:16385-max", "holds a blank, and oneCCL reads the table up to there"),
        ("CCL_ALLREDUCE", "topo", "topo, which is for device buffers"),
        ("CCL_BCAST", "nreduce", "it has direct, ring, double_tree, naive"),
        ("CCL_WORKER_AFFINITY", "0;1", "write auto or a list like 2,3 or 4-7"),
        ("CCL_WORKER_AFFINITY", "3-1", "write auto or a list"),
        ("FI_PROVIDER", "foo", "names 'foo', which is no provider of libfabric"),
        ("FI_PROVIDER", "tpc", "; tcp is one"),
        ("FI_PROVIDER", "tcp;ofi_rxm", "tcp is what works"),
        ("I_MPI_OFI_PROVIDER", "tcp;ofi_rxm", "which present Intel MPI refuses at its start"),
        ("I_MPI_FABRICS", "tcp", "it is one of shm, ofi, shm:ofi"),
        ("CCL_FUSION_CYCLE_MS", "fast", "write a number like 0.2"),
    ],
)
def test_wrong_values(name: str, value: str, said: str) -> None:
    message = check(name, value)
    assert message is not None
    assert said in message
    assert message.startswith(f"{name} ")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CCL_YIELD", "SCHED_YIELD"), ("CCL_ATL_TRANSPORT", "OFI"), ("CCL_ALLREDUCE", "ring:0-16384;2d:8192-max"),
        ("CCL_ALLREDUCE", "ring;"), ("CCL_WORKER_AFFINITY", "auto"), ("CCL_WORKER_AFFINITY", "0,2-5"),
        ("FI_PROVIDER", "verbs;ofi_rxm"), ("FI_PROVIDER", "tcp,shm"), ("FI_PROVIDER", "^shm"), ("I_MPI_FABRICS", "SHM"),
        ("CCL_FUSION_CYCLE_MS", "0.2"), ("CCL_KVS_IFACE", "e0"), ("PATH", "yes"), ("CCL_ZE_CACHE", "yes"),
    ],
)  # fmt: skip
def test_right_values(name: str, value: str) -> None:
    assert check(name, value) is None


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("CCL_WORKERS_COUNT", "CCL_WORKER_COUNT"), ("CCL_WORKER_COUNTS", "CCL_WORKER_COUNT"),
        ("CCL_ALL_REDUCE", "CCL_ALLREDUCE"),
        ("CCL_TRANSPORT", "CCL_ATL_TRANSPORT"), ("CCL_SHM", "CCL_ATL_SHM"), ("CCL_YEILD", "CCL_YIELD"),
        ("CCL_WORKER_AFINITY", "CCL_WORKER_AFFINITY"), ("CCL_REDUCESCATTER", "CCL_REDUCE_SCATTER"),
        ("ONECCL_WORKER_COUNT", "CCL_WORKER_COUNT"), ("CCL_FOO", None), ("CCL_MY_OWN_THING", None),
    ],
)  # fmt: skip
def test_nearest_name(name: str, meant: str | None) -> None:
    assert nearest(name) == meant
    assert known(name) is None


@settings(deadline=None)
@given(st.sampled_from(sorted(name for name in TABLE if name.startswith("CCL_") and len(name) > 12)), st.data())
def test_a_slip_is_told_from_a_name(name: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(5, len(name) - 1))
    slipped = name[:place] + name[place + 1 :]
    if known(slipped) is None:
        meant = nearest(slipped)
        assert meant is not None
        assert known(meant) is not None


ALGORITHM = st.sampled_from(["direct", "ring", "2d", "nreduce"])
ENTRIES = st.lists(st.tuples(ALGORITHM, st.integers(0, 1 << 40), st.none() | st.integers(0, 1 << 40)), min_size=1, max_size=5)


@settings(deadline=None)
@given(ENTRIES, st.booleans())
def test_algorithm_tables_read_back(entries: list[tuple[str, int, int | None]], tail: bool) -> None:
    entries = [(name, first, None if last is None else first + last) for name, first, last in entries]
    text = ";".join(f"{name}:{first}-{'max' if last is None else last}" for name, first, last in entries)
    assert parse_algorithms("CCL_ALLREDUCE", text + ";" * tail) == tuple(entries)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 999), st.integers(0, 9)), min_size=1, max_size=9))
def test_cpu_lists_are_counted(parts: list[tuple[int, int]]) -> None:
    text = ",".join(f"{first}-{first + more}" if more else str(first) for first, more in parts)
    assert parse_cpus(text) == sum(more + 1 for _, more in parts)
    assert parse_cpus("auto") is None


@settings(deadline=None)
@given(st.sampled_from(sorted(TABLE)), st.text(max_size=30))
def test_any_value_is_right_or_a_sentence(name: str, value: str) -> None:
    said = check(name, value, 2, 1)
    assert said is None or said.startswith(f"{name} ")
    for conflict in conflicts({name: value}, Job(2, 1, 2)):
        assert conflict.message
        assert conflict.mend


def test_what_a_setting_writes_is_right() -> None:
    rng = random.Random(3)
    for config in SPACE.pool(rng, 600):
        values = environment(config)
        assert conflicts(values, Job(2, 4, 1)) == [], values
    for collective in COLLECTIVES:
        for name, value in environment({**SPACE.default, "algorithm_large": "direct"}, collective).items():
            assert (name, check(name, value)) == (variable_of(collective), None)


def test_providers() -> None:
    assert providers("Verbs;OFI_RXM, tcp") == ("verbs;ofi_rxm", "tcp")


@pytest.mark.parametrize(
    ("values", "job", "said"),
    [
        ({"CCL_WORKER_AFFINITY": "3", "CCL_WORKER_COUNT": "2"}, Job(ppn=2), "1 core and 4 are needed: 2 ranks a host x 2"),
        ({"CCL_WORKER_AFFINITY": "3"}, Job(ppn=2), "names 1 core and 2 are needed: 2 ranks a host x 1 worker;"),
        ({"CCL_WORKER_AFFINITY": "3-6"}, Job(), "a rank has one worker, so these are for 4 ranks"),
        ({"CCL_WORKER_AFFINITY": "3-6"}, Job(ppn=2), "only the first 2 are used"),
        ({"CCL_WORKER_COUNT": "2"}, Job(cores=1), "CCL_WORKER_COUNT is 2 and a rank is pinned to 1 core"),
        ({"CCL_ALLREDUCE": "direct", "CCL_ATL_TRANSPORT": "ofi"}, Job(), "asks for direct, which is MPI's own"),
        ({"CCL_UNORDERED_COLL": "1", "CCL_ATL_TRANSPORT": "mpi"}, Job(), "needs the transport ofi"),
        ({"FI_PROVIDER": "shm"}, Job(hosts=2), "reaches no other host, and the job has 2: it hangs"),
        ({"FI_TCP_IFACE": "lo"}, Job(), "reaches no other host"),
        ({"CCL_KVS_IFACE": "lo"}, Job(hosts=2), "reaches no other host"),
        ({"I_MPI_PIN": "0"}, Job(), "go to the same last cores of a host"),
        ({"I_MPI_PIN": "off", "I_MPI_PIN_DOMAIN": "core", "CCL_WORKER_OFFLOAD": "0"}, Job(), "not read where I_MPI_PIN is 0"),
        ({"I_MPI_PIN_DOMAIN": "core", "I_MPI_PIN_PROCESSOR_LIST": "0-3"}, Job(), "is not read where I_MPI_PIN_DOMAIN"),
        ({"CCL_WORKER_OFFLOAD": "0", "CCL_YIELD": "sleep"}, Job(), "CCL_WORKER_OFFLOAD=0 has none"),
        ({"FI_PROVIDER": "tcp", "I_MPI_OFI_PROVIDER": "verbs;ofi_rxm"}, Job(), "MPI takes I_MPI_OFI_PROVIDER"),
        ({"CCL_ATL_TRANSPORT": "ofi", "I_MPI_FABRICS": "ofi"}, Job(), "goes without MPI"),
        ({"CCL_ATL_TRANSPORT": "ofi", "I_MPI_OFI_PROVIDER": "tcp"}, Job(), "goes without MPI"),
        ({"CCL_ATL_TRANSPORT": "mpi", "CCL_ATL_SHM": "1"}, Job(), "is for the transport ofi"),
        ({"I_MPI_ASYNC_PROGRESS": "1"}, Job(), "such jobs hang"),
    ],
)  # fmt: skip
def test_wrong_together(values: dict[str, str], job: Job, said: str) -> None:
    (found,) = conflicts(values, job)
    assert said in found.message
    assert found.mend


@pytest.mark.parametrize(
    ("values", "job"),
    [
        ({"CCL_WORKER_AFFINITY": "2,3", "CCL_WORKER_COUNT": "1"}, Job(ppn=2, cores=1)),
        ({"CCL_WORKER_AFFINITY": "4-7", "CCL_WORKER_COUNT": "2"}, Job(ppn=2, cores=1)),
        ({"CCL_WORKER_AFFINITY": "3"}, Job()),
        ({"FI_PROVIDER": "shm"}, Job(hosts=1)),
        ({"FI_TCP_IFACE": "lo", "CCL_KVS_IFACE": "lo"}, Job(hosts=1)),
        ({"CCL_KVS_IFACE": "lo"}, Job()),
        ({"I_MPI_PIN": "0", "CCL_WORKER_OFFLOAD": "0"}, Job()),
        ({"I_MPI_PIN": "0"}, Job(ppn=1)),
        ({"CCL_ATL_TRANSPORT": "ofi", "CCL_ALLREDUCE": "ring", "CCL_ATL_SHM": "1"}, Job(hosts=2)),
    ],
)
def test_right_together(values: dict[str, str], job: Job) -> None:
    assert conflicts(values, job) == []


def test_names_that_do_nothing() -> None:
    for name, said in (
        ("CCL_WORKERS_COUNT", "CCL_WORKER_COUNT is what it reads"),
        ("CCL_FOO", "oneCCL has no variable CCL_FOO"),
        ("CCL_ATL_RMA", "is not read any more"),
        ("CCL_ATL_OFI_TIMEOUT_SEC", "is gone from oneCCL 2022"),
    ):
        conflict = unknown(name)
        assert conflict is not None
        assert said in conflict.message
    assert [unknown(name) for name in ("CCL_WORKER_COUNT", "CCL_ZE_CACHE", "CCL_STAGING_BUFFER", "PATH", "FI_X")] == [None] * 5


# Words in the library that are no variables: parts of messages, constants, and instructions that look like letters.
_NO_VARIABLES = {
    "CCL_BARRIER_FULL", "CCL_DEBUG", "CCL_ENV_INT_NOT_SPECIFIED", "CCL_ENV_SIZET_NOT_SPECIFIED", "CCL_ERROR", "CCL_INFO",
    "CCL_INVALID_PEER_RANK_IDX", "CCL_SYCL", "CCL_TRACE", "CCL_UNDEFINED_CPU_ID", "CCL_WARN", "CCL_MNICSPH", "CCL_KVS_L",
}  # fmt: skip


@pytest.mark.system
def test_table_has_the_library_s_names() -> None:
    libraries = [Path(sys.prefix, "lib", name) for name in ("libccl.so.1.0", "libccl.so.2.0")]
    if not all(library.exists() for library in libraries):
        pytest.skip("needs oneCCL (pip install '.[oneccl]')")
    words = {
        word.decode() for library in libraries for word in re.findall(rb"(?<!\w)CCL_[A-Z0-9_]+(?!\w)", library.read_bytes())
    }
    assert {"CCL_WORKER_COUNT", "CCL_ATL_TRANSPORT"} <= words
    strange = {word for word in words if known(word) is None and not re.fullmatch(r"CCL_\w{2,5}H", word)}
    assert strange <= _NO_VARIABLES
