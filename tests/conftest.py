"""Real file systems on loop devices, for tests that need a disk of a certain kind; all of it is undone, also on failure."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.rig import Rig, rig

# Programs that tests start find what is installed beside this Python first, as those that make starts do: two ninjas that
# take turns compile DeepSpeed's op anew each time, minutes each.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


# Started by nohup or in the background, we ignore these, and so would every program that a test interrupts.
for _number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)


@dataclass(frozen=True)
class Mounted:
    path: Path
    device: str


MakeMount = Callable[..., Mounted]


def run(*arguments: str | Path) -> str:
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise RuntimeError(f"{arguments}: {done.stderr}")
    return done.stdout.strip()


@pytest.fixture
def undo() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def make_mount(tmp_path: Path, undo: ExitStack) -> MakeMount:
    """Mounts a new file system: make_mount("name", size_mb=60, sector=4096, fs="ext4", options="ro")."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount")

    def make(name: str = "disk", *, size_mb: int = 60, sector: int = 512, fs: str = "ext4", options: str = "rw") -> Mounted:
        point = tmp_path / name
        point.mkdir(parents=True)
        if fs in ("tmpfs", "ramfs"):
            size = [] if fs == "ramfs" else ["-o", f"size={size_mb}m,{options}"]
            mount(undo, "-t", fs, *size, "none", point)
            return Mounted(point, "")
        image = tmp_path / f"{len(list(tmp_path.iterdir()))}.img"
        with image.open("wb") as file:
            file.truncate(size_mb << 20)
        try:
            device = run("losetup", "--find", "--show", "--sector-size", str(sector), image)
        except (OSError, RuntimeError) as error:
            pytest.skip(f"no loop device can be made here: {error}")
        undo.callback(subprocess.run, ["losetup", "--detach", device], capture_output=True, timeout=60)
        run("mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", device)
        mount(undo, "-o", options, device, point)
        return Mounted(point, device)

    return make


def mount(undo: ExitStack, *arguments: str | Path) -> None:
    try:
        run("mount", *arguments)
    except (OSError, RuntimeError) as error:
        pytest.skip(f"mounting is not allowed here: {error}")
    undo.callback(subprocess.run, ["umount", "--lazy", str(arguments[-1])], capture_output=True, timeout=60)


@pytest.fixture
def make_bind(undo: ExitStack) -> Callable[[Path, Path], Path]:
    """Shows a folder at another place: make_bind(folder, point)."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount")

    def make(folder: Path, point: Path) -> Path:
        point.mkdir(parents=True)
        mount(undo, "--bind", folder, point)
        return point

    return make


@pytest.fixture
def as_nobody() -> Callable[[Callable[[], str]], str]:
    """Runs a function as an unprivileged user, in a fork, and gives its answer (or its exception) as text."""
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user")

    def call(function: Callable[[], str]) -> str:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
                answer = function()
            except BaseException as error:
                answer = repr(error)
            os.write(writer, answer.encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            answer = pipe.read()
        os.waitpid(child, 0)
        return answer

    return call


@pytest.fixture
def make_rig(tmp_path: Path, undo: ExitStack) -> Callable[..., Rig]:
    """Hosts of the test's own in network namespaces: make_rig(("hbA", "hbB"), rate="1gbit", shm="256m")."""
    return lambda *arguments, **options: undo.enter_context(rig(tmp_path, *arguments, **options))


@pytest.fixture
def two_hosts(make_rig: Callable[..., Rig]) -> Rig:
    return make_rig()
