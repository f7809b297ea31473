import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from runners.runner import Failure
from runners.worker import Worker, gather, last_words

pytestmark = pytest.mark.system

CHILD = """
import ctypes, os, subprocess, sys, time
from runners.worker import serve

def handle(request):
    do = request["do"]
    if do == "echo":
        print("noise on standard output", flush=True)
        os.write(1, b"more noise\\n")
        return {"echo": request["value"]}
    if do == "sleep":
        time.sleep(request["seconds"])
        return {}
    if do == "hang":
        helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        print("helper", helper.pid, flush=True)
        time.sleep(600)
    if do == "abort":
        os.write(2, b"x.cpp:12: void f(): Assertion `submit_ret > 0' failed.\\n")
        os.abort()
    if do == "divide":
        os.kill(os.getpid(), 8)
    if do == "raise":
        raise RuntimeError("no such thing")
    if do == "exit":
        os._exit(5)
    if do == "chatter":
        for _ in range(20000):
            print("a rather long line of output that nobody reads", file=sys.stderr)
        return {"said": True}
    return {"pid": os.getpid(), "session": os.getsid(0)}

def close():
    if "MARK" in os.environ:
        open(os.environ["MARK"], "w").write("closed")

serve(handle, close)
"""


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    (tmp_path / "planted_child.py").write_text(textwrap.dedent(CHILD))
    with ExitStack() as stack:

        def start(**env: str) -> Worker:
            worker = Worker("planted_child", env={**os.environ, "PYTHONPATH": str(tmp_path), **env})
            stack.callback(worker.kill)
            return worker

        yield start


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and alive(pid):
        time.sleep(0.01)
    return not alive(pid)


def test_answers_are_not_garbled_by_what_libraries_print(make: Callable[..., Worker]) -> None:
    worker = make()
    for value in ("a", "ü\n\u2028", [1, {"b": None}]):
        assert worker.call({"do": "echo", "value": value}, 20) == {"echo": value}
    assert "more noise" in worker.log or worker.call({"do": "pid"}, 20)


def test_it_has_a_session_of_its_own(make: Callable[..., Worker]) -> None:
    worker = make()
    assert worker.call({"do": "who"}, 20) == {"pid": worker.pid, "session": worker.pid}


def test_a_hang_is_ended_at_its_limit_with_what_it_started(make: Callable[..., Worker]) -> None:
    worker = make()
    assert isinstance(worker.call({"do": "who"}, 20), dict)
    began = time.monotonic()
    answer = worker.call({"do": "hang"}, 1.0)
    assert isinstance(answer, Failure)
    assert answer.kind == "timeout"
    assert time.monotonic() - began < 3
    helper = int(answer.log.split("helper ")[1].split()[0])
    assert gone(worker.pid)
    assert gone(helper)
    assert not worker.alive


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ("abort", "the worker was ended by SIGABRT: Assertion `submit_ret > 0' failed"),
        ("divide", "the worker was ended by SIGFPE"),
        ("raise", "the worker ended with status 1: RuntimeError: no such thing"),
        ("exit", "the worker ended with status 5"),
    ],
)
def test_a_death_is_a_value_that_says_why(make: Callable[..., Worker], request_: str, reason: str) -> None:
    worker = make()
    answer = worker.call({"do": request_}, 20)
    assert isinstance(answer, Failure)
    assert (answer.kind, answer.reason) == ("crash", reason)
    again = worker.call({"do": "echo", "value": 1}, 5)
    assert isinstance(again, Failure), "a dead worker stays dead"


def test_a_worker_killed_from_outside(make: Callable[..., Worker]) -> None:
    worker = make()
    assert isinstance(worker.call({"do": "who"}, 20), dict)
    os.kill(worker.pid, signal.SIGKILL)
    answer = worker.call({"do": "who"}, 20)
    assert isinstance(answer, Failure)
    assert "SIGKILL" in answer.reason


def test_a_program_that_can_not_start(tmp_path: Path) -> None:
    worker = Worker("no_such_module_here")
    answer = worker.call({"do": "who"}, 20)
    assert isinstance(answer, Failure)
    assert answer.kind == "crash"
    assert "no_such_module_here" in answer.log


def test_much_output_neither_blocks_nor_piles_up(make: Callable[..., Worker]) -> None:
    worker = make()
    assert worker.call({"do": "chatter"}, 30) == {"said": True}
    assert 0 < len(worker.log) <= 16384


def test_several_work_at_once_by_one_deadline(make: Callable[..., Worker]) -> None:
    workers = [make() for _ in range(3)]
    for worker in workers:
        assert isinstance(worker.call({"do": "who"}, 20), dict)
    began = time.monotonic()
    workers[0].send({"do": "sleep", "seconds": 0.6})
    workers[1].send({"do": "hang"})
    workers[2].send({"do": "sleep", "seconds": 0.6})
    first, second, third = gather(workers, 2.0)
    assert time.monotonic() - began < 4
    assert first == third == {}
    assert isinstance(second, Failure)
    assert second.kind == "timeout"
    assert [worker.alive for worker in workers] == [True, False, True]


def test_an_interruption_kills_those_at_work_so_that_no_late_answer_is_mistaken(
    make: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = make()
    assert isinstance(worker.call({"do": "who"}, 20), dict)
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            worker.call({"do": "sleep", "seconds": 5}, 20)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert gone(worker.pid)


def test_closing_lets_it_tidy_up(make: Callable[..., Worker], tmp_path: Path) -> None:
    worker = make(MARK=str(tmp_path / "mark"))
    assert isinstance(worker.call({"do": "who"}, 20), dict)
    worker.close()
    assert (tmp_path / "mark").read_text() == "closed"
    assert gone(worker.pid)
    worker.close()


def test_it_dies_with_us_even_in_the_middle_of_a_hang(tmp_path: Path, make: Callable[..., Worker]) -> None:
    code = (
        "import os, sys, pathlib\n"
        "from runners.worker import Worker\n"
        "worker = Worker('planted_child')\n"
        "worker.call({'do': 'who'}, 30)\n"
        "worker.send({'do': 'sleep', 'seconds': 600})\n"
        "pathlib.Path(sys.argv[1]).write_text(str(worker.pid))\n"
        "worker.call({'do': 'who'}, 600)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "pid")],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and not (tmp_path / "pid").exists():
        time.sleep(0.01)
    time.sleep(0.3)
    pid = int((tmp_path / "pid").read_text())
    assert alive(pid)
    parent.kill()
    parent.wait()
    assert gone(pid)


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("", ""),
        ("a\nb: int f(): Assertion `x' failed.\nc\n", "Assertion `x' failed"),
        ("Traceback (most recent call last):\n  File x\nValueError: bad\nbye\n", "ValueError: bad"),
        ("terminate called without an active exception\n", "terminate called without an active exception"),
        ("just talk\n", ""),
    ],
)
def test_last_words(log: str, words: str) -> None:
    assert last_words(log) == words
