"""The child's own steps on a real disk, both engines: what they move is right, and what went wrong is found."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runners.aio.child import Child, classify
from runners.aio.engines import deepspeed_loads
from runners.aio.native import NativeEngine
from runners.aio.plain import Expected, aligned, edges, read_back, spots
from runners.aio.ranks import packed
from runners.runner import Failure
from runners.worker import Worker

pytestmark = pytest.mark.system
M = 1 << 20

SETTINGS = [
    {"block_size": M, "queue_depth": 8, "threads": 1, "single_submit": False, "overlap_events": True},
    {"block_size": 64 << 10, "queue_depth": 4, "threads": 4, "single_submit": True, "overlap_events": True},
    {"block_size": 3 * 4096, "queue_depth": 7, "threads": 2, "single_submit": False, "overlap_events": False},
    {"block_size": 64 << 10, "queue_depth": 1, "threads": 8, "single_submit": True, "overlap_events": False},
    {"block_size": 16 * M, "queue_depth": 256, "threads": 16, "single_submit": False, "overlap_events": True},
]


def expected(folder: Path, size: int, generation: int = 1, file: int = 3, sector: int = 512) -> Expected:
    return Expected(str(folder / "a file é.bin"), file, size, generation, sector)


def steps(ask: Callable[[dict[str, Any]], Any], kind: str, item: Expected, full: bool = True) -> Any:
    for request in (
        {"do": "ready", "kind": kind, "items": [packed(item)]},
        {"do": "go", "start": 0},
        {"do": "check", "full": [0] if full else [], "remove": False},
    ):
        reply = ask(request)
        if isinstance(reply, Failure) or "failure" in reply:
            return reply
    return reply


def native(setting: dict[str, Any], size: int) -> Child:
    child = Child()
    assert child.handle({"do": "load", "engine": "native", "events": 0})["versions"]
    assert child.handle({"do": "configure", "setting": setting, "sizes": [size], "seed": 1}) == {}
    return child


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("size", [4 * M, 8192])
def test_native_moves_every_sector(tmp_path: Path, setting: dict[str, Any], size: int) -> None:
    child = native(setting, size)
    try:
        for generation in (1, 2):
            item = expected(tmp_path, size, generation)
            assert steps(child.handle, "write", item) == {"fetched": size}
            assert steps(child.handle, "write", item, full=False)["fetched"] < 4096
            assert steps(child.handle, "read", item) == {"fetched": 0}
        # What plain reads see is what the engine's buffer holds, to the last byte.
        buffer = child._buffers[0][:size]
        assert Path(item.path).read_bytes() == buffer.tobytes()
    finally:
        child.close()


def test_one_planted_byte_is_found_by_reads_and_by_the_other_path(tmp_path: Path) -> None:
    child = native(SETTINGS[0], 4 * M)
    item = expected(tmp_path, 4 * M)
    assert steps(child.handle, "write", item) == {"fetched": 4 * M}
    with Path(item.path).open("r+b") as file:
        file.seek(1234 * 512)
        file.write(b"\x00")
        os.fsync(file.fileno())
    assert read_back(item, aligned(M)) == 1
    assert spots(item, [0, 1234 * 512], aligned(M)) == 1
    failure = steps(child.handle, "read", item)["failure"]
    assert failure["kind"] == "wrong"
    assert "1 of 8192 checked sectors (512 bytes) are wrong" in failure["reason"]
    child.close()


def test_a_read_that_delivers_the_old_content_is_wrong(tmp_path: Path) -> None:
    child = native(SETTINGS[0], M)
    assert "failure" not in steps(child.handle, "write", expected(tmp_path, M, 1))
    failure = steps(child.handle, "read", expected(tmp_path, M, 2))["failure"]
    assert failure["kind"] == "wrong"
    assert "2048 of 2048" in failure["reason"]
    child.close()


def test_a_file_that_is_short_or_was_never_made_is_wrong(tmp_path: Path) -> None:
    child = native(SETTINGS[0], M)
    item = expected(tmp_path, M)
    child.handle({"do": "ready", "kind": "write", "items": [packed(item)]})
    missing = child.handle({"do": "check", "full": [0], "remove": False})["failure"]
    assert (missing["kind"], "never made" in missing["reason"]) == ("wrong", True)
    child.handle({"do": "go", "start": 0})
    os.truncate(item.path, M - 512)
    short = child.handle({"do": "check", "full": [0], "remove": False})["failure"]
    assert (short["kind"], f"{M - 512} of {M} bytes" in short["reason"]) == ("wrong", True)
    os.truncate(item.path, M)
    hole = child.handle({"do": "check", "full": [0], "remove": False})["failure"]
    assert (hole["kind"], "1 of 2048" in hole["reason"]) == ("wrong", True)
    child.close()


def test_slices_off_the_sector_end_as_wrong_with_native(tmp_path: Path) -> None:
    setting = {**SETTINGS[0], "threads": 8}
    child = native(setting, 1_000_000)
    item = expected(tmp_path, 1_000_000)
    for kind in ("write", "read"):
        failure = steps(child.handle, kind, item)["failure"]
        assert failure["kind"] == "wrong", failure
        assert "DeepSpeed's op would report success" in failure["reason"]
    child.close()


def test_a_tensor_that_threads_do_not_divide(tmp_path: Path) -> None:
    child = native({**SETTINGS[0], "threads": 3}, M)
    assert steps(child.handle, "write", expected(tmp_path, M))["failure"]["kind"] == "infeasible"
    child.close()


def test_more_events_than_the_kernel_has(tmp_path: Path) -> None:
    child = Child()
    child.handle({"do": "load", "engine": "native", "events": 0})
    setting = {**SETTINGS[0], "queue_depth": 10**7}
    failure = child.handle({"do": "configure", "setting": setting, "sizes": [M], "seed": 1})["failure"]
    assert failure["kind"] == "infeasible"
    assert str(10**7) in failure["reason"]
    child.close()


def test_a_missing_folder_ends_one_setting_and_a_full_disk_the_run(tmp_path: Path) -> None:
    child = native(SETTINGS[0], M)
    failure = steps(child.handle, "write", expected(tmp_path / "none", M))["failure"]
    assert failure["kind"] == "environment"
    child.close()
    for number in (errno.ENOSPC, errno.EDQUOT):
        kind, reason = classify(OSError(number, os.strerror(number)))
        assert (kind, "disk is full" in reason) == ("environment", True)
    assert classify(OSError(errno.EIO, "x"))[0] == "environment"
    assert classify(OSError(errno.EINVAL, "x"))[0] == "infeasible"


def test_filling_writes_every_byte_to_the_disk(tmp_path: Path) -> None:
    child = Child()
    items = [expected(tmp_path, M + 512), Expected(str(tmp_path / "odd"), 4, 100_100, 9, 512)]
    assert child.handle({"do": "fill", "files": [packed(item) for item in items], "seed": 1}) == {}
    for item in items:
        assert Path(item.path).stat().st_size == item.size
        assert read_back(item, aligned(M)) == 0
        assert Path(item.path).stat().st_blocks * 512 >= item.size, "no holes"


@pytest.mark.parametrize(("size", "threads"), [(M, 1), (M, 8), (1_000_000, 8), (512, 1), (100, 3)])
def test_edges_are_sectors_of_the_file(size: int, threads: int) -> None:
    found = edges(size, threads, 512)
    assert found == sorted(set(found))
    assert found[0] == 0
    assert found[-1] == (size - 1) // 512 * 512
    assert all(offset % 512 == 0 and offset < size for offset in found)
    if threads == 8 and size == M:
        assert M // 8 in found
        assert M // 8 - 512 in found


def test_a_native_engine_leaves_no_events_reserved(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib\n"
        "from runners.aio.native import NativeEngine\n"
        "from runners.aio.engine import Setting\n"
        "engine = NativeEngine()\n"
        "for depth in (100, 200):\n"
        "    engine.configure(Setting(4096, depth, 4, False, True), [4096])\n"
        "engine.close()\n"
    )
    root = Path(__file__).parents[3]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, timeout=60, check=False).returncode == 0


def test_buffers_are_kept_while_they_are_large_enough() -> None:
    engine = NativeEngine()
    from runners.aio.engine import Setting

    setting = Setting(4096, 1, 1, False, True)
    large = engine.configure(setting, [8192, 4096])
    assert all(buffer.ctypes.data % 4096 == 0 for buffer in large)
    assert engine.configure(setting, [4096, 4096]) is large
    assert engine.configure(setting, [8192, 8192]) is not large
    assert [buffer.size for buffer in engine.configure(setting, [8192, 8192])] == [8192, 8192]
    assert np.shares_memory(large[0], large[0])
    engine.close()


# DeepSpeed's own op


@pytest.fixture(scope="module")
def deepspeed_path() -> str:
    state = deepspeed_loads()
    if not state.loads:
        pytest.skip(state.reason)
    return state.path


@pytest.fixture
def deepspeed(deepspeed_path: str) -> Any:
    worker = Worker("runners.aio.child", env={**os.environ, "PATH": deepspeed_path})
    try:
        reply = worker.call({"do": "load", "engine": "deepspeed", "events": 16384}, 120)
        assert "versions" in reply
        yield worker
    finally:
        worker.close()


def asker(worker: Worker) -> Callable[[dict[str, Any]], Any]:
    return lambda request: worker.call(request, 30)


@pytest.mark.slow
def test_deepspeed_moves_every_sector_and_its_lies_are_found(tmp_path: Path, deepspeed: Worker) -> None:
    ask = asker(deepspeed)
    for setting in SETTINGS:
        assert ask({"do": "configure", "setting": setting, "sizes": [4 * M], "seed": 1}) == {}
        for generation in (1, 2):
            item = expected(tmp_path, 4 * M, generation)
            assert steps(ask, "write", item) == {"fetched": 4 * M}
            assert steps(ask, "read", item) == {"fetched": 0}
        assert ask({"do": "release"}) == {}
    # A tensor whose slices are off the sector: the op reports success and moves nothing.
    odd = Expected(str(tmp_path / "odd.bin"), 5, 1_000_000, 1, 512)
    setting = {**SETTINGS[0], "threads": 8}
    assert ask({"do": "configure", "setting": setting, "sizes": [4 * M], "seed": 1}) == {}
    failure = steps(ask, "write", odd)["failure"]
    assert failure["kind"] == "wrong"
    assert "0 of 1000000 bytes" in failure["reason"]
    assert ask({"do": "fill", "files": [packed(odd)], "seed": 1}) == {}
    failure = steps(ask, "read", odd)["failure"]
    assert failure["kind"] == "wrong"
    assert "1954 of 1954" in failure["reason"]
    # A tail beyond the last sector never arrives.
    tail = Expected(str(tmp_path / "tail.bin"), 6, M + 100, 1, 512)
    assert ask({"do": "configure", "setting": SETTINGS[0], "sizes": [4 * M], "seed": 1}) == {}
    failure = steps(ask, "write", tail)["failure"]
    assert (failure["kind"], f"{M} of {M + 100} bytes" in failure["reason"]) == ("wrong", True)
    # Too many events: said before the op can abort over it.
    deep = {**SETTINGS[0], "queue_depth": 66000}
    failure = ask({"do": "configure", "setting": deep, "sizes": [4 * M], "seed": 1})["failure"]
    assert (failure["kind"], "132000" in failure["reason"]) == ("infeasible", True)
    # A read beyond the end of the file: a C assertion takes the process down, and that is a value.
    assert ask({"do": "configure", "setting": SETTINGS[0], "sizes": [4 * M], "seed": 1}) == {}
    os.truncate(tmp_path / "tail.bin", 512)
    answer = steps(ask, "read", tail)
    assert isinstance(answer, Failure)
    assert answer.kind == "crash"
    assert "SIGABRT" in answer.reason
    assert "Assertion" in answer.reason


@pytest.mark.slow
def test_deepspeed_aborts_over_its_queue_when_asked_directly(tmp_path: Path, deepspeed_path: str) -> None:
    (tmp_path / "raw_child.py").write_text(
        "from runners.worker import serve\n"
        "def handle(request):\n"
        "    import torch\n"
        "    from deepspeed.ops.op_builder import AsyncIOBuilder\n"
        "    handle = AsyncIOBuilder().load(verbose=False).aio_handle(1 << 20, 10**6, False, True, 1)\n"
        "    tensor = handle.new_cpu_locked_tensor(1 << 20, torch.empty(0, dtype=torch.uint8))\n"
        "    return {'result': handle.sync_pwrite(tensor, request['path'])}\n"
        "serve(handle)\n"
    )
    worker = Worker("raw_child", env={**os.environ, "PATH": deepspeed_path, "PYTHONPATH": str(tmp_path)})
    try:
        answer = worker.call({"path": str(tmp_path / "x.bin")}, 120)
    finally:
        worker.kill()
    assert isinstance(answer, Failure)
    assert answer.kind == "crash"
    assert "submit_ret > 0" in answer.reason
