"""What the readings of all ranks come to, where the time goes, and what a start takes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.tcpstore import fit, network
from runners.tcpstore.crowd import Round
from runners.tcpstore.diagnosis import diagnose
from runners.tcpstore.failures import explain
from runners.tcpstore.figures import Start, metrics, part, samples, start
from runners.tcpstore.job import Job, Reading
from runners.tcpstore.names import Lookup, hosts_line, plain
from runners.tcpstore.weigh import Weights

QUIET = {"refused": 0, "overflows": 0, "resets": 0, "resent": 0}
QUICK = Lookup("node01", ("10.0.0.1",), 0.0005, 0.0005, 0, "::ffff:10.0.0.1")
SERVER = {"libuv": True, "threads": [], "descriptors": 9, "cpu_creation": 0.004, "cpu_barriers": 0.001}


def reading(rank, created, barriers, server=None):
    return Reading(rank, 10.0, created, barriers, (11.0, 11.002), 0.001, server)


def round_of(*readings, released=10.0, serving=0.0, cores=1):
    return part(Round(released, list(readings), network.Counters(1, 0, 0, 0), serving), cores)


def a_start(creation, **more):
    given = {
        "middle": creation / 2, "rank0": creation, "barrier": 1.0, "add_all": 1.0, "server_cpu": (4.0, 1.0),
        "clients_cpu": 8.0, "early": "", "counters": QUIET,
    }  # fmt: skip
    return Start(creation=creation, **{**given, **more})


def test_slowest_rank_and_last_comer_count():
    seen = start([round_of(
        reading(0, 10.010, [(10.010, 10.052)], SERVER),
        reading(1, 10.040, [(10.040, 10.050)]),
        reading(2, 10.020, [(10.020, 10.051)]),
    )])  # fmt: skip
    assert seen.creation == pytest.approx(40)
    assert seen.rank0 == pytest.approx(10)
    assert seen.barrier == pytest.approx(12)
    assert seen.clients_cpu == pytest.approx(2)
    assert not seen.early


def test_a_barrier_that_does_not_hold_is_seen():
    seen = start([round_of(
        reading(0, 10.01, [(10.01, 10.02), (10.03, 10.031)], SERVER),
        reading(1, 10.01, [(10.01, 10.02), (10.04, 10.05)]),
    )])  # fmt: skip
    assert seen.early == "a rank left barrier 2 before another had come to it"


def two_hosts(second_ahead=0.0, unsure=0.0):
    """The ranks of the test above on two hosts; the second one's clock is ahead."""
    head = round_of(reading(0, 10.010, [(10.010, 10.052)], SERVER), reading(2, 10.020, [(10.020, 10.051)]), cores=2)
    there = round_of(reading(1, 10.040 + second_ahead, [(10.040 + second_ahead, 10.050 + second_ahead)]),
                     released=10.001 + second_ahead)  # fmt: skip
    return start([head, there.shifted(-second_ahead)], unsure)


@given(st.floats(-1e6, 1e6))
def test_clocks_of_hosts_that_differ_change_nothing(ahead):
    seen = two_hosts(ahead)
    assert seen.creation == pytest.approx(39, abs=1e-3)  # from when the last host could begin
    assert seen.middle == pytest.approx(19, abs=1e-3)
    assert seen.rank0 == pytest.approx(9, abs=1e-3)
    assert seen.barrier == pytest.approx(12, abs=1e-3)
    assert seen.apart == pytest.approx(1, abs=1e-3)
    assert seen.clients_cpu == pytest.approx(1)  # the host with one core and one rank, not the one with two
    assert seen.counters["refused"] == 2
    assert not seen.early


def test_a_barrier_is_called_broken_only_where_clocks_leave_no_doubt():
    def left_early(unsure):
        head = round_of(reading(0, 10.01, [(10.01, 10.02)], SERVER))
        there = round_of(reading(1, 10.01, [(10.021, 10.03)]))
        return start([head, there], unsure).early

    assert left_early(0.0005)
    assert not left_early(0.002)


def test_word_to_the_other_hosts_is_nobody_s_time():
    """Where all others wait for the server, its own time counts and that of telling them does not."""
    head = round_of(reading(0, 12.010, [], SERVER), released=12.0, serving=0.007)
    there = round_of(reading(1, 12.004, []), released=12.0)
    seen = start([head, there])
    assert seen.creation == pytest.approx(17)
    assert seen.rank0 == pytest.approx(17)


def test_objective_counts_each_barrier_and_every_start():
    starts = [a_start(10.0), a_start(20.0), a_start(90.0, barrier=4.0)]
    found = metrics(starts, {"get": (3e-5, 4e-5)}, Weights(barrier=10))
    assert found["startup_ms"] == pytest.approx((20 + 30 + 130) / 3)
    assert found["startup_half_ms"] == 30
    assert found["get_us"] == pytest.approx(30)
    assert samples(starts, Weights(barrier=0)) == (10, 20, 90)
    assert samples(starts, Weights(2, 0.5)) == (20.5, 40.5, 182)


def split(lookup=QUICK, **changes):
    return diagnose(
        [a_start(1000.0, **changes)], 1, lookup, by_name=True, backend="libuv", ranks=128, somaxconn=8
    )  # fmt: skip


def test_diagnosis_reverse_look_up():
    slow = Lookup("node01", ("10.0.0.1",), 0.001, 0.9, 0, "::ffff:10.0.0.1")
    found = split(slow)
    assert found.bound_by == "reverse look-up"
    assert found.outside
    assert "`::ffff:10.0.0.1 node01`" in found.mend
    assert sum(found.parts.values()) == pytest.approx(1001, abs=0.1)


def test_diagnosis_two_look_ups_in_a_row():
    slow = Lookup("node01", ("10.0.0.1",), 0.001, 0.495, 0, "::ffff:10.0.0.1")
    assert split(slow).parts["reverse look-up"] == pytest.approx(990)


def test_diagnosis_backlog_and_start_order():
    found = split(counters={**QUIET, "overflows": 57, "refused": 3})
    assert (found.bound_by, found.outside) == ("backlog", True)
    assert "57 connections were thrown away" in found.sentence
    assert "net.core.somaxconn=4096" in found.mend
    assert "now 8" in found.mend
    found = split(counters={**QUIET, "refused": 57})
    assert found.bound_by == "start order"
    assert "57 connections were refused" in found.sentence
    assert "--start server_first" in found.mend


def test_diagnosis_own_limits_are_no_outside_cause():
    assert split(clients_cpu=950.0).bound_by == "the clients' CPU on this machine"
    assert not split(clients_cpu=950.0).outside
    assert split(server_cpu=(900.0, 0.0)).bound_by == "server CPU"
    assert split(barrier=5000.0).bound_by == "barriers"


@given(st.floats(0.1, 1e5), st.floats(0, 20), st.floats(0, 20), st.floats(0, 1e4), st.floats(0, 1e5))
def test_diagnosis_parts_always_add_up(creation, forward, reverse, cpu, clients):
    lookup = Lookup("n", ("10.0.0.1",), forward, reverse)
    starts = [a_start(creation, server_cpu=(cpu, 0.0), clients_cpu=clients)]
    found = diagnose(starts, 2, lookup, by_name=True, backend="legacy", ranks=9, somaxconn=None)
    assert sum(found.parts.values()) == pytest.approx(creation + 2.0, abs=0.1)
    assert min(found.parts.values()) >= -0.01


@given(st.integers(2, 500), st.integers(1, 600))
def test_every_rank_has_a_process(clients, processes):
    job = Job("libuv", "keys", "h", "together", clients, processes, 1, 1, 1.0)
    shares = job.shares()
    assert shares[0] == [0]
    assert sorted(rank for share in shares for rank in share) == list(range(clients))
    assert all(shares)
    assert len(shares) <= processes + 1


ROOMY = fit.Machine(network.Descriptors(20000, 20000), 28232, 16 << 30, 30000, 2)


def test_processes_one_a_client_then_few():
    assert fit.processes(64, 0, ROOMY) == 63
    assert fit.processes(256, 0, ROOMY) == 255
    assert fit.processes(1024, 0, ROOMY) == 4
    assert fit.processes(1024, 100, ROOMY) == 100
    assert fit.processes(2, 0, ROOMY) == 1


def test_what_does_not_fit_is_said_with_what_would():
    (found,) = fit.problems(201, 4, fit.Machine(network.Descriptors(128, 4096), 28232, 16 << 30, 30000, 2), force=False)
    assert (found.id, found.severity) == ("nofile", "error")
    assert "233" in found.message
    assert "128" in found.message
    assert found.mend == "ulimit -n 233 (in the job too)"
    for has in (ROOMY, replace(ROOMY, tasks=5000), replace(ROOMY, memory=1 << 30), replace(ROOMY, ports=2000)):
        most = fit.largest(has)
        assert not fit.problems(most, fit.processes(most, 0, has), has, force=False)
        assert fit.problems(most + 1, fit.processes(most + 1, 0, has), has, force=False)
    forced = fit.problems(10**6, 4, ROOMY, force=True)
    assert {problem.severity for problem in forced} == {"warning"}


UV = "DistNetworkError: The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, "
SPELLINGS = (
    UV + "code: -98, name: EADDRINUSE, message: address already in use",
    "DistNetworkError: The server socket has failed to listen on any local network address. The server socket has failed to "
    "bind to [::]:29500 (errno: 98 - Address already in use).",
)


def test_both_servers_busy_port_is_one_sentence():
    more = {"clients": 4, "port": 29500, "backend": "libuv", "nofile": 1024, "free": 29511}
    said = [explain("crash", f"rank 0: {each}", each, **more).reason for each in SPELLINGS]
    assert all(each.startswith("port 29500 is in use on this host; 29511 is free: ") for each in said)
    there = explain("crash", f"rank 0: {SPELLINGS[0]}", SPELLINGS[0], **more, host="hbA").reason
    assert there.startswith("port 29500 is in use on hbA; 29511 is free: on hbA: rank 0")


def test_torch_words_become_sentences():
    joined = "DistStoreError: Timed out after 7 seconds waiting for clients. 114/201 clients joined."
    more = {"port": 0, "backend": "libuv", "free": 29511, "nofile": 1024}
    assert "114 of 201 ranks joined" in explain("crash", joined, joined, clients=201, **more).reason
    unknown = explain("crash", "something else", "something else", clients=4, **more)
    assert unknown.reason == "something else"


def test_addresses_as_torch_asks():
    assert str(plain("::ffff:10.0.0.1")) == "10.0.0.1"
    assert str(plain("fe80::1%eth0")) == "fe80::1"
    assert hosts_line(QUICK) == "::ffff:10.0.0.1 node01"
    assert hosts_line(Lookup("node02", ("2001:db8::2",), 0, 0)) == "2001:db8::2 node02"


def test_kernel_counters(tmp_path):
    (tmp_path / "net").mkdir()
    (tmp_path / "net/snmp").write_text(
        "Ip: A B\nIp: 1 2\nTcp: ActiveOpens AttemptFails EstabResets RetransSegs\nTcp: 9 5 3 2\n"
    )
    (tmp_path / "net/netstat").write_text("TcpExt: X ListenOverflows ListenDrops\nTcpExt: 0 7 8\n")
    first = network.counters(tmp_path)
    assert first == network.Counters(5, 7, 3, 2)
    assert network.Counters(6, 9, 3, 2).since(first) == network.Counters(1, 2, 0, 0)
    assert network.counters(tmp_path / "nowhere") == network.Counters(0, 0, 0, 0)


def test_listening_is_seen_without_connecting():
    import socket

    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        port = made.getsockname()[1]
        assert not network.listens(port)
        made.listen()
        assert network.listens(port)
        assert "in use" in network.can_bind(port)
    assert network.can_bind(port) == ""
    assert len(set(network.free_ports(5))) == 5
