"""Jobs on many hosts that are asked at the same time end together when the one who asks is interrupted."""

import os
import signal
import sys
import threading
import time
from types import FrameType

import pytest

from runners.hosts.host import Host
from runners.launch.direct import Local
from runners.launch.job import Job, Rank
from runners.launch.marks import holders
from runners.launch.together import Together
from runners.runner import Failure

pytestmark = pytest.mark.system

HERE = Host("localhost")
LONG = 300.0


class Stopped(Exception):
    pass


def job(code: str) -> Job:
    return Job((Rank(HERE, (sys.executable, "-c", code)),), LONG)


def test_answers_come_in_the_order_of_the_questions() -> None:
    together = Together()

    def ask(number: int) -> str | Failure:
        with together.start(Local(), job("print(3 * int(input()))")) as running:
            return running.ask(str(number), LONG)

    assert together.each(ask, range(5)) == ["0", "3", "6", "9", "12"]
    assert together.each(ask, ()) == []


def test_an_interruption_ends_all_of_them_at_once() -> None:
    together, asked = Together(), [job("import time; time.sleep(1000)") for _ in range(3)]

    def ask(each: Job) -> str | Failure:
        with together.start(Local(), each) as running:
            return running.ask("are you there?", LONG)

    def interrupt() -> None:
        while not all(holders(each.token) for each in asked):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGUSR1)  # to the process, as Ctrl-C is: raised here it would not wake the main thread

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise Stopped

    before = signal.signal(signal.SIGUSR1, stop)
    thread = threading.Thread(target=interrupt)
    begun = time.monotonic()
    try:
        thread.start()
        with pytest.raises(Stopped):
            together.each(ask, asked)
    finally:
        signal.signal(signal.SIGUSR1, before)
        thread.join()
    assert time.monotonic() - begun < LONG / 2, "nobody waited for the jobs' own limit"
    assert not any(holders(each.token) for each in asked)
