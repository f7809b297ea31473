"""Scripts of users: read as the baseline, linted and mended; xFT's own among them."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.sysfs import told

from spaces.xft import PLACEMENT, SPACE
from tuner.errors import WrongUsage
from tuner.exporters import xft
from tuner.exporters.xft.calls import calls
from tuner.exporters.xft.known import KNOWN, meant

DEFAULT = SPACE.default

# Written as users of xFT write theirs; hosts are of the documentation's range.
FOUR_HOSTS = """\
#!/bin/bash
export LD_PRELOAD=/opt/xft/libiomp5.so
export CCL_PROCESS_LAUNCHER=none
export CCL_WORKER_COUNT=1
export XFT_ONECCL=1
export XFT_COMM_TIME=1
export XFT_TIMELINE=0
mpirun -iface=eth0 \\
    -n 1 -hosts 192.0.2.1 sh run.sh 0 0 48 0 : \\
    -n 1 -hosts 192.0.2.2 sh run.sh 0 0 48 0
"""
TWO_NODES = """\
export OMP_NUM_THREADS=48
export OMP_WAIT_POLICY=PASSIVE
mpirun -n 1 numactl --all -C 0-47 -m 0 python benchmark.py : -n 1 numactl --all -C 48-95 -m 1 python benchmark.py
"""


@pytest.fixture(name="record")
def _record(tmp_path: Path) -> Any:
    def kept(shape: str) -> str:
        path = tmp_path / f"{shape}.json"
        path.write_text(json.dumps(told(shape)))
        return str(path)

    return kept


def placed(found: dict[str, Any]) -> dict[str, Any]:
    """What differs from the default."""
    return {name: value for name, value in found.items() if value != DEFAULT[name]}


# Read


def test_calls_of_numactl() -> None:
    first, second = calls(TWO_NODES)
    assert (first.line, first.cpus, first.memory, first.count) == (3, tuple(range(48)), ("bind", (0,)), 1)
    assert second.cpus == tuple(range(48, 96))


@pytest.mark.parametrize(
    ("line", "cpus", "memory"),
    [
        ("numactl -C 0-3 -m 0 x", (0, 1, 2, 3), ("bind", (0,))),
        ("numactl -C0-3 -m1 x", (0, 1, 2, 3), ("bind", (1,))),
        ("numactl --physcpubind=0,2 --membind=0,1 x", (0, 2), ("bind", (0, 1))),
        ("/usr/bin/numactl --physcpubind 0,2 --preferred 8 x", (0, 2), ("prefer", (8,))),
        ("numactl -l -C 1 x", (1,), ("none", ())),
        ("numactl --all -C 4 -i 0,1 x -m 7", (4,), ("interleave", (0, 1))),
        ("taskset -c 0-6:2 x", (0, 2, 4, 6), None),
        ("taskset 0xf x", (0, 1, 2, 3), None),
        ("taskset -c 0-7 numactl -C 0-3 -m 1 x", (0, 1, 2, 3), ("bind", (1,))),
    ],
)
def test_forms_of_pinning(line: str, cpus: tuple[int, ...], memory: Any) -> None:
    (call,) = calls(line + "\n")
    assert (call.cpus, call.memory, call.unclear) == (cpus, memory, "")


@pytest.mark.parametrize(
    ("line", "threads"),
    [
        ("OMP_NUM_THREADS=8 numactl -C 0-7 x", 8),
        ("mpirun -n 1 env OMP_NUM_THREADS=8 numactl -C 0-7 x", 8),
        ("mpirun -n 1 -env OMP_NUM_THREADS 8 numactl -C 0-7 x", 8),
        ("numactl -C 0-7 env OMP_NUM_THREADS=8 x", 8),
        ("numactl -C 0-7 x", None),
    ],
)
def test_threads_of_a_call(line: str, threads: int | None) -> None:
    assert calls(line + "\n")[0].threads == threads


def test_what_only_a_shell_knows() -> None:
    assert calls("numactl -C $CORES -m 0 x\n")[0].unclear == "$CORES"
    assert calls("mpirun -n 1 bash run.sh 0 0 ${OMP_NUM_THREADS} 0\n")[0].unclear == "${OMP_NUM_THREADS}"
    assert calls("OMP_NUM_THREADS=$N numactl -C 0 x\n")[0].unclear == "$N"


def test_comments_are_no_calls() -> None:
    assert calls("# numactl -C 0-3 x\necho done # numactl -C 1 y\n") == []


@given(st.text(alphabet="numactl -C0123,:m$\"'\\\n=x", max_size=60))
def test_any_text_is_read(text: str) -> None:
    for call in calls(text):
        assert call.line >= 1
    xft.lint(text, {})


_LINES = st.sampled_from(
    ["OMP_NUM_THREADS", "KMP_BLOCKTIME", "CLUSTERTUNE_RANKS", "FLASH_ATTN_THRESHOLD", "CCL_WORKER_COUNT", "LD_PRELOAD", "X"]
)


@given(st.lists(st.tuples(_LINES, st.text(alphabet="0123456789abc-$\"' ", max_size=6)), max_size=6))
def test_any_env_file_is_a_setting_or_is_refused(lines: list[tuple[str, str]]) -> None:
    text = "".join(f"{name}={value}\n" for name, value in lines)
    with suppress(WrongUsage):
        found = xft.present(text, {"engine": "torch"})
        assert set(found) == set(DEFAULT)
    assert xft.fix(text, {}) is not None


# As the baseline


def test_xfts_own_layout_is_the_default(record: Any) -> None:
    found = xft.present(TWO_NODES, {"topology": record("quad"), "engine": "torch"})
    assert placed(found) == {"wait_policy": "passive"}


def test_run_sh_of_many_hosts(record: Any) -> None:
    found = xft.present(FOUR_HOSTS, {"topology": record("cloud"), "hosts": "192.0.2.1,192.0.2.2", "engine": "xft"})
    assert {name: found[name] for name in PLACEMENT} == {name: DEFAULT[name] for name in PLACEMENT}
    assert found["allreduce"] == "tuned"
    assert "its cores are read as this host's" in xft.present_notes(FOUR_HOSTS, {"hosts": "192.0.2.1,192.0.2.2"})[-1]
    assert xft.present_notes(FOUR_HOSTS, {}) == [
        "XFT_COMM_TIME, XFT_TIMELINE: no release of xFT reads them, so that they are not part of the baseline"
    ]


@pytest.mark.parametrize(
    ("segments", "expected"),
    [
        ("numactl -C 0-23 -m 0 x : numactl -C 24-47 -m 0 x : numactl -C 48-71 -m 1 x : numactl -C 72-95 -m 1 x", {"ranks": 4}),
        ("numactl -C 0-47 -m 0 x", {"sockets": 1}),
        ("numactl -C 0-7 -m 0 x : numactl -C 48-55 -m 1 x", {"threads": 8}),
        ("numactl -C 0-45 -m 0 x : numactl -C 48-93 -m 1 x", {"spare_cores": 2}),
        ("numactl -C 0-47,96-143 -m 0 x : numactl -C 48-95,144-191 -m 1 x", {"siblings": "both"}),
        ("numactl -C 0-47 x : numactl -C 48-95 x", {"memory": "none"}),
        ("numactl -C 0-47 -p 0 x : numactl -C 48-95 -p 1 x", {"memory": "none"}),
        ("numactl -C 0-95 -i 0,1 x", {"ranks": 1, "memory": "interleave"}),
        ("numactl -N 0 -m 0 x : numactl -N 1 -m 1 x", {}),
        ("numactl -C 0 -m 0 x", {"ranks": 1, "threads": 1}),
    ],
)
def test_a_users_layout_is_found_among_ours(segments: str, expected: dict[str, Any], record: Any) -> None:
    found = xft.present(f"mpirun {segments}\n", {"topology": record("quad"), "engine": "torch"})
    place = {name: value for name, value in placed(found).items() if name in PLACEMENT}
    if expected == {"ranks": 1, "threads": 1}:
        assert place in (expected, {"sockets": 1, "threads": 1})
    else:
        assert place == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("numactl -C 0-47 -m 1 x\n", "no setting that is measured here starts 1 rank, the first on CPUs 0-47 with 48 threads"),
        ("OMP_NUM_THREADS=40 numactl -C 0-47 -m 0 x\n", "the first on CPUs 0-47 with 40 threads"),
        ("numactl -C 200 x\n", "line 1: CPU 200 may not be used on node1"),
        ("numactl -C $X x\n", r"line 1: '\$X' is known only when the script runs"),
        ("numactl -m 0 x\n", "the rank has no cores of its own"),
    ],
)
def test_layouts_that_are_none_of_ours(text: str, why: str, record: Any) -> None:
    with pytest.raises(WrongUsage, match=why):
        xft.present(text, {"topology": record("quad")})


def test_hosts_with_different_ranks(record: Any) -> None:
    text = "mpirun -host a numactl -C 0-47 -m 0 x : -host b numactl -C 0-7 -m 0 x\n"
    with pytest.raises(WrongUsage, match="a setting here is one for all hosts"):
        xft.present(text, {"topology": record("quad"), "hosts": "a,b"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("OMP_WAIT_POLICY=active\n", {"wait_policy": "active"}),
        ("KMP_BLOCKTIME=1\n", {"blocktime": "1"}),
        ("GOMP_SPINCOUNT=0\n", {"spin_count": "0"}),
        ("ENABLE_THP=1\n", {"huge_pages": True}),
        ("ENABLE_KV_TRANS=0\nENABLE_CAT_MLP=1\n", {"kv_trans": False}),
        ("FLASH_ATTN_THRESHOLD=-1\n", {"flash_attention": "off"}),
        ("FLASH_ATTN_THRESHOLD=8192\n", {}),
        ("ENABLE_TUNED_COMM=0\n", {"allreduce": "shm"}),
        ("OMP_PROC_BIND=close\nOMP_PLACES=threads\n", {"bind_threads": True}),
        ("OMP_NUM_THREADS=4\n", {"threads": 4}),
        ("LD_PRELOAD=/x/libiomp5.so\n", {"openmp": "iomp5"}),
        ("CCL_WORKER_COUNT=2\nFI_PROVIDER=tcp\n", {"worker_count": 2, "provider": "tcp"}),
        ("CLUSTERTUNE_RANKS=4\nCLUSTERTUNE_SIBLINGS=both\n", {"ranks": 4, "siblings": "both"}),
        ("", {}),
    ],
)
def test_variables_are_knobs(text: str, expected: dict[str, Any]) -> None:
    assert placed(xft.present(text, {"engine": "torch"})) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("KMP_BLOCKTIME=77\n", "KMP_BLOCKTIME is '77', which is not measured; one of 0, 1, 5 is"),
        ("ENABLE_CAT_MLP=yes\n", "ENABLE_CAT_MLP is 'yes'; it is 0 or 1"),
        ("CLUSTERTUNE_RANKS=many\n", "CLUSTERTUNE_RANKS is 'many'"),
        ("FLASH_ATTN_THRESHOLD=77\n", "one of 0, -1 is"),
    ],
)
def test_values_that_are_not_measured(text: str, why: str) -> None:
    with pytest.raises(WrongUsage, match=why):
        xft.present(text, {})


def test_of_xft_without_a_preload_the_runtime_is_libgomp() -> None:
    assert placed(xft.present("OTHER=1\n", {"engine": "xft"})) == {"openmp": "gomp"}
    assert placed(xft.present("LD_PRELOAD=/x/libiomp5.so\n", {"engine": "xft"})) == {}


# Linted


def found(text: str) -> list[tuple[int, str, bool]]:
    return [(each.line, each.key, each.safe) for each in xft.lint(text, {})]


def messages(text: str) -> str:
    return "\n".join(f"{each.message} {each.mend}" for each in xft.lint(text, {}))


@pytest.mark.parametrize("name", ["XFT_COMM_TIME", "XFT_TIMELINE", "XFT_ONECCL_BF16", "ENABLE_CBLAS_MLP", "is_ali_cloud"])
def test_dead_variables(name: str) -> None:
    text = f"#!/bin/sh\nexport {name}=1\nexport XFT_ONECCL=1\n"
    everywhere = name == "XFT_ONECCL_BF16"
    assert found(text) == [(2, name, everywhere)]
    assert f"no release of xFT reads {name}" in messages(text)
    assert xft.fix(text, {}) == ("#!/bin/sh\nexport XFT_ONECCL=1\n" if everywhere else text)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("OMP_NUM_THREAD", "OMP_NUM_THREADS"), ("KMP_BLOCK_TIME", "KMP_BLOCKTIME"), ("XFT_FAKE_MODELS", "XFT_FAKE_MODEL"),
     ("GOMP_SPIN_COUNT", "GOMP_SPINCOUNT"), ("omp_num_threads", "OMP_NUM_THREADS"), ("ENABLE_KV_TRAN", "ENABLE_KV_TRANS")],
)  # fmt: skip
def test_misspelt_variables(wrong: str, right: str) -> None:
    assert meant(wrong) == right
    text = f"export XFT_ONECCL=1 {wrong}=1\n"
    assert found(text) == [(1, wrong, True)]
    assert f"{right}=1" in xft.fix(text, {})


def test_no_known_variable_is_taken_for_another() -> None:
    assert [name for name in KNOWN if meant(name)] == []
    assert meant("XFT_SOMETHING_OF_MINE") is None
    assert meant("ENABLE_LOGGING") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("OMP_NUM_THREADS=8 numactl -C 0-3 -m 0 python benchmark.py\n", "8 threads share 4 CPUs (0-3)"),
        ("export OMP_NUM_THREADS=64\nmpirun -n 1 numactl -C 0-47 -m 0 x\n", "64 threads share 48 CPUs (0-47)"),
        ("export OMP_NUM_THREADS=4\nmpirun numactl -C 0-3 x : numactl -C 3-6 y\n", "CPU 3 serves the rank of line 2 already"),
        ("export OMP_NUM_THREADS=4\nmpirun -n 2 numactl -C 0-3 x\n", "2 ranks are started on the same CPUs 0-3"),
        ("mpirun -n 1 numactl -C 0-3 python benchmark.py\n", "no rank is told its number of threads"),
        ("export OMP_NUM_THREADS=many XFT_ONECCL=1\n", "'many' is no number of threads"),
        ("export OMP_WAIT_POLICY=sleep XFT_ONECCL=1\n", "is read as active or passive only"),
        ("export XFT_MOE_ENGINE=2\n", "is read as 0 or 1 only"),
        (
            "export GOMP_SPINCOUNT=0 LD_PRELOAD=/x/libiomp5.so XFT_ONECCL=1\nmpirun x\n",
            "GOMP_SPINCOUNT is libgomp's, and LD_PRELOAD",
        ),
        ("export KMP_BLOCKTIME=1 XFT_ONECCL=1\nmpirun x\n", "KMP_BLOCKTIME is libiomp5's, and nothing here preloads that"),
        (
            "export XFT_FAKE_MODEL=1 LD_PRELOAD=$w/3rdparty/mklml/lib/libiomp5.so\n",
            "is there only after xFT was built from source",
        ),
    ],
)
def test_what_costs_a_rank_its_cores(text: str, message: str) -> None:
    assert message in messages(text)
    assert len(xft.lint(text, {})) == 1


@pytest.mark.parametrize(
    "text",
    [
        "export OMP_NUM_THREADS=4 XFT_ONECCL=1\nmpirun -host a -n 1 numactl -C 0-3 x : -host b -n 1 numactl -C 0-3 x\n",
        "export OMP_NUM_THREADS=$N\nmpirun -n 1 numactl -C $C x\n",
        "export LD_PRELOAD=$IOMP KMP_BLOCKTIME=1 XFT_ONECCL=1\nmpirun x\n",
        "OMP_NUM_THREADS=2 numactl -C 0-3 -m 0 x\n",
        "export OMP_NUM_THREADS=4,2\n",
    ],
)
def test_what_is_in_order(text: str) -> None:
    assert xft.lint(text, {}) == []


def test_hosts_without_the_switch() -> None:
    ranks = " : ".join(f"-n 1 -host {host} python benchmark.py" for host in "ab")
    text = f"export XFT_FAKE_MODEL=1 OMP_NUM_THREADS=4\nmpirun {ranks}\n"
    assert found(text) == [(2, "XFT_ONECCL", True)]
    assert "ranks run on 2 hosts without XFT_ONECCL=1" in messages(text)
    fixed = xft.fix(text, {})
    assert xft.lint(fixed, {}) == []
    assert "XFT_ONECCL=1" in fixed


def test_cores_are_checked_against_a_recorded_host(record: Any) -> None:
    text = "export OMP_NUM_THREADS=48\nmpirun -n 1 numactl -C 0-47 -m 0 x\n"
    (found,) = xft.lint(text, {"topology": record("cloud")})
    assert found.message == "CPUs 0-47 are 24 cores, each twice, and 24 cores beside them do nothing"
    assert found.mend.startswith("one CPU of each core: -C 0,2,4,6,")
    assert xft.lint(text, {"topology": record("general")}) == []
    assert xft.lint(text.replace("0-47", "0-95"), {"topology": record("cloud")}) == []
    messages = [each.message for each in xft.lint("numactl -C 200 -m 3 x\n", {"topology": record("cloud")})]
    assert "CPU 200 may not be used on xftest01: numactl ends the rank" in messages
    assert "there is no memory that may be used on node 3: numactl ends the rank" in messages
    with pytest.raises(WrongUsage, match="--topology /nosuch"):
        xft.lint(text, {"topology": "/nosuch"})


@pytest.mark.parametrize(
    ("option", "safe"),
    [("--beam_width 1", True), ("--beam_width=1", True), ("--beam_width", True), ("--beam_width ${beam_width}", False),
     ("--beam_width 4", False), ("--beam_width $b", False)],
)  # fmt: skip
def test_an_option_that_is_gone(option: str, safe: bool) -> None:
    text = f'BENCHMARK="python benchmark.py \\\n    --batch_size 1 {option} \\\n    --iteration 10"\n'
    assert found(text) == [(2, "--beam_width", safe)]
    without = 'BENCHMARK="python benchmark.py \\\n    --batch_size 1 \\\n    --iteration 10"\n'
    assert xft.fix(text, {}) == (without if safe else text)
    assert found(f'BENCHMARK="python benchmark.py {option}"\n') == [(1, "--beam_width", safe)]
    assert found(f"X=benchmark.py\npython \\\n{option} \\\n--x\n") == [(3, "--beam_width", safe)]


def test_oneccls_own_findings_are_there_too() -> None:
    text = "export XFT_ONECCL=1 CCL_WORKER_COUNT=0\n"
    assert [each.key for each in xft.lint(text, {})] == ["CCL_WORKER_COUNT"]


def test_a_fixed_file_has_no_safe_finding_left() -> None:
    text = FOUR_HOSTS + "export OMP_NUM_THREAD=48\n"
    fixed = xft.fix(text, {})
    assert not [each for each in xft.lint(fixed, {}) if each.safe]
    assert "run.sh 0 0 48 0 : \\" in fixed


@pytest.mark.parametrize(
    ("name", "text", "ours"),
    [
        ("run.sh", FOUR_HOSTS, True),
        ("start.sh", TWO_NODES, True),
        ("xft.env", "A=1\n", True),
        ("run_xft.sbatch", "", True),
        ("serve.sh", "numactl -C 0-3 mysqld\n", False),
        ("job.sh", "export CCL_WORKER_COUNT=1\nmpirun x\n", False),
        ("config.json", '{"XFT_ONECCL": 1}', False),
        ("bench.py", "XFT_ONECCL=1", False),
    ],
)
def test_which_files_are_ours(name: str, text: str, ours: bool) -> None:
    assert xft.matches(name, text) == ours
