"""An object store behind a slow link, here or on a host of a rig: `rclone serve s3` behind a proxy that waits and throttles.

The kernel here may have no netem, so a small TCP proxy adds the time to the first byte of each answer and a rate for each
connection. JuiceFS volumes are formatted on it. Everything is undone on leaving, also after a failure.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from runners.process import die_with
from support.rig import RigHost

BUCKET = "data"
_PROXY = Path(__file__).with_name("slow_proxy.py")
_META = "sqlite3://{}"


@dataclass
class Store:
    """A store with one bucket, whose files lie in ``folder``. ``port`` is the slow way in, ``direct`` the quick one."""

    root: Path
    port: int
    direct: int
    address: str
    undo: ExitStack = field(repr=False)

    @property
    def folder(self) -> Path:
        return self.root / "objects" / BUCKET

    @property
    def config(self) -> Path:
        """An rclone.conf with the remotes ``slow`` and ``quick``, and a secret that must turn up nowhere."""
        return self.root / "rclone.conf"

    def add(self, name: str, size: int) -> None:
        """A file of ``size`` bytes that neither compresses nor repeats."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for start in range(0, size, 1 << 20):
                file.write(os.urandom(min(1 << 20, size - start)))

    def juicefs(self, files: dict[str, int], *, block: str = "4M") -> str:
        """A volume on the store with ``files`` in it; its META-URL. Written by the quick way, read by the slow one."""
        juicefs = program("juicefs")
        meta = _META.format(self.root / "meta.db")
        bucket = f"http://{self.address}:{{}}/volume"
        (self.root / "objects" / "volume").mkdir()
        run(juicefs, "format", "--storage", "minio", "--bucket", bucket.format(self.direct), "--block-size", block,
            "--trash-days", "0", "--access-key", "any", "--secret-key", SECRET, meta, "volume")  # fmt: skip
        source = self.root / "source"
        source.mkdir()
        for name, size in files.items():
            (source / name).write_bytes(os.urandom(size))
        run(juicefs, "sync", "--quiet", f"{source}/", "jfs://VOLUME/", env={"VOLUME": meta})
        shutil.rmtree(source)
        run(juicefs, "config", meta, "--bucket", bucket.format(self.port), "--yes")
        return meta


SECRET = "not-to-be-shown-4711"


def program(name: str) -> str:
    """A program of a wheel beside this Python, or the PATH's; the test is skipped where there is none."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed (pip install {name}-bin)")
    return found


def run(*arguments: str, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        arguments, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **(env or {})}
    )
    if done.returncode:
        raise RuntimeError(f"{arguments}: {done.stdout}{done.stderr}")
    return done.stdout


def can_mount() -> bool:
    return os.access("/dev/fuse", os.R_OK | os.W_OK) and shutil.which("fusermount3") is not None


@contextmanager
def store(
    root: Path, *, delay: float = 0.020, rate: float = 15e6, link: float = 0.0, host: RigHost | None = None
) -> Iterator[Store]:
    """``delay`` seconds to an answer's first byte, ``rate`` bytes a second for a connection, ``link`` for all (0: any).

    On ``host`` it is reached from all hosts of its rig.
    """
    address, inside = (host.address, host.inside) if host is not None else ("127.0.0.1", ())
    rclone = program("rclone")
    if not can_mount():
        pytest.skip("FUSE can't be used here")
    (root / "objects" / BUCKET).mkdir(parents=True)
    with ExitStack() as undo:
        direct, slow = free_port(), free_port()
        _start(undo, root, *inside, rclone, "serve", "s3", "--addr", f"{address}:{direct}", "--config", "/dev/null",
               "--vfs-cache-mode", "off", "--dir-cache-time", "1s", "--etag-hash", "", str(root / "objects"))  # fmt: skip
        numbers = [str(each) for each in (slow, direct, delay, rate, link)]
        _start(undo, root, *inside, sys.executable, str(_PROXY), *numbers, address)
        for port in (direct, slow):
            _answers(inside, address, port)
        made = Store(root, slow, direct, address, undo)
        remotes = (("slow", slow), ("quick", direct))
        made.config.write_text(
            "".join(
                f"[{name}]\ntype = s3\nprovider = Rclone\nendpoint = http://{address}:{port}\nuse_multipart_uploads = false\n"
                f"description = {SECRET}\n\n"
                for name, port in remotes
            )
        )
        yield made


def _start(undo: ExitStack, root: Path, *arguments: str) -> None:
    log = undo.enter_context((root / f"{Path(arguments[0]).name}.log").open("ab"))
    process = subprocess.Popen(
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        preexec_fn=die_with(os.getpid()),
    )

    def end() -> None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    undo.callback(end)


def free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        port = asked.getsockname()[1]
    assert isinstance(port, int)
    return port


def _answers(inside: Sequence[str], address: str, port: int) -> None:
    knock = f"import socket; socket.create_connection(({address!r}, {port}), 1).close()"
    for _ in range(200):
        done = subprocess.run([*inside, sys.executable, "-c", knock], capture_output=True, timeout=20, check=False)
        if done.returncode == 0:
            return
        time.sleep(0.05)
    raise RuntimeError(f"nothing answers on {address}, port {port}")
