"""The rank that times and checks calls: what it finds out about a library that lies, and how ranks find each other."""

import ctypes
import threading
from collections.abc import Callable
from typing import Any

import pytest

from runners.oneccl.rank import Rank, Wrong
from runners.oneccl.rank_library import CallFailed
from runners.oneccl.rank_values import expected, input_value
from runners.oneccl.rank_wire import Wire, meet


class Played:
    """An allreduce of two ranks of float32 in this process, right but for what ``spoil`` does to call number n."""

    def __init__(self, spoil: Callable[[int, int, int], int] = lambda _number, _address, _count: 0) -> None:
        self.spoil, self.number, self.salt = spoil, 0, 0

    def call(self, collective: str, send: int, receive: int, count: int, dtype: int) -> Callable[[], int]:
        def one() -> int:
            self.number += 1
            right = expected("allreduce", "float32", 0, 2, count, self.salt)
            assert right is not None
            ctypes.memmove(receive, right, len(right))
            return self.spoil(self.number, receive, count)

        return one


def rank(library: Played) -> Rank:
    made = Rank({"rank": 0, "ranks": 2, "collective": "allreduce", "dtype": "float32"})
    made.library, made.barrier = library, lambda: 0  # type: ignore[assignment]
    return made


def run(library: Played, count: int = 500, calls: int = 6, salt: int = 4) -> list[int]:
    library.salt = salt
    return rank(library).run(count, calls, salt)


def test_right_results_are_timed() -> None:
    times = run(Played())
    assert len(times) == 6
    assert all(time >= 0 for time in times)


def nothing(number: int, address: int, count: int) -> int:
    ctypes.memset(address, 0xA5, 4 * count)
    return 0


def one_call_did_nothing(number: int, address: int, count: int) -> int:
    return nothing(number, address, count) if number == 3 else 0


def one_element_is_off(number: int, address: int, count: int) -> int:
    ctypes.c_float.from_address(address + 4 * 77).value += 1
    return 0


def the_input_came_back(number: int, address: int, count: int) -> int:
    for index in range(count):
        ctypes.c_float.from_address(address + 4 * index).value = input_value(index, 0, 2, 4, 2**24)
    return 0


@pytest.mark.parametrize("lie", [nothing, one_call_did_nothing, one_element_is_off, the_input_came_back])
def test_a_lie_is_found(lie: Callable[[int, int, int], int]) -> None:
    with pytest.raises(Wrong, match="500 elements"):
        run(Played(lie))


def test_last_rounds_result_is_no_result() -> None:
    library = Played()
    library.salt = 4
    with pytest.raises(Wrong):
        rank(library).run(500, 2, 5)


def test_an_error_of_the_call_is_said() -> None:
    with pytest.raises(CallFailed, match="failed with result 11"):
        run(Played(lambda number, _address, _count: 11 if number == 2 else 0))


def _spec(number: int, token: str, ranks: int = 3) -> dict[str, Any]:
    return {"rank": number, "ranks": ranks, "token": token, "patience": 30, "host": "127.0.0.1", "port": 0}


@pytest.mark.parametrize("host", ["", "127.0.0.1"])
def test_ranks_meet_and_strangers_are_sent_away(host: str, free_port: int) -> None:
    import socket

    specs = [{**_spec(number, f"t{free_port}"), "host": host, "port": free_port} for number in range(3)]
    found: dict[int, list[Wire]] = {}
    leader = threading.Thread(target=lambda: found.update({0: meet(specs[0])}))
    leader.start()
    stranger = _knock(specs[0])
    stranger.sendall(b'{"token": "wrong", "rank": 1}\n')
    garbage = _knock(specs[0])
    garbage.sendall(b"GET / HTTP/1.1\n")
    others = [threading.Thread(target=lambda n=n: found.update({n: meet(specs[n])})) for n in (2, 1)]
    for thread in others:
        thread.start()
    for thread in (leader, *others):
        thread.join(60)
    for line in (stranger, garbage):
        line.settimeout(30)
        assert line.recv(1) == b""
        line.close()
    for number in (1, 2):
        found[0][number - 1].say({"to": number})
        assert found[number][0].hear() == {"to": number}
    for wires in found.values():
        for wire in wires:
            wire._file.close()
            wire._line.shutdown(socket.SHUT_RDWR)
            wire._line.close()
    with pytest.raises((EOFError, ValueError)):
        found[1][0].hear()


def _knock(spec: dict[str, Any]) -> Any:
    import socket
    import time

    deadline = time.monotonic() + 30
    while True:
        line = socket.socket(socket.AF_INET if spec["host"] else socket.AF_UNIX)
        try:
            line.connect((spec["host"], spec["port"]) if spec["host"] else "\0clustertune-" + spec["token"])
        except OSError:
            line.close()
            assert time.monotonic() < deadline
            time.sleep(0.01)
            continue
        return line


@pytest.fixture
def free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
