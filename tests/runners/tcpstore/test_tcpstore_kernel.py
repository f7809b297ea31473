"""Backlogs that are raised for a while: noted before, put back, by the next start at the latest; others' stay."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runners.runner import EnvironmentProblem
from runners.tcpstore import kernel
from runners.tcpstore.kernel import NAMES, Backlogs

ROOT = Path(__file__).parents[3]


class Host:
    """A stand-in for /proc/sys, and a state folder."""

    def __init__(self, folder: Path) -> None:
        self.sysctl, self.state = folder / "sys", folder / "state" / "clustertune"
        self.set(net_core=128, net_ipv4=512)

    def set(self, **values: int) -> None:
        for name, value in zip(NAMES, values.values(), strict=True):
            place = self.sysctl / name.replace(".", "/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(f"{value}\n")

    @property
    def values(self) -> tuple[int, ...]:
        return tuple(kernel.present(self.sysctl).values())

    @property
    def journals(self) -> list[Path]:
        return list(self.state.iterdir()) if self.state.exists() else []

    def backlogs(self) -> Backlogs:
        return Backlogs(self.state, self.sysctl)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_raised_and_put_back(host: Host) -> None:
    backlogs = host.backlogs()
    backlogs.at_least(0)
    assert host.values == (128, 512)
    assert host.journals == []
    backlogs.at_least(400)
    assert host.values == (400, 512)
    backlogs.at_least(4096)
    assert host.values == (4096, 4096)
    (journal,) = host.journals
    assert json.loads(journal.read_text())["before"] == dict(zip(NAMES, (128, 512), strict=True))
    backlogs.at_least(0)
    backlogs.put_back()
    assert host.values == (128, 512)
    assert host.journals == []


def test_long_enough_is_left_alone(host: Host) -> None:
    host.backlogs().at_least(100)
    assert host.values == (128, 512)
    assert host.journals == []


def killed_after_raising(host: Host) -> None:
    code = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom runners.tcpstore.kernel import Backlogs\n"
        "Backlogs(Path(sys.argv[1]), Path(sys.argv[2])).at_least(4096)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(host.state), str(host.sysctl)], cwd=ROOT, check=False)
    assert done.returncode == -9
    assert host.values == (4096, 4096)


def test_the_next_start_puts_back_what_a_killed_one_left(host: Host) -> None:
    killed_after_raising(host)
    assert kernel.clear(host.state, host.sysctl) == []
    assert host.values == (128, 512)
    assert host.journals == []


def test_what_somebody_set_since_stays(host: Host) -> None:
    killed_after_raising(host)
    host.set(net_core=8192, net_ipv4=4096)
    assert kernel.clear(host.state, host.sysctl) == []
    assert host.values == (8192, 512)


def test_a_living_run_s_backlogs_are_its_own(host: Host) -> None:
    backlogs = host.backlogs()
    backlogs.at_least(4096)
    assert kernel.clear(host.state, host.sysctl) == []
    assert host.values == (4096, 4096)
    with pytest.raises(EnvironmentProblem, match="another run holds it"):
        host.backlogs().at_least(8192)
    assert host.values == (4096, 4096)
    backlogs.put_back()
    assert host.values == (128, 512)


def test_a_fork_puts_nothing_back(host: Host) -> None:
    backlogs = host.backlogs()
    backlogs.at_least(4096)
    child = os.fork()
    if child == 0:
        backlogs.put_back()
        os._exit(0)
    os.waitpid(child, 0)
    assert host.values == (4096, 4096)
    backlogs.put_back()
    assert host.values == (128, 512)


def test_another_boot_s_journal_changes_nothing(host: Host) -> None:
    killed_after_raising(host)
    (journal,) = host.journals
    journal.write_text(json.dumps({**json.loads(journal.read_text()), "boot": "another"}))
    assert kernel.clear(host.state, host.sysctl) == []
    assert host.values == (4096, 4096)
    assert host.journals == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"boot": 1}', '{"before": {"net.core.somaxconn": -5}}', "\0" * 1024])
def test_a_journal_is_data(host: Host, text: str) -> None:
    killed_after_raising(host)
    (journal,) = host.journals
    journal.write_text(text)
    assert kernel.clear(host.state, host.sysctl) == []
    assert host.values == (4096, 4096)


def test_without_a_journal_nothing_is_changed(host: Host) -> None:
    host.state.parent.mkdir(parents=True)
    host.state.write_text("a file where the folder should be")
    with pytest.raises(EnvironmentProblem, match="nothing was changed, because what to put back can't be noted in"):
        host.backlogs().at_least(4096)
    assert host.values == (128, 512)


def test_no_rights_are_one_sentence(host: Host, as_nobody) -> None:  # type: ignore[no-untyped-def]
    for name in NAMES:
        (host.sysctl / name.replace(".", "/")).chmod(0o644)
    for folder in (host.sysctl, *host.sysctl.parents):
        if not folder.stat().st_mode & 0o001:
            folder.chmod(0o755)
    said = as_nobody(lambda: kernel.refusal(4096, host.sysctl))
    assert said == "net.core.somaxconn is 128 and this user may not change it"
    assert kernel.refusal(100, host.sysctl) == ""
