"""What a process really has is read from the kernel: threads' CPUs, memory's nodes, others' load; real processes here."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from runners.xft.engines import live, placing
from runners.xft.engines.oneshot import MODULES, report_of
from runners.xft.engines.sending import command

CORES = sorted(os.sched_getaffinity(0))


def sent(text: str) -> Any:
    """What a process of its own prints as JSON: a memory policy would stay with this one."""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_memory_policy_that_was_set_is_read_back_and_pages_follow_it() -> None:
    told = sent(
        "import json,os\nfrom runners.xft.engines import live,placing\n"
        "placing.set_memory('bind',[0])\nkept=bytearray(64<<20)\nkept[::4096]=b'x'*len(kept[::4096])\n"
        "print(json.dumps([placing.memory(),live.memory_nodes(os.getpid())]))"
    )
    policy, pages = told
    assert policy == {"policy": "bind", "nodes": [0]}
    assert pages["0"] >= 64 << 20


@pytest.mark.parametrize("policy", ["prefer", "interleave"])
def test_other_policies_are_read_back_too(policy: str) -> None:
    told = sent(
        "import json\nfrom runners.xft.engines import placing\n"
        f"placing.set_memory({policy!r},[0])\nprint(json.dumps(placing.memory()))"
    )
    assert told == {"policy": policy, "nodes": [0]}


def test_a_node_that_is_not_there_is_refused_in_words() -> None:
    with pytest.raises(placing.CantPlace, match=r"memory can't be placed \(bind 777\): "):
        placing.set_memory("bind", [777])
    with pytest.raises(placing.CantPlace, match="there is no memory node 5000"):
        placing.set_memory("bind", [5000])
    assert placing.memory() == {"policy": "default", "nodes": []}


def test_each_threads_own_cpus_are_told() -> None:
    ready, done = threading.Event(), threading.Event()

    def pinned() -> None:
        os.sched_setaffinity(0, CORES[-1:])
        ready.set()
        done.wait(30)

    thread = threading.Thread(target=pinned)
    thread.start()
    try:
        assert ready.wait(30)
        found = live.threads(os.getpid())
    finally:
        done.set()
        thread.join()
    assert found[os.getpid()]["cpus"] == CORES
    assert thread.native_id is not None
    assert found[thread.native_id]["cpus"] == CORES[-1:]


def test_time_that_threads_ran_is_told_and_how_busy_their_cpus_were() -> None:
    watch = live.Watch(os.getpid())
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
    told = watch.report()
    ran = sum(thread["seconds"] for thread in told["threads"])
    assert 0.2 < ran < 5
    assert set(told["busy"]) == {str(cpu) for cpu in CORES}
    assert sum(told["busy"].values()) >= 0.2


def watched(argv: list[str], **spec: Any) -> subprocess.CompletedProcess[str]:
    told = {"argv": argv, "cwd": "", "memory": {"policy": "none", "nodes": []}, **spec}
    words = command(sys.executable, MODULES, base64.b64encode(json.dumps(told).encode()).decode())
    return subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=60, env={**os.environ, "OMP_NUM_THREADS": "7"}
    )


def test_a_watched_program_keeps_its_output_and_status_and_is_reported() -> None:
    busy = "import time;e=time.process_time()+0.3\nwhile time.process_time()<e: pass\nprint('out');raise SystemExit(3)"
    done = watched([sys.executable, "-c", busy], memory={"policy": "bind", "nodes": [0]})
    assert (done.returncode, done.stdout) == (3, "out\n")
    report = report_of(done.stderr)
    assert report is not None
    assert report["cpus"] == CORES
    assert report["memory"] == {"policy": "bind", "nodes": [0]}
    assert report["omp"]["OMP_NUM_THREADS"] == "7"
    assert max(thread["seconds"] for thread in report["threads"]) > 0.1


def test_a_watched_program_that_a_signal_ends_ends_its_watcher_so() -> None:
    import signal

    done = watched([sys.executable, "-c", "import os;os.kill(os.getpid(), 4)"])
    assert done.returncode == -signal.SIGILL


def test_what_can_not_be_started_or_placed_is_said() -> None:
    done = watched(["/no/such/program"])
    assert done.returncode == 127
    assert "/no/such/program can't be started: No such file" in done.stderr
    done = watched([sys.executable, "-c", "print(1)"], memory={"policy": "bind", "nodes": [900]})
    assert done.returncode == 4
    assert "can't place: memory can't be placed (bind 900)" in done.stderr
    assert done.stdout == ""
