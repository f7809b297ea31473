"""What rank 0's own lines say, from lines that oneCCL 2022.1 and Intel MPI 2021.18 wrote; and what failures mean."""

from pathlib import Path

import pytest

from runners.oneccl.failures import explain, last_words_lost, port_taken
from runners.oneccl.proof import Proof
from runners.oneccl.providers import environment, unlisted
from runners.oneccl.seen import seen, selected
from runners.runner import Failure

DATA = Path(__file__).parents[2] / "data" / "oneccl"


def log(name: str) -> str:
    return (DATA / f"log_{name}.txt").read_text()


def test_values_transport_and_pinning_by_mpi() -> None:
    found = seen(log("mpi"))
    assert found.transport == "mpi"
    assert found.provider == ""
    assert found.release == "Gold-2022.1.0"
    assert found.changed == {"CCL_LOG_LEVEL": "info"}
    assert found.values["CCL_WORKER_OFFLOAD"] == "0"
    assert "CCL_MNIC_NAME" not in found.values
    assert found.pinning == {"0 on vm": "0", "1 on vm": "1"}
    assert found.json()["provider"] == "none: shared memory"


def test_the_provider_by_ofi() -> None:
    found = seen(log("ofi"))
    assert (found.transport, found.provider) == ("ofi", "tcp")
    assert found.changed["CCL_ATL_TRANSPORT"] == "ofi"
    assert seen("CCL_INFO| provider: shm\n x |CCL_INFO| provider: tcp\nCCL_INFO| provider: tcp").provider == "shm+tcp"


def test_a_setting_counts_only_when_it_arrived() -> None:
    found = seen(log("ofi"))
    assert found.missing({"CCL_ATL_TRANSPORT": "OFI", "CCL_WORKER_COUNT": "1", "FI_PROVIDER": "tcp", "CCL_ROOT": "/x"}) == ""
    assert found.missing({"CCL_YIELD": "sleep"}) == "CCL_YIELD=sleep did not arrive: oneCCL says 'pause'"
    assert "says nothing" in found.missing({"CCL_WORKERS_COUNT": "4"})


def test_selected_algorithms_are_the_outermost() -> None:
    assert selected(log("debug"), "allreduce") == {256: "ring", 257: "recursive_doubling"}
    nested = (
        "selected algo: coll reduce_scatter, count 1000, algo ring\n"
        "selected algo: coll reduce_scatter, count 0, algo naive\nselected algo: coll allreduce, count 1, algo 2d\n"
        "selected algo: coll reduce_scatter, count 1000, algo naive"
    )
    assert selected(nested, "reduce_scatter") == {1000: "ring", 0: "naive"}


def test_a_replaced_algorithm_is_no_measurement() -> None:
    proof = Proof({(4, "default"): "ring", (4, "2d"): "ring", (8, "ring"): "ring"}, {(8, "2d"): "result 11"})
    assert proof.against([(4, "default"), (8, "ring")]) == ""
    assert proof.against([(4, "2d")]) == "oneCCL runs ring for 4 bytes where 2d is set"
    assert proof.against([(4, "default"), (8, "2d")]) == "2d fails for 8 bytes here: result 11"
    assert "runs nothing" in proof.against([(16, "ring")])


MPI_SAYS = """Abort(338314383) on node 0 (rank 0 in comm 0): Fatal error in internal_Init_thread: Other MPI error, error stack:
find_provider(3064)..........: OFI fi_getinfo() failed (ofi_init.c:3064:find_provider:No data available)
"""
INIT_SAYS = """Abort(1) on node 0 (rank 0 in comm 0): Fatal error in internal_Init_thread: Other MPI error, error stack:
internal_Init_thread(43701)..: MPI_Init_thread(argc=(nil), argv=(nil), required=3, provided=0x7fff0d982e1c) failed
MPID_Init(1778)..............: 
addr_exchange_root(120)......: Missing hostname or invalid host/port description in business card
"""  # noqa: W291  as MPI writes it
CCL_SAYS = """|CCL_ERROR| atl_ofi_helper.cpp:1253 atl_ofi_get_prov_list: can't create providers for name foo
caught std::exception: oneCCL: atl_ofi_comm.cpp:912 init_transport: EXCEPTION: failed to initialize ATL
"""


@pytest.mark.parametrize(
    ("said", "env", "kind", "words"),
    [
        (MPI_SAYS, {"FI_PROVIDER": "x", "I_MPI_OFI_PROVIDER": "tcp;ofi_rxm"}, "infeasible",
         ("tcp;ofi_rxm", "No data available", "tcp does start here")),
        (CCL_SAYS, {"FI_PROVIDER": "foo"}, "infeasible", ("provider foo", "can't create providers")),
        (INIT_SAYS, {}, "infeasible", ("MPI can't start", "invalid host/port description")),
        ("EXCEPTION: CCL_YIELD: unexpected value: nix, expected: none", {}, "infeasible", ("refuses", "unexpected")),
        ("KILLED BY SIGNAL: 7 (Bus error)", {}, "crash", ("/dev/shm", "remount,size=2G", "--shm-size=2g")),
        ("rank 1 on b was ended by SIGBUS", {}, "crash", ("/dev/shm",)),
        ("oneCCL: libccl.so.2: cannot open shared object file", {}, "environment", ("libccl.so.2",)),
        ("something else", {}, "crash", ("it died",)),
    ],
)  # fmt: skip
def test_failures_say_what_they_mean(said: str, env: dict[str, str], kind: str, words: tuple[str, ...]) -> None:
    found = explain(Failure("crash", "it died", said), env, ("tcp",))
    assert found.kind == kind
    assert all(word in found.reason for word in words), found.reason
    assert found.log == said


def test_a_timeout_and_a_lost_host_stay_what_they_are() -> None:
    for failure in (Failure("timeout", "x", MPI_SAYS), Failure("environment", "b went away", MPI_SAYS)):
        assert explain(failure, {}) is failure


def test_an_end_without_words_at_mpis_start_is_tried_again() -> None:
    assert last_words_lost(Failure("crash", "rank 0 on localhost ended without a word: status 143"))
    assert not last_words_lost(Failure("crash", "rank 0 on localhost ended with status 3: oneCCL: x"))
    assert not last_words_lost(explain(Failure("crash", "ended without a word: status 143", MPI_SAYS), {}))


def test_a_taken_port_is_tried_again() -> None:
    assert port_taken(Failure("crash", "x", "oneCCL: [Errno 98] Address already in use"))
    assert not port_taken(Failure("crash", "x", "no"))


def test_providers_count_on_one_host_too() -> None:
    assert environment("mpi", "tcp", alone=True)["I_MPI_FABRICS"] == "ofi"
    assert "I_MPI_FABRICS" not in environment("mpi", "tcp", alone=False)
    assert environment("ofi", "verbs", alone=True) == {"CCL_ATL_TRANSPORT": "ofi", "FI_PROVIDER": "verbs;ofi_rxm"}
    told = {"a": {"providers": ["shm", "tcp", "tcp;ofi_rxm"]}, "b": {"providers": None}}
    assert unlisted(["tcp", "psm3"], told) == {
        "psm3": "libfabric on a finds no network for the provider psm3; it finds shm, tcp"
    }
