"""Env files and start scripts: what is written reads back, what works stays, and what torch doesn't read is found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spaces.tcpstore import SPACE
from tuner.errors import WrongUsage
from tuner.exporters import tcpstore
from tuner.exporters.tcpstore import settings
from tuner.recommendation import Recommendation

CONFIGS = SPACE.configs()
SCRIPT = """#!/bin/bash
# starts the job
set -e
export USE_LIBUV=0   # since 2.4
export MASTER_ADDR="node01" MASTER_PORT=29500
python train.py --env USE_LIBUV=0
"""


def answer(config, launch="script", **machine):
    return Recommendation(
        "study-1", "tcpstore", "torch", "adopt", config, SPACE.default, None, "r", {}, {},
        machine=machine, options={"launch": launch, "world_size": 8192},
    )  # fmt: skip


@pytest.mark.parametrize("launch", ["script", "torchrun"])
@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: "-".join(map(str, c.values())))
def test_every_setting_reads_back(config, launch):
    (text,) = tcpstore.render(answer(config, launch), "env", {}).values()
    assert tcpstore.present(text, {"launch": launch}) == config
    assert tcpstore.present(tcpstore.merge(text, answer(config, launch), {}).text, {"launch": launch}) == config
    assert tcpstore.lint(text, {"launch": launch}) == []
    assert tcpstore.matches("tcpstore.env", text)


def test_advice_is_in_comments():
    machine = {"somaxconn": 4096, "nofile": 1024, "master": {"name": "node01", "ip": "10.0.0.1"}, "torch": "2.13.0+cpu"}
    (text,) = tcpstore.render(answer({**SPACE.default, "address": "ip"}, **machine), "env", {}).values()
    comments = [line for line in text.splitlines() if line.startswith("#")]
    assert any("net.core.somaxconn=8192" in line for line in comments)
    assert any("ulimit -n 8224" in line for line in comments)
    assert any("`::ffff:10.0.0.1 node01`" in line for line in comments)
    assert all("=" in line for line in text.splitlines() if not line.startswith("#"))


HOSTS = [
    {"name": "hbA", "ranks": 5, "torch": "2.13.0", "cores": 2},
    {"name": "hbB", "ranks": 4, "torch": "2.13.0", "cores": 2},
]
EVEN = [{**each, "ranks": 4} for each in HOSTS]
MASTER = {"name": "hbA", "ip": "10.0.0.1", "loopback": False}


def comments(config, launch="script", **machine):
    (text,) = tcpstore.render(answer(config, launch, master=MASTER, **machine), "env", {}).values()
    assert tcpstore.lint(text, {"launch": launch}) == []
    return [line for line in text.splitlines() if line.startswith("# ")]


def test_start_on_hosts_is_said_as_it_was_measured():
    even = comments(SPACE.default, "torchrun", hosts=EVEN)
    assert "# rank 0 is on hbA; ranks by host: hbA 4, hbB 4" in even
    start = "torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-id=JOB --rdzv-endpoint=hbA:29500 PROGRAM"
    assert f"# on every host: {start}" in even
    assert tcpstore.lint(f"#!/bin/sh\n{start}\n", {"world_size": 8}) == []
    (uneven,) = [line for line in comments(SPACE.default, "torchrun", hosts=HOSTS) if "torchrun --" in line]
    assert "--nproc-per-node=RANKS_OF_THIS_HOST" in uneven
    by_address = comments({**SPACE.default, "address": "ip", "backend": "legacy"}, hosts=HOSTS)
    assert any("init_method='tcp://10.0.0.1:29500?use_libuv=0', rank=…, world_size=8192)" in line for line in by_address)
    here = comments(SPACE.default)
    assert any("init_method='tcp://HOST:PORT?use_libuv=1'" in line for line in here)
    many = comments(SPACE.default, hosts=[{**HOSTS[0], "name": f"n{number}"} for number in range(100)])
    assert "# rank 0 is on n0; ranks by host: 5 on each of 100 hosts" in many


@pytest.mark.parametrize(
    ("line", "key", "said"),
    [
        ("torchrun --standalone --nnodes=2 a.py", "--standalone", "2 nodes never come together"),
        ("torchrun --nnodes=2 --nproc-per-node=4 a.py", "--master-addr", "nothing says where 2 nodes meet"),
        ("torchrun --nnodes 1:4 --rdzv_backend c10d a.py", "--rdzv-endpoint", "nothing says where 4 nodes meet"),
        (
            "torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=localhost:29400 a.py",
            "--rdzv-endpoint",
            "every node itself",
        ),
        ("torchrun --nnodes=2 --master-addr=node01 --master-port=1 a.py", "--node-rank", "every node is node 0"),
        ("python -m torch.distributed.run --nnodes=2 \\\n  --rdzv-backend=c10d a.py", "--rdzv-endpoint", "nothing says"),
    ],
)
def test_nodes_that_never_meet(line, key, said):
    (found,) = tcpstore.lint(f"#!/bin/sh\n{line}\n", {})
    assert (found.line, found.key, found.safe) == (2, key, False)
    assert said in found.message
    assert found.mend


@pytest.mark.parametrize(
    "line",
    [
        "torchrun --standalone --nproc-per-node=4 a.py",
        "torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=$HOST:29500 a.py",
        "torchrun --nnodes=$N a.py",
        "torchrun --nnodes=2 --node-rank=1 --master-addr=node01 a.py",
        "torchrun --nproc-per-node=2 a.py --nnodes=7",
        "PET_NNODES=2 PET_MASTER_ADDR=node01 torchrun --nnodes=2 a.py",
    ],
)
def test_nodes_that_meet(line):
    assert tcpstore.lint(f"#!/bin/sh\n{line}\n", {}) == []


def test_ranks_of_all_nodes_against_the_job_s_size():
    text = "torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint=h:1 a.py\n"
    (found,) = tcpstore.lint(text, {"world_size": 16})
    assert (found.key, found.message) == ("--nproc-per-node", "2 nodes with 4 processes each are 8 ranks and not 16")
    assert tcpstore.lint(text, {"world_size": 8}) == []


@pytest.mark.system
@pytest.mark.parametrize("form", ["start", "python"])
def test_a_backlog_that_is_shorter_than_measured_is_said_at_the_start(form, tmp_path: Path):
    for name, text in tcpstore.render(answer({**SPACE.default, "backlog": "raised"}), form, {}).items():
        (tmp_path / name).write_text(text)
    size = str(int(Path("/proc/sys/net/core/somaxconn").read_text()) + 1)
    if form == "start":
        command = ["sh", str(tmp_path / "start.sh"), "0", size, "localhost", "1", "true"]
    else:
        code = "import rendezvous, sys; rendezvous.check_backlog(int(sys.argv[1]))"
        command = [sys.executable, "-c", code, size]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "CLUSTERTUNE_BACKLOG": "raised"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=environment)
    assert f"and {size} ranks connect at once: raise it first" in done.stderr
    command[-1 if form == "python" else 3] = "2"
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=environment).stderr == ""


def test_merge_changes_what_is_there_and_nothing_else():
    merged = tcpstore.merge(SCRIPT, answer({**SPACE.default, "start": "listening"}), {}).text
    assert 'export MASTER_ADDR="node01" MASTER_PORT=29500' in merged
    assert "export USE_LIBUV=1   # since 2.4" in merged
    assert merged.startswith("#!/bin/bash\n# starts the job\nexport CLUSTERTUNE_BARRIER=keys\n")
    assert tcpstore.present(merged, {})["start"] == "listening"


def test_merge_into_a_torchrun_script():
    text = "#!/bin/sh\nexport USE_LIBUV=0\ntorchrun --standalone train.py\n"
    merged = tcpstore.merge(text, answer(SPACE.default, "torchrun"), {})
    assert "export USE_LIBUV=1" in merged.text
    assert merged.notes == ("USE_LIBUV is 1 now: under torchrun the store has the libuv server",)
    legacy = tcpstore.merge(text, answer({**SPACE.default, "backend": "legacy"}, "torchrun"), {}).text
    assert "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1" in legacy
    assert tcpstore.present(legacy, {})["backend"] == "legacy"


_LINES = st.sampled_from(
    [
        "#!/bin/sh", "# USE_LIBUV=0", "export USE_LIBUV=0", "USE_LIBUV=True", "USE_LIBUV=1 python a.py", "torchrun a.py", "",
        "export A='USE_LIBUV = 0'", "MASTER_PORT=$PORT", "MASTER_ADDRESS=a", "  --rdzv-conf use_libuv=0,timeout=3", "\tfi",
        "CLUSTERTUNE_START=listening", "torchrun --use_libuv=False \\", "x=tcp://h:1?use_libuv=yes", "USE_LIBUV=off; echo é",
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun --master-addr=h a.py", "ulimit -n 64", "MASTER_PORT=99999",
    ]
)  # fmt: skip
_ENDS = st.sampled_from(["\n", "\r\n"])
_TEXTS = st.builds(
    lambda lines, end, tail: end.join(lines) + tail, st.lists(_LINES, max_size=8), _ENDS, st.sampled_from(["", "\n"])
)


@given(_TEXTS, st.sampled_from(CONFIGS), st.sampled_from(["script", "torchrun", None]))
def test_any_script_takes_any_setting(text, config, launch):
    options = {} if launch is None else {"launch": launch}
    asked = answer(config, launch or ("torchrun" if settings.torchrun_line(text) else "script"))
    merged = tcpstore.merge(text, asked, options).text
    shown = launch or ("torchrun" if settings.torchrun_line(text) or "TORCH_DISABLE" in text else "script")
    assert tcpstore.present(merged, {"launch": shown}) == config
    kept = [line for line in text.splitlines() if "=" not in line]
    assert [line for line in merged.splitlines() if "=" not in line] == kept


@given(st.one_of(_TEXTS, st.text(max_size=200)))
def test_fix_ends_and_leaves_nothing_safe(text):
    fixed = tcpstore.fix(text, {})
    assert not [each for each in tcpstore.lint(fixed, {}) if each.safe]
    assert tcpstore.fix(fixed, {}) == fixed
    lines = text.count("\n") + 1
    assert all(1 <= each.line <= lines for each in tcpstore.lint(text, {}))


@pytest.mark.parametrize(
    ("line", "key", "safe"),
    [
        ("export MASTER_ADDRESS=node01", "MASTER_ADDRESS", True),
        ("MASTER_PORT=http", "MASTER_PORT", False),
        ("MASTER_PORT=70000", "MASTER_PORT", False),
        ("MASTER_ADDR=tcp://node01:29500", "MASTER_ADDR", False),
        ("MASTER_ADDR=localhost torchrun --nnodes=4 --rdzv-endpoint=n:1 --node-rank=0 a.py", "MASTER_ADDR", False),
        ("torchrun --nproc-per-node=2 --use_libuv=False a.py", "--use_libuv", True),
        ("torchrun --rdzv-conf=timeout=900,use_libuv=0 a.py", "--rdzv-conf", True),
        ("python a.py --init tcp://node01", "tcp://", False),
        ("TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun --master-addr=n a.py", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", False),
        ("USE_LIB_UV=1 python a.py", "USE_LIB_UV", True),
    ],
)
def test_lint_line(line, key, safe):
    text = f"#!/bin/sh\n{line}\n"
    (found,) = tcpstore.lint(text, {})
    assert (found.line, found.key, found.safe) == (2, key, safe)
    assert found.mend
    if safe:
        assert tcpstore.lint(tcpstore.fix(text, {}), {}) == []


@pytest.mark.parametrize(
    "line",
    [
        "MASTER_PORT={n}",
        "torchrun --nnodes={n} --nproc-per-node={n} x.py",
        "ulimit -n {n}; torchrun x.py",
        "sysctl -w net.core.somaxconn={n}; torchrun x.py",
        "MASTER_ADDR=localhost torchrun --nnodes={n} x.py",
        "init_process_group('tcp://h:{n}?use_libuv={n}')",
    ],
)
def test_numbers_too_long_for_python_are_no_mistake_of_ours(line):
    for found in tcpstore.lint(line.format(n="9" * 5000), {"world_size": 8}):
        assert len(found.message) < 300
    with_port = tcpstore.lint(line.format(n="9" * 5000) + "\nMASTER_PORT=" + "0" * 5000 + "80", {})
    assert any(found.key == "MASTER_PORT" for found in with_port)


def test_a_value_that_our_files_do_not_know():
    (found,) = tcpstore.lint("CLUSTERTUNE_BARRIER=fast\nCLUSTERTUNE_START=$how\nCLUSTERTUNE_ADDRESS=ip\n", {})
    assert (found.line, found.key, found.safe) == (1, "CLUSTERTUNE_BARRIER", False)
    assert "'fast' is none of keys, counter, store_barrier" in found.message


def test_lint_against_the_job_s_size():
    text = "ulimit -n 1024\nsysctl -w net.core.somaxconn=128\nUSE_LIBUV=1\n"
    found = tcpstore.lint(text, {"world_size": 2000})
    assert [each.key for each in found] == ["ulimit -n", "net.core.somaxconn"]
    assert "2032" in found[0].message
    assert tcpstore.lint(text, {"world_size": 64}) == []


def test_lint_twice_and_comments():
    text = "USE_LIBUV=1\n# USE_LIBUV=True\nUSE_LIBUV=0\n"
    (found,) = tcpstore.lint(text, {})
    assert (found.line, found.safe) == (3, False)
    assert "was '1' in line 1" in found.message


@pytest.mark.parametrize("text", ["USE_LIBUV=1\n", "torchrun a.py\n", "x tcp://h:1?use_libuv=0\n", "export MASTER_ADDR=h\n"])
def test_matches_start_files(text):
    assert tcpstore.matches("job.sbatch", text)


@pytest.mark.parametrize(
    ("name", "text"),
    [("ds.json", '{"aio": {}}'), ("a.sh", "mpirun -n 4 ./bench\n"), ("a.sh", "# torchrun\n"), ("a.py", "USE_LIBUV=1")],
)
def test_matches_nothing_else(name, text):
    assert not tcpstore.matches(name, text)


def test_refuses_what_is_no_start_file():
    with pytest.raises(WrongUsage, match="neither an env file"):
        tcpstore.present('{"aio": 1}', {})
    with pytest.raises(WrongUsage, match="CLUSTERTUNE_START is 'soon'"):
        tcpstore.present("CLUSTERTUNE_START=soon\n", {})


# The files in use

_RANK = """
import os, sys
sys.path.insert(0, sys.argv[1])
from rendezvous import barrier, open_store
rank, ranks, port = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), int(os.environ["MASTER_PORT"])
store = open_store(rank, ranks, os.environ["MASTER_ADDR"], port, 60)
for number in range(3):
    barrier(store, f"barrier {number}", ranks, 60)
store.add("sum", rank)
barrier(store, "added", ranks, 60)
if rank == 0:
    print("sum", store.add("sum", 0), "libuv" if store.libuvBackend else "legacy", flush=True)
barrier(store, "seen", ranks, 60)
"""


@pytest.mark.system
@pytest.mark.parametrize(
    "config",
    [
        {"backend": "legacy", "barrier": "counter", "address": "ip", "start": "server_first"},
        {"backend": "libuv", "barrier": "store_barrier", "address": "name", "start": "listening"},
    ],
    ids=str,
)
def test_files_start_a_job(config, tmp_path: Path):
    from runners.tcpstore.network import free_ports

    for form in ("start", "python"):
        for name, text in tcpstore.render(answer(config), form, {}).items():
            (tmp_path / name).write_text(text)
    (tmp_path / "rank.py").write_text(_RANK)
    (port,) = free_ports(1)
    command = ["3", "localhost", str(port), sys.executable, str(tmp_path / "rank.py"), str(tmp_path)]
    ranks = [
        subprocess.Popen(
            ["sh", str(tmp_path / "start.sh"), str(rank), *command],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(3)
    ]  # fmt: skip
    try:
        said = [rank.communicate(timeout=100) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0, 0], said
    assert said[0][0] == f"sum 3 {config['backend']}\n"


@pytest.mark.parametrize("launch", ["script", "torchrun"])
def test_start_script_is_a_script(launch, tmp_path: Path):
    texts = tcpstore.render(answer(SPACE.default, launch), "start", {})
    assert list(texts) == ["start.sh", "tcpstore.env"]
    (tmp_path / "start.sh").write_text(texts["start.sh"])
    subprocess.run(["sh", "-n", str(tmp_path / "start.sh")], check=True)
    assert tcpstore.lint(texts["start.sh"], {}) == []
    few = subprocess.run(["sh", str(tmp_path / "start.sh"), "0", "8"], capture_output=True, text=True, check=False)
    assert (few.returncode, few.stderr.startswith("usage: start.sh ")) == (2, True)


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.parametrize("start", ["together", "server_first"])
def test_start_script_starts_torchrun(start, tmp_path: Path):
    """On rank 0's own node, which must not wait for itself."""
    from runners.tcpstore.network import free_ports

    config = {**SPACE.default, "start": start, "address": "ip"}
    for name, text in tcpstore.render(answer(config, "torchrun"), "start", {}).items():
        (tmp_path / name).write_text(text)
    rank = "Path(__file__).with_name(os.environ['RANK']).write_text(os.environ['WORLD_SIZE'])"
    (tmp_path / "rank.py").write_text(f"import os\nfrom pathlib import Path\n{rank}\n")
    (port,) = free_ports(1)
    command = ["sh", str(tmp_path / "start.sh"), "1", "2", "localhost", str(port), str(tmp_path / "rank.py")]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=150, env=environment)
    assert done.returncode == 0, done.stderr
    assert [(tmp_path / each).read_text() for each in ("0", "1")] == ["2", "2"]
