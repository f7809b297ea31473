"""Reports of users of xFT and of CPU inference, each kept from coming back: layouts, doctor, emitted files."""

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from support.sysfs import ICX, SPR, ZEN3, shaped, told

from runners.runner import Problem
from runners.topology import Topology
from runners.xft import host_checks
from runners.xft.checks import problems
from runners.xft.known_models import KNOWN
from runners.xft.layout import Layout, lay_out
from runners.xft.limits import limits, rank_counts
from runners.xft.model import Demand
from runners.xft.options import Options
from runners.xft.plan import Plan
from spaces.xft import SPACE, XFT, for_job
from tuner.exporters import xft
from tuner.exporters.xft.calls import calls
from tuner.recommendation import Recommendation

DEMAND = Demand(KNOWN["llama-2-7b"])
SEED = tuple(f"192.0.2.{number}" for number in range(1, 5))


def laid(hosts: Mapping[str, Topology], demand: Demand = DEMAND, **config: bool | int | str) -> Layout:
    found = lay_out({**SPACE.default, **config}, hosts, demand)
    assert isinstance(found, Layout), found
    return found


def script(hosts: Mapping[str, Topology], demand: Demand = DEMAND, **config: bool | int | str) -> str:
    machine = {"plan": Plan(hosts, demand, XFT).json(), "launcher": "intel"}
    answer = Recommendation(
        "s", "xft", "xft", "adopt", {**SPACE.default, **config}, SPACE.default, None, "", {}, {}, machine=machine
    )
    (text,) = xft.render(answer, "script", {}).values()
    return text


def found(id: str, hosts: Mapping[str, Topology], dtype: str = "", engine: str = "auto") -> list[Problem]:
    options = Options(dtype=dtype, engine=engine)  # type: ignore[arg-type]
    every = [*host_checks.of_topologies(hosts), *host_checks.of_engine(options, hosts)]
    return [problem for problem in every if problem.id == id]


def test_cloud_pairs() -> None:
    """Neighbouring CPU numbers are one core: 96 CPUs are 48 cores, and a mask of all takes one of each pair."""
    host = shaped("cloud")
    assert len(host.cores) == 48
    space = for_job(SPACE, limits({"a": host}, DEMAND, XFT))
    for config in [SPACE.default, *space.pool(random.Random(1), 300)]:
        if config["siblings"] == "both":
            continue
        pairs = [cpu // 2 for rank in laid({"a": host}, **config).ranks for cpu in rank.cpus]
        assert len(pairs) == len(set(pairs))
    assert laid({"a": host}).ranks[0].cpus == tuple(range(0, 96, 2))
    (problem,) = found("xft-siblings", {"a": host})
    assert "the range 0-47 would be half of the cores, each twice" in problem.message


def test_same_hostname() -> None:
    """Four hosts that all call themselves xftest01."""
    hosts = dict.fromkeys(SEED, shaped("cloud"))
    (problem,) = found("xft-same-name", hosts)
    assert "192.0.2.1, 192.0.2.2, 192.0.2.3, 192.0.2.4 all call themselves 'xftest01'" in problem.message
    assert "hostnamectl set-hostname" in problem.mend
    assert all(rank.env["XFT_ONECCL"] == "1" for rank in laid(hosts).ranks)
    text = script(hosts)
    assert "# ranks of several hosts add up by oneCCL, never in shared memory\nexport XFT_ONECCL=1\n" in text
    assert "# hosts share a name: XFT_ONECCL=1 keeps ranks of different hosts from meeting in shared memory\n" in text


def test_the_seeds_shape() -> None:
    """Qwen-72B on four virtual machines of 96 CPUs in one node, siblings side by side."""
    text = script(dict.fromkeys(SEED, shaped("cloud")), Demand(KNOWN["qwen-72b"]))
    ranks = calls(text)
    assert [call.host for call in ranks] == list(SEED)
    assert all(call.cpus == tuple(range(0, 96, 2)) and call.threads == 48 for call in ranks)


def test_uneven_nodes() -> None:
    """Nodes of 43, 43 and 42 cores: no core idle, none doubled, threads as many as the mask has cores."""
    host = shaped("uneven")
    layout = laid({"a": host}, ranks=6)
    assert [rank.threads for rank in layout.ranks] == [43, 43, 42, 43, 43, 42]
    assert sorted(cpu for rank in layout.ranks for cpu in rank.cpus) == [core.cpus[0] for core in host.cores]
    assert [rank.env["OMP_NUM_THREADS"] for rank in layout.ranks] == ["43", "43", "42", "43", "43", "42"]
    (problem,) = found("xft-uneven", {"a": host})
    assert "node 0 43, node 1 43, node 2 42" in problem.message


def test_hbm_flat_blank() -> None:
    """lscpu shows a blank for the CPUs of nodes 2 and 3: they are memory only, near to 0 and 1."""
    host = shaped("hbm-quad")
    assert host.cpu_nodes == (0, 1)
    assert [node.number for node in host.nodes if node.memory_only] == [2, 3]
    layout = laid({"a": host}, memory="hbm")
    assert [rank.numactl()[-2:] for rank in layout.ranks] == [("-p", "2"), ("-p", "3")]


def test_no_avx512() -> None:
    """xFT is refused before anything of it is imported, with the flags that are missing and the oldest CPU that has them."""
    host = replace(shaped("small"), flags=frozenset(ZEN3.split()), model="Example CPU")
    (problem,) = found("xft-cpu", {"a": host}, "bf16", "xft")
    assert problem.severity == "error"
    assert "no avx512f, avx512bw, avx512vl, avx512dq, avx512_vnni" in problem.message
    assert "Intel Xeon of the 4th generation" in problem.message
    (problem,) = found("xft-cpu", {"a": host})
    assert problem.severity == "note"


def test_amx_dtype() -> None:
    """A CPU with AVX-512 and without AMX: bf16 is refused, and what works instead is named."""
    host = replace(shaped("small"), flags=frozenset(f"{ICX} avx512_fp16".split()), model="Example CPU")
    (problem,) = found("xft-dtype", {"a": host}, "bf16", "xft")
    assert problem.severity == "error"
    assert "dtype bf16 needs amx_tile, amx_bf16, amx_int8" in problem.message
    assert problem.mend == "--dtype fp16 or int4 or nf4"
    assert not found("xft-dtype", {"a": replace(host, flags=frozenset(SPR.split()))}, "bf16", "xft")


def test_smt_doubled() -> None:
    """96 threads on 48 cores: only by the knob that says so, never by default."""
    host = shaped("general")
    assert laid({"a": host}).ranks[0].threads == 48
    refused = lay_out({**SPACE.default, "threads": 96}, {"a": host}, DEMAND)
    assert refused == "96 threads are more than the 48 cores of a rank (siblings both would use each twice)"
    assert laid({"a": host}, siblings="both").ranks[0].threads == 96


@pytest.mark.parametrize("shape", ["cpuset", "cpuset-v1"])
def test_cpuset(shape: str) -> None:
    """A container that may use 8-15 of 64 CPUs: all is laid out there, whatever the setting."""
    host = shaped(shape)
    space = for_job(SPACE, limits({"a": host}, DEMAND, XFT))
    for config in [SPACE.default, *space.pool(random.Random(2), 200)]:
        layout = laid({"a": host}, **config)
        assert {cpu for rank in layout.ranks for cpu in rank.cpus} <= set(range(8, 16))
        assert {node for rank in layout.ranks for node in rank.memory.nodes} <= {0}


def test_heads() -> None:
    """64 heads: 6 ranks are tried only when they are named, after 1, 2, 4 and 8, and the reason is shown."""
    demand = Demand(replace(KNOWN["tiny"], heads=64, kv_heads=8))
    counts = [count for count, _ in rank_counts({"a": shaped("general")}, demand)]
    assert max(map(counts.index, (1, 2, 4, 8))) < counts.index(6)
    space = for_job(SPACE, limits({"a": shaped("general")}, demand, XFT))
    assert {config["ranks"] for config in space.pool(random.Random(3), 2000)} <= {0, 1, 2, 4, 8, 16}
    (reason,) = space.broken({**SPACE.default, "ranks": 6})
    assert "64 heads don't divide by 6" in reason


def test_the_doctor_tells_all_of_a_recorded_host(tmp_path: Path) -> None:
    file = tmp_path / "host.json"
    file.write_text(json.dumps(told("cloud")))
    every = problems(Options(hosts=",".join(SEED), topology=str(file), model="qwen-72b", dtype="bf16"))
    text = "\n".join(problem.message for problem in every)
    assert "node 0: 48 cores 0-94:2, siblings 1-95:2; 384 GiB" in text
    assert "64 heads, 64 for keys and values; of ranks on each of 4 hosts 1, 2, 4, 8, 16 divide them" in text
    assert "72.3 billion weights in bf16" in text
    assert not [problem for problem in every if problem.severity == "error"]
