"""Where hosts meet: what every host saw of rank 0's name and address, and what is to be mended."""

from __future__ import annotations

from runners.tcpstore.checks import incapable
from runners.tcpstore.meeting import Meeting, Seen, judged
from runners.tcpstore.names import Lookup

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"
OWNERS = {A: "node01", B: "node02", C: "node03"}


def lookup(*addresses: str, forward: float = 0.001, reverse: float = 0.001, failure: str = "") -> Lookup:
    asked = f"::ffff:{addresses[0]}" if addresses else ""
    return Lookup("node01", addresses, forward, reverse, 0, asked, failure)


def seen(host: str, found: Lookup | None = None, back: dict[str, float] | None = None, **said: str) -> Seen:
    ways = {} if host == "node01" else {"node01": said.get("name", ""), A: said.get("ip", "")}
    return Seen(host, found or lookup(A), back or {A: 0.001}, ways)


def meet(*others: Seen, home: Seen | None = None, own: tuple[str, ...] = (A,)) -> Meeting:
    return judged("node01", own, [home or seen("node01"), *others], OWNERS, 29500)


def test_all_is_well() -> None:
    met = meet(seen("node02"), seen("node03"))
    assert (met.name, met.ip, met.refused, met.problems) == ("node01", A, {}, ())
    assert met.lookup.ipv4 == A


def test_the_address_that_the_others_find_is_the_one() -> None:
    two = ("192.168.9.1", A)
    assert meet(seen("node02"), own=two).ip == A
    unreached = Seen("node02", lookup(A), {}, {"node01": "", "192.168.9.1": "timed out", A: ""})
    assert judged("node01", two, [seen("node01"), unreached], OWNERS, 1).ip == A


def test_a_name_that_leads_home() -> None:
    met = meet(seen("node02", lookup("127.0.1.1"), name="Connection refused"))
    (problem,) = met.problems
    assert (problem.id, problem.severity) == ("loopback", "error")
    assert problem.message == "node01 is 127.0.1.1 on node02: its ranks would look for rank 0 on itself"
    assert problem.mend == (
        f"take node01 off the 127.0.1.1 line of /etc/hosts on node02; or --master {A} for a job that is given the address"
    )
    assert met.refused["address", "name"].startswith("node02 does not get to rank 0's host by the name node01")
    assert met.ip == A


def test_rank_0_s_own_name_that_leads_home() -> None:
    met = meet(seen("node02"), home=seen("node01", lookup("127.0.1.1")))
    (problem,) = met.problems
    assert (problem.id, problem.severity) == ("loopback", "warning")
    assert "would tell others to look at home" in problem.message
    assert met.refused == {}


def test_no_way_leads_there() -> None:
    met = meet(seen("node02", name="timed out", ip="timed out"), seen("node03", name="timed out", ip="timed out"))
    errors = [problem for problem in met.problems if problem.severity == "error"]
    (problem,) = errors
    assert problem.id == "reach"
    assert problem.message.startswith(
        "node02 (and 1 more hosts) can't open a connection to port 29500 of rank 0's host node01"
    )
    assert "sudo ufw allow from node02" in problem.mend


def test_a_name_that_is_not_found_leaves_the_address() -> None:
    met = meet(seen("node02", lookup(failure="Name or service not known"), name="Name or service not known"))
    (problem,) = met.problems
    assert (problem.id, problem.severity) == ("name", "error")
    assert problem.mend.startswith(f"the line `{A} node01` in /etc/hosts of node02; or --master {A}")
    assert ("address", "name") in met.refused


def test_a_name_that_leads_to_the_wrong_place() -> None:
    (problem,) = meet(seen("node02", lookup("10.9.9.9"), name="timed out")).problems
    assert (problem.id, problem.severity) == ("name", "error")
    assert problem.message == "node02 takes node01 for 10.9.9.9 and gets nowhere by that (timed out)"


def test_a_job_that_is_given_the_address() -> None:
    other = Seen("node02", Lookup(A, (A,), 0.0, 0.001, 0, f"::ffff:{A}"), {A: 0.001}, {A: ""})
    met = judged(A, (A,), [Seen("node01", other.lookup, {A: 0.001}, {}), other], OWNERS, 29500)
    assert (met.name, met.ip, met.problems) == (A, A, ())
    assert list(met.refused) == [("address", "ip")]


def test_slow_names_are_told_by_host_with_one_line_each() -> None:
    home = seen("node01", back={A: 0.001, B: 5.0, C: 4.0})
    met = meet(seen("node02", lookup(A, reverse=10.0), {A: 5.0}), seen("node03", lookup(A, forward=2.0)), home=home)
    first, second, third = met.problems
    assert first.id == "forward"
    assert "takes 2.0 s on node03" in first.message
    assert second.message.startswith(f"on node01 the way back from {B} to a name takes 5.0 s, and from 1 more:")
    assert f"`::ffff:{B} node02`" in second.mend
    assert third.message.startswith(f"on node02 the way back from {A} to a name takes 5.0 s:")
    assert met.lookup.reverse == 10.0
    assert met.lookup.forward == 2.0


def test_no_ipv4_is_said() -> None:
    (problem,) = meet(seen("node02", lookup("2001:db8::1"))).problems
    assert problem.id == "ipv6"
    assert "has no IPv4 address on node02, only 2001:db8::1" in problem.message


def test_what_torch_lacks_is_told_once_with_its_hosts() -> None:
    able = {"libuv": "", "legacy": "", "listening_libuv": "", "listening_legacy": ""}
    assert list(incapable({"a": able, "b": able}, "2.13.0")) == []
    old = {**able, "listening_libuv": "NotImplementedError: not yet"}
    (note,) = incapable({"a": able, "b": old, "c": old}, "2.7.1")
    assert (note.id, note.severity) == ("listening_libuv", "note")
    assert note.message.startswith("torch 2.7.1 on b and 1 more: the libuv server takes no listening socket (tried): NotImpl")
    without = {**able, "libuv": "RuntimeError: built without libuv"}
    (warning,) = incapable({"": without}, "2.5.0")
    assert (warning.severity, warning.mend) == ("warning", "--backend legacy")
    assert warning.message == "torch 2.5.0: the libuv server can't be had (tried): RuntimeError: built without libuv"
    (elsewhere,) = incapable({"a": able, "b": without}, "2.5.0")
    assert (elsewhere.severity, elsewhere.mend) == ("note", "the same torch as on rank 0's host")
    assert [each.id for each in incapable({"": {}}, "2.13.0")] == ["libuv", "legacy", "listening_libuv", "listening_legacy"]
