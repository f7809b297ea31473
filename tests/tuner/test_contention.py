"""Whose work the CPUs did: ours, or that of others."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tuner.contention import Contention

_SPIN = "import time\nend = time.monotonic() + 1.0\nwhile time.monotonic() < end: pass"


def spin(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


@pytest.mark.system
def test_own_work_and_that_of_children_is_not_contention() -> None:
    """A stranger's second is counted in full, our own is not; on a shared machine others add to both."""
    shares = {}
    for who in ("own", "stranger"):
        contention = Contention()
        if who == "own":
            spin(0.5)
            subprocess.run([sys.executable, "-c", _SPIN], check=True)
        else:
            # Its parent leaves at once, so that it is nobody's child of ours.
            script = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {_SPIN!r}])"
            subprocess.run([sys.executable, "-c", script], check=True)
            time.sleep(1.2)
        shares[who] = contention.others()
    assert shares["own"] is not None
    assert shares["stranger"] is not None
    assert shares["stranger"] > 0.1
    assert all(0 <= share <= 1 for share in shares.values() if share is not None)


def test_what_cannot_be_known_is_none(tmp_path: Path) -> None:
    assert Contention(tmp_path).others() is None
    (tmp_path / "stat").write_text("cpu garbage\n")
    assert Contention(tmp_path).others() is None


def test_shares_from_a_known_tree(tmp_path: Path) -> None:
    root, own = tmp_path, os.getpid()

    def write(cpu: str, ticks: dict[int, tuple[int, int]]) -> None:
        (root / "stat").write_text(f"cpu  {cpu}\ncpu0 1\n")
        for pid, (parent, used) in ticks.items():
            (root / str(pid)).mkdir(exist_ok=True)
            (root / str(pid) / "stat").write_text(f"{pid} (a) b) S {parent} " + "0 " * 9 + f"{used} 0 0 0 0\n")

    write("100 0 100 800 0 0 0 0", {own: (1, 50), 900001: (own, 10), 900002: (1, 5)})
    contention = Contention(root)
    write("200 0 150 950 50 0 0 50", {own: (1, 80), 900001: (own, 30), 900002: (1, 100)})
    assert contention.others() == pytest.approx((200 - 50) / 400)
