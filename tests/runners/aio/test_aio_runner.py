"""The whole runner on a real disk: every workload, every kind of failure, and nothing left behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import runners.aio.runner as module
from runners.aio import OPTIONS, create
from runners.aio.engines import choose, deepspeed_loads
from runners.aio.plan import Volume
from runners.aio.runner import AioRunner
from runners.lock import lock_device
from runners.runner import EnvironmentProblem, Failure, Measurement, Runner, UsageError
from spaces.aio import SPACE

pytestmark = pytest.mark.system
M = 1 << 20
BASE = {"block_size": 128 << 10, "queue_depth": 8, "intra_op_parallelism": 1, "single_submit": False, "overlap_events": True}


@pytest.fixture(autouse=True)
def _own_locks(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Locks of this test alone: the real ones would make tests that run at once refuse each other the disk."""
    folder = tmp_path_factory.mktemp("locks")
    monkeypatch.setattr(module, "lock_device", partial(lock_device, folder=folder))


def runner_on(*folders: Path, volume: Volume | None = None, **options: Any) -> AioRunner:
    given = {"device": [str(folder) for folder in folders], "engine": "native", "tensor_size": "1M", **options}
    made = create(OPTIONS(**given), SPACE)
    assert isinstance(made, AioRunner)
    assert isinstance(made, Runner)
    made.volume = volume or Volume(8 * M, 4 * M)
    return made


def children() -> list[int]:
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


def measured(outcome: object) -> Measurement:
    assert isinstance(outcome, Measurement), outcome
    return outcome


@pytest.mark.parametrize(
    ("workload", "share", "present", "absent"),
    [
        ("optimizer", None, {"read_gbs", "write_gbs"}, set()),
        ("param", None, {"read_gbs"}, {"write_gbs"}),
        ("inference", None, {"read_gbs"}, {"write_gbs"}),
        ("checkpoint", None, {"write_gbs"}, {"read_gbs"}),
        ("checkpoint", 0.2, {"read_gbs", "write_gbs"}, set()),
        ("param", 0.0, {"write_gbs"}, {"read_gbs"}),
    ],
)
def test_each_workload(tmp_path: Path, workload: str, share: float | None, present: set[str], absent: set[str]) -> None:
    folder = tmp_path / "a folder nvmé"
    folder.mkdir()
    with runner_on(folder, workload=workload, read_share=share) as runner:
        runner.prepare()
        assert (runner.bytes_prepared > 0) == (workload != "checkpoint" or share is not None)
        for threads in (1, 4, 1):
            outcome = measured(runner.measure({**BASE, "intra_op_parallelism": threads}, 30))
            assert present <= set(outcome.metrics)
            assert not absent & set(outcome.metrics)
            assert outcome.bytes_written == runner.bytes_per_measurement() == (4 * M if "write_gbs" in present else 0)
            assert len(outcome.samples) == 4
            assert min(outcome.samples) <= outcome.metrics["effective_gbs"] * 1.001
            assert max(outcome.samples) >= outcome.metrics["effective_gbs"] * 0.999
            moved = outcome.bytes_written + int(str(outcome.evidence["bytes_read"]))
            if threads == 4 or (present == {"read_gbs", "write_gbs"} and workload != "checkpoint"):
                assert outcome.evidence["bytes_verified"] == moved  # of a setting that is new, or is read after writing
            else:
                assert moved // 4 <= int(str(outcome.evidence["bytes_verified"])) <= moved
    assert list(folder.iterdir()) == []
    assert children() == []


def test_writes_of_a_new_setting_are_read_back_by_the_other_path(tmp_path: Path) -> None:
    with runner_on(tmp_path) as runner:
        runner.prepare()
        first, again = measured(runner.measure(BASE, 30)), measured(runner.measure(BASE, 30))
    assert int(str(first.evidence["bytes_read_back"])) >= M
    assert 0 < int(str(again.evidence["bytes_read_back"])) < M
    with runner_on(tmp_path, workload="checkpoint") as runner:
        runner.prepare()
        first, again = measured(runner.measure(BASE, 30)), measured(runner.measure(BASE, 30))
    assert first.evidence["bytes_read_back"] == 4 * M
    assert int(str(again.evidence["bytes_read_back"])) >= 4 * M // 4


def test_several_sizes_ranks_and_folders(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    with runner_on(*folders, ranks=3, tensor_size="1M,256K", volume=Volume(24 * M, 12 * M)) as runner:
        runner.prepare()
        outcome = measured(runner.measure(BASE, 30))
        assert outcome.bytes_written == 12 * M
        assert outcome.evidence["bytes_read"] == 24 * M
        devices = outcome.evidence["devices"]
        assert isinstance(devices, dict)
        assert set(devices) == {str(folder) for folder in folders}
        assert len(children()) == 3
        facts = runner.facts()
        assert facts["tensor_sizes"] == [M, M // 4]
        assert facts["ranks"] == 3
    assert [list(folder.iterdir()) for folder in folders] == [[], []]


@pytest.mark.parametrize(
    ("options", "option", "words"),
    [
        ({"device": []}, "device", "name a folder"),
        ({"device": ["/no/such/folder"]}, "device", "does not exist"),
        ({"read_share": 1.5}, "read-share", "from 0"),
        ({"read_share": float("nan")}, "read-share", "from 0"),
        ({"ranks": 0}, "ranks", "from 1 to 64"),
        ({"ranks": 65}, "ranks", "from 1 to 64"),
        ({"handles": 0}, "handles", "at least 1"),
        ({"tensor_size": "x"}, "tensor-size", "is not a size"),
        ({"tensor_size": "28824001"}, "tensor-size", "28824064 would be"),
        ({"tensor_size": "64M,100"}, "tensor-size", "512 would be"),
    ],
)
def test_wrong_options_are_refused_with_what_is_right(
    tmp_path: Path, options: dict[str, Any], option: str, words: str
) -> None:
    with pytest.raises(UsageError) as refused:
        runner_on(tmp_path, **options)
    assert refused.value.option == option
    assert words in str(refused.value)


def test_more_folders_than_ranks(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    with pytest.raises(UsageError, match="number of devices, 2"):
        runner_on(tmp_path, tmp_path / "b")


def test_illegal_settings_are_refused_before_anything_starts(tmp_path: Path) -> None:
    runner = runner_on(tmp_path)
    deep = runner.measure({**BASE, "queue_depth": 66000}, 30)
    assert isinstance(deep, Failure)
    assert deep.kind == "infeasible"
    assert "(1 threads + 1) x 66000 deep x 4 handles x 1 ranks = 528000" in deep.reason
    odd = runner_on(tmp_path, tensor_size="1000448").measure({**BASE, "intra_op_parallelism": 8}, 30)
    assert isinstance(odd, Failure)
    assert "512-byte sectors" in odd.reason
    assert children() == []


def test_a_time_limit_ends_it_and_the_next_goes_on(tmp_path: Path) -> None:
    with runner_on(tmp_path, volume=Volume(64 * M, 64 * M)) as runner:
        runner.prepare()
        begun = time.monotonic()
        late = runner.measure(BASE, 0.02)
        assert isinstance(late, Failure)
        assert late.kind == "timeout"
        assert "0.0 s" in late.reason
        assert time.monotonic() - begun < 2
        assert children() == []
        after = measured(runner.measure(BASE, 30))
        # What the killed one left torn was written anew, and counted.
        assert after.bytes_written >= runner.bytes_per_measurement()
        assert measured(runner.measure(BASE, 30)).bytes_written == runner.bytes_per_measurement()


def test_a_worker_that_hangs_is_a_timeout(tmp_path: Path) -> None:
    with runner_on(tmp_path, ranks=2) as runner:
        runner.prepare()
        os.kill(children()[0], signal.SIGSTOP)
        hung = runner.measure(BASE, 1.0)
        assert isinstance(hung, Failure)
        assert hung.kind == "timeout"
        measured(runner.measure(BASE, 30))


def test_a_worker_that_dies_is_a_crash(tmp_path: Path) -> None:
    with runner_on(tmp_path, ranks=2) as runner:
        runner.prepare()
        stopped = children()[0]
        os.kill(stopped, signal.SIGSTOP)
        with subprocess.Popen(
            [sys.executable, "-c", f"import os, time; time.sleep(0.5); os.kill({stopped}, 6); os.kill({stopped}, 18)"]
        ):
            crashed = runner.measure(BASE, 30)
        assert isinstance(crashed, Failure)
        assert crashed.kind == "crash"
        assert "SIGABRT" in crashed.reason
        measured(runner.measure(BASE, 30))


def damage(folder: Path, action: Callable[[Path], None]) -> None:
    for file in folder.rglob("*.bin"):
        action(file)


def one_sector(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.seek(512 * 1000)
        opened.write(bytes(512))
        os.fsync(opened.fileno())


def test_damaged_work_files_are_found_and_mended(tmp_path: Path) -> None:
    with runner_on(tmp_path, workload="param") as runner:
        runner.prepare()
        measured(runner.measure(BASE, 30))
        damage(tmp_path, one_sector)
        found = runner.measure(BASE, 30)
        assert isinstance(found, Failure)
        assert found.kind == "wrong"
        assert "of 4096 checked sectors" in found.reason
    with runner_on(tmp_path, workload="param") as runner:
        runner.prepare()
        damage(tmp_path, lambda file: os.truncate(file, 512 * 2000))
        short = runner.measure(BASE, 30)
        assert isinstance(short, Failure)
        assert short.kind == "wrong"


def test_files_that_were_wrong_are_whole_the_next_time_they_are_used(tmp_path: Path) -> None:
    with runner_on(tmp_path, workload="param", volume=Volume(4 * M, 0)) as runner:
        runner.prepare()
        place = sorted(tmp_path.rglob("*.bin"), key=lambda file: int(file.stem))[0]
        one_sector(place)
        assert isinstance(runner.measure(BASE, 30), Failure)
        for _ in range(200):  # once around all work files
            measured(runner.measure(BASE, 30))


def test_work_files_that_vanish_end_the_run(tmp_path: Path) -> None:
    with runner_on(tmp_path, workload="param") as runner:
        runner.prepare()
        damage(tmp_path, Path.unlink)
        gone = runner.measure(BASE, 30)
        assert isinstance(gone, Failure)
        assert gone.kind == "environment"


def test_the_device_is_ours_alone(tmp_path: Path) -> None:
    with runner_on(tmp_path) as first, runner_on(tmp_path) as second:
        first.prepare()
        with pytest.raises(EnvironmentProblem, match="tune aio --device"):
            second.prepare()
        first.close()
        second.prepare()
        measured(second.measure(BASE, 30))
    assert list(tmp_path.iterdir()) == []


def test_closing_is_harmless_at_any_time(tmp_path: Path) -> None:
    runner = runner_on(tmp_path)
    runner.close()
    runner.prepare()
    runner.prepare()
    runner.close()
    runner.close()
    assert list(tmp_path.iterdir()) == []
    assert children() == []


def test_a_killed_run_leaves_no_process_and_its_files_are_cleared_by_the_next(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from runners.aio import OPTIONS, create\n"
        "from spaces.aio import SPACE\n"
        "import functools, pathlib, runners.aio.runner as module\n"
        "module.lock_device = functools.partial(module.lock_device, folder=pathlib.Path(sys.argv[2]))\n"
        "runner = create(OPTIONS(device=[sys.argv[1]], engine='native', tensor_size='1M'), SPACE)\n"
        "runner.prepare()\n"
        "print(*(rank.worker.pid for rank in runner._ranks.ranks), flush=True)\n"
        "while True:\n"
        "    runner.measure(SPACE.default, 30)\n"
    )
    folder, locks = tmp_path / "disk", tmp_path / "locks"
    folder.mkdir()
    locks.mkdir()
    root = Path(__file__).parents[3]
    argv = [sys.executable, "-c", code, str(folder), str(locks)]
    with subprocess.Popen(argv, cwd=root, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        workers = [int(pid) for pid in process.stdout.readline().split()]
        time.sleep(0.3)
        process.kill()
    assert len(workers) == 1
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and any(running(pid) for pid in workers):
        time.sleep(0.01)
    assert not any(running(pid) for pid in workers)
    assert len(list(folder.iterdir())) == 1
    with runner_on(folder) as runner:
        runner.prepare()
        assert len(list(folder.iterdir())) == 1
    assert list(folder.iterdir()) == []


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_rate_above_the_links_is_never_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.figures, "ceiling", lambda _devices: 0.0001)
    with runner_on(tmp_path) as runner:
        runner.prepare()
        doubted = runner.measure(BASE, 30)
    assert isinstance(doubted, Failure)
    assert doubted.kind == "wrong"
    assert "implausible" in doubted.reason


@pytest.mark.root
def test_a_nearly_full_disk_shrinks_the_work_or_refuses(make_mount: Callable[..., Any]) -> None:
    disk = make_mount("small", size_mb=160).path
    with runner_on(disk, tensor_size="64M", volume=Volume(64 * M, 64 * M)) as runner:
        runner.prepare()
        assert runner.bytes_prepared == 64 * M
        measured(runner.measure(BASE, 30))
    filler = disk / "filler"
    filler.write_bytes(bytes(60 * M))
    with runner_on(disk, tensor_size="64M") as runner, pytest.raises(EnvironmentProblem, match=f"needs {128 * M}"):
        runner.prepare()
    assert [path for path in disk.iterdir() if path.name.startswith(".clustertune")] == []


@pytest.mark.root
@pytest.mark.parametrize("engine", ["native", pytest.param("deepspeed", marks=pytest.mark.slow)])
def test_a_disk_that_fills_up_during_the_run_ends_it(make_mount: Callable[..., Any], engine: str) -> None:
    if engine == "deepspeed" and not deepspeed_loads().loads:
        pytest.skip("the op is not built")
    disk = make_mount("filling", size_mb=200).path
    with runner_on(disk, workload="checkpoint", tensor_size="8M", volume=Volume(0, 32 * M), engine=engine) as runner:
        runner.prepare()
        measured(runner.measure(BASE, 60))
        with pytest.raises(OSError, match="No space"):
            (disk / "other").write_bytes(bytes(400 * M))
        full = runner.measure(BASE, 60)
        assert isinstance(full, Failure)
        assert full.kind == "environment", full
        assert "full" in full.reason
        (disk / "other").unlink()
        measured(runner.measure(BASE, 60))


@pytest.mark.root
def test_a_drive_with_4096_byte_sectors(make_mount: Callable[..., Any]) -> None:
    """16 MiB + 4096 bytes: fine in one slice, corrupted without a word in four (slices end within a sector)."""
    disk = make_mount("4kn", size_mb=250, sector=4096).path
    with pytest.raises(UsageError, match="4096-byte sectors"):
        runner_on(disk, tensor_size="16777728")
    with runner_on(disk, tensor_size="16781312", volume=Volume(0, 0)) as runner:
        runner.prepare()
        refused = runner.measure({**BASE, "intra_op_parallelism": 4}, 30)
        assert isinstance(refused, Failure)
        assert refused.kind == "infeasible"
        assert "4096-byte sectors" in refused.reason
        measured(runner.measure(BASE, 30))


@pytest.mark.root
def test_slices_off_a_4096_byte_sector_are_found_when_the_rules_are_passed_by(make_mount: Callable[..., Any]) -> None:
    disk = make_mount("4kn", size_mb=250, sector=4096).path
    with runner_on(disk, tensor_size="16781312", volume=Volume(0, 0)) as runner:
        runner.prepare()
        runner.space = SPACE  # without this machine's rules
        found = runner.measure({**BASE, "intra_op_parallelism": 4}, 30)
        assert isinstance(found, Failure)
        assert found.kind == "wrong"
        measured(runner.measure(BASE, 30))


def test_the_engine_is_chosen_with_its_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert choose("native", 0).name == "native"
    # Nothing is built here, and nothing to build it with.
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    state = deepspeed_loads()
    assert not state.loads
    if state.builds:
        chosen = choose("auto", 0)
        assert chosen.name == "native"
        assert "--engine deepspeed builds it" in chosen.reason
        assert choose("deepspeed", 0).build > 0
    monkeypatch.setenv("CXX", "no-such-compiler")
    lacking = deepspeed_loads()
    assert not lacking.loads
    assert not lacking.builds
    assert choose("auto", 0).reason == lacking.reason
    with pytest.raises(EnvironmentProblem) as refused:
        choose("deepspeed", 0)
    assert refused.value.mend


def test_too_little_locked_memory_is_said_before_deepspeed_can_abort(monkeypatch: pytest.MonkeyPatch) -> None:
    if not deepspeed_loads().loads:
        pytest.skip("the op is not built")
    from runners.aio import engines
    from runners.limits import Memlock

    monkeypatch.setattr(engines, "memlock", lambda: Memlock(8 * M, 8 * M, False))
    assert choose("deepspeed", 8 * M).name == "deepspeed"
    with pytest.raises(EnvironmentProblem, match="memlock") as refused:
        choose("deepspeed", 64 * M)
    assert "memlock" in refused.value.mend
    chosen = choose("auto", 64 * M)
    assert chosen.name == "native"
    assert "memlock" in chosen.reason


@pytest.mark.slow
def test_deepspeeds_own_op_end_to_end(tmp_path: Path) -> None:
    state = deepspeed_loads()
    if not state.loads:
        pytest.skip(state.reason)
    with runner_on(tmp_path, engine="auto", ranks=2) as runner:
        assert runner.engine == "deepspeed"
        assert "built" in runner.engine_reason
        runner.prepare()
        for threads in (1, 4, 16, 1):
            measured(runner.measure({**BASE, "intra_op_parallelism": threads}, 60))
        facts = runner.facts()
        assert facts["engine"] == "deepspeed"
        assert facts["deepspeed"]
        assert facts["torch"]
    assert list(tmp_path.iterdir()) == []
    assert children() == []
