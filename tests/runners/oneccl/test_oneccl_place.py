"""Hosts, ranks, cores and interfaces from what a user typed and hosts told."""

from pathlib import Path
from typing import Any

import pytest

from runners.oneccl import library
from runners.oneccl.options import Options
from runners.oneccl.place import Place, check_pins, network, place, words
from runners.runner import EnvironmentProblem, UsageError


def told(
    address: str = "", caller: str = "", resolved: dict[str, list[str]] | None = None, **interfaces: str
) -> dict[str, Any]:
    named = {name: {"address": ip, "speed": 1000 if name == "e0" else None} for name, ip in interfaces.items()}
    return {"interfaces": named, "address": address, "caller": caller, "resolved": resolved or {}}


def test_without_hosts_the_job_is_here() -> None:
    found = place(Options())
    assert found.here
    assert (found.ppn, found.ranks) == (2, 2)


def test_slots_of_the_file_count_unless_ppn_is_given(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("node1 slots=4\nnode2 slots=4\n")
    assert place(Options(hosts=str(path))).ppn == 4
    assert place(Options(hosts=str(path), ppn=1)).ranks == 2
    path.write_text("node1 slots=4\nnode2 slots=3\n")
    with pytest.raises(UsageError, match="different numbers of ranks"):
        place(Options(hosts=str(path)))


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (Options(ppn=1), "one rank alone"),
        (Options(ppn=-1), "at least 1"),
        (Options(ppn=9999), "9999 ranks are more than"),
        (Options(pin="0"), "cores for 1 ranks; it takes 2"),
        (Options(pin="0,x"), "'x' is no core"),
        (Options(pin="3-1,4"), "smaller number first"),
        (Options(pin="70000,1"), "'70000': no host has so many cores"),
        (Options(pin="0-1,1-2"), "two ranks of a host have the core 1; ranges must not overlap"),
        (Options(pin="0-1,0"), "two ranks of a host have the core 0"),
        (Options(hosts="a,b", ppn=1, pin="0-1,2-3"), "the same on all hosts"),
        (Options(hosts="-oProxyCommand=x"), "begins with '-'"),
    ],
)
def test_what_cannot_be_placed_is_said(options: Options, word: str) -> None:
    with pytest.raises(UsageError, match=word):
        place(options)


def test_pins_are_held_against_the_cores_of_each_host() -> None:
    options = Options(hosts="a,b", ppn=1, pin="0,99")
    asked = place(options)
    check_pins(options, asked, {"a": {"cpus": [0, 1]}, "b": {"cpus": [0, 99]}})
    with pytest.raises(UsageError, match="--pin 0,99: b has no core 99 that can be used; it has 0,1"):
        check_pins(options, asked, {"a": {"cpus": [0, 1]}, "b": {"cpus": [1, 0]}})


def test_pins_become_what_intel_mpi_reads() -> None:
    two = place(Options(hosts="a,b", ppn=2, pin="0,1,2,3"))
    assert [two.pinned(rank) for rank in (0, 1, 2)] == [
        {"I_MPI_PIN_PROCESSOR_LIST": "0,1"},
        {"I_MPI_PIN_PROCESSOR_LIST": "0,1"},
        {"I_MPI_PIN_PROCESSOR_LIST": "2,3"},
    ]
    sets = place(Options(pin="0-3,4-7"))
    assert sets.pinned(0) == {}
    assert sets.pinned_by_mpirun() == {"I_MPI_PIN_DOMAIN": "[f,f0]"}
    assert Place((), 2).pinned_by_mpirun() == {}


def test_the_shared_interface_is_found_and_named_only_where_there_are_several() -> None:
    one = {"a": told(resolved={"b": ["10.0.0.2"]}, e0="10.0.0.1"), "b": told("10.0.0.2", "10.0.0.1", e0="10.0.0.2")}
    found = network(Options(), ["a", "b"], one)
    assert (found.iface, found.address, found.speed) == ("", "10.0.0.1", 1000)
    two = {
        "a": told(resolved={"b": ["10.0.0.2"]}, e0="10.0.0.1", docker0="172.17.0.1"),
        "b": told("10.0.0.2", "10.0.0.1", e0="10.0.0.2", docker0="172.17.0.1"),
    }
    found = network(Options(), ["a", "b"], two)
    assert (found.iface, found.address) == ("e0", "10.0.0.1")
    assert "e0" in found.reason


def test_interfaces_of_different_names_are_left_to_oneccl() -> None:
    hosts = {"a": told("10.0.0.1", eth0="10.0.0.1", eth9="1.2.3.4"), "b": told("10.0.0.2", ens3="10.0.0.2")}
    assert network(Options(), ["a", "b"], hosts).iface == ""
    assert network(Options(), ["a", "b"], hosts).address == "10.0.0.1"


def test_strays_of_a_shell_are_found_and_places_are_not() -> None:
    environ = {"CCL_FUSION": "1", "CCL_ROOT": "/x", "I_MPI_ROOT": "/y", "I_MPI_HYDRA_IFACE": "ib0", "I_MPI_FABRICS": "ofi",
               "FI_PROVIDER": "tcp", "FI_PROVIDER_PATH": "/z", "PATH": "/bin"}  # fmt: skip
    assert library.strays(environ) == ["CCL_FUSION", "FI_PROVIDER", "I_MPI_FABRICS"]


def test_no_library_is_said_with_the_command_that_installs_it(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem) as caught:
        library.find(Options(), {}, str(tmp_path))
    assert "pip install" in caught.value.mend
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libccl.so").touch()
    with pytest.raises(UsageError, match="has no C API"):
        library.find(Options(ccl_root=str(tmp_path)), {}, "/nowhere")
    (tmp_path / "lib" / "libccl.so.2").touch()
    with pytest.raises(UsageError, match="--mpi /nowhere/mpirun: there is no such program"):
        library.find(Options(ccl_root=str(tmp_path), mpi="/nowhere/mpirun"), {}, "/nowhere")


def test_words_of_a_command() -> None:
    assert words("ssh", "ssh -F 'a b'") == ("ssh", "-F", "a b")
    with pytest.raises(UsageError, match="a quote is not closed"):
        words("ssh", "ssh 'x")
    with pytest.raises(UsageError, match="name a program"):
        words("ssh", " ")
