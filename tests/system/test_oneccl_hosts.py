"""`tune oneccl` across two hosts of the test's own: real ranks over a 1 Gbit/s link, what hangs, and a host that goes away."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from support.rig import Rig

from runners.launch.marks import MARK
from runners.oneccl.checks import of_setup
from runners.oneccl.options import Options
from runners.oneccl.runner import CclRunner
from runners.oneccl.setup import Setup
from runners.runner import EnvironmentProblem, Failure, Measurement, UsageError
from spaces.oneccl import SPACE

pytestmark = [pytest.mark.system, pytest.mark.root]
BASE = SPACE.default
PATIENCE = 60.0


def setup(rig: Rig, **options: Any) -> Setup:
    given = {"hosts": ",".join(rig.names), "ppn": 1, "pin": "0,1", "sizes": "1K,1M", **options}
    return Setup.of(Options(ssh=shlex.join(rig.ssh), python=sys.executable, **given), before=rig[0].inside)


def left(rig: Rig) -> list[str]:
    """Processes of any job on the hosts, once they have had time to go."""
    deadline = time.monotonic() + PATIENCE
    while (found := [line for host in rig.hosts for line in host.processes(MARK)]) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def test_real_ranks_over_the_link_and_what_hangs_between_them(two_hosts: Rig) -> None:
    of = setup(two_hosts)
    with CclRunner(of, SPACE) as runner:
        assert of.network.iface == "", "one interface needs no name"
        assert of.network.address == two_hosts[0].address
        assert of.learned.provider == "tcp"
        assert of.learned.cpus == ((0,), (1,))
        plain = runner.measure(BASE, PATIENCE)
        assert isinstance(plain, Measurement), plain
        assert plain.evidence["provider"] == "tcp"
        assert plain.metrics["gbs_1M"] < 0.2, "1 Gbit/s, and what its shaper lets through at once"
        direct = runner.measure({**BASE, "algorithm_large": "direct", "algorithm_medium": "direct"}, PATIENCE)
        assert isinstance(direct, Measurement), direct
        assert direct.evidence["algorithms"] == {"1K": "ring", "1M": "direct"}
        refused = runner.measure({**BASE, "provider": "shm"}, PATIENCE)
        assert isinstance(refused, Failure)
        assert "does not leave a host" in refused.reason
        hung = of.starter.start({"FI_TCP_IFACE": "lo"}, 8)
        assert isinstance(hung, Failure), hung
        assert hung.kind == "timeout", hung
        assert "FI_TCP_IFACE=lo" in hung.reason
        lost = of.starter.start({"FI_PROVIDER": "shm"}, 8)  # MPI waits for ever, or sees that it has no address: by chance
        assert isinstance(lost, Failure), lost
        assert lost.kind in ("timeout", "infeasible"), lost
        again = runner.measure(BASE, PATIENCE)
        assert isinstance(again, Measurement), "the study goes on"
    assert left(two_hosts) == []
    assert [host.run("ls", "/dev/shm").split() for host in two_hosts.hosts] == [[], []]


def test_what_hangs_once_is_not_tried_with_every_other_knob(two_hosts: Rig) -> None:
    of = setup(two_hosts, sizes="1K")
    with CclRunner(of, SPACE) as runner:
        runner.prepare()
        assert isinstance(runner.measure(BASE, PATIENCE), Measurement)
        started: list[dict[str, str]] = []
        really = of.jobs._start

        def start(env: Any, limit: float) -> Any:
            started.append(dict(env))
            # What oneCCL itself would be told of a card that the other host is not behind.
            return really({**env, "FI_TCP_IFACE": "lo"} if env.get("CCL_ATL_TRANSPORT") == "ofi" else env, min(limit, 8))

        of.jobs._start = start
        first = runner.measure({**BASE, "transport": "ofi"}, PATIENCE)
        assert isinstance(first, Failure)
        assert first.kind == "timeout", first
        assert len(started) == 1
        second = runner.measure({**BASE, "transport": "ofi", "algorithm_small": "ring"}, PATIENCE)
        assert isinstance(second, Failure)
        assert (second.kind, second.reason) == ("timeout", first.reason)
        assert len(started) == 1
    assert left(two_hosts) == []


def test_interfaces_are_checked_against_those_of_the_hosts(two_hosts: Rig) -> None:
    with pytest.raises(UsageError, match=r"--iface eth99: hbA has no such interface; hbA has .*e0.*; hbB has .*e0"):
        _ = setup(two_hosts, iface="eth99").network
    forced = setup(two_hosts, iface="lo", sizes="1K")
    with pytest.raises(EnvironmentProblem, match="did not come together within") as caught:
        of_setup(forced)
    assert "lo may not reach the other hosts" in caught.value.mend
    named = setup(two_hosts, iface="e0", sizes="1K")
    assert named.interface() == {"CCL_KVS_IFACE": "e0", "FI_TCP_IFACE": "e0"}
    assert named.learned.provider == "tcp"
    assert left(two_hosts) == []


def test_shared_memory_that_is_too_small_is_named(make_rig: Any) -> None:
    """Ranks of one host move large messages through /dev/shm and die without a word when it is full."""
    small = make_rig(("hbA",), shm="1m")
    with CclRunner(setup(small, ppn=2, pin="", sizes="4M"), SPACE) as runner:
        assert [each.id for each in of_setup(runner._setup)] == ["oneccl-shm"]
        died = runner.measure(BASE, PATIENCE)
        assert isinstance(died, Failure)
        assert "SIGBUS" in died.reason
        assert "remount,size=2G /dev/shm" in died.reason
    assert left(small) == []


def test_what_dies_for_one_size_is_a_failure_of_its_settings_and_not_of_the_machine(make_rig: Any) -> None:
    """Where /dev/shm holds small messages and not large ones, only settings that move the large ones can't be measured."""
    small = make_rig(("hbA",), shm="1m")
    options = {"ppn": 2, "pin": "", "sizes": "1K,4M"}
    with CclRunner(setup(small, **options), SPACE.narrow({"transport": "default"})) as runner:
        runner.prepare()
        died = runner.measure(BASE, PATIENCE)
        assert isinstance(died, Failure)
        assert died.kind == "infeasible", died
        assert "default fails for 4194304 bytes here" in died.reason
        assert "SIGBUS" in died.reason
        assert runner._proofs.of("mpi").against([(1024, "default"), (1024, "ring")]) == ""
    assert left(small) == []


# -- the whole command, on the first host ------------------------------------------------------------------------------

SMALL = ("--sizes", "1K", "--algorithm-small", "default,direct,recursive_doubling", "--transport", "default", "--provider",
         "default", "--fabrics", "default", "--worker-offload", "default", "--worker-count", "1", "--yield", "pause",
         "--spin-count", "default", "--chunk-count", "1", "--fusion", "false", "--pinning", "default")  # fmt: skip


def command(rig: Rig, folder: Path, *words: str) -> list[str]:
    name = ("env", f"CLUSTERTUNE_STORAGE={folder / 'studies.db'}", sys.executable, "-m", "tuner")
    return [*rig[0].inside, *name, *words]


def test_a_host_that_goes_away_ends_the_study_and_it_goes_on_when_it_is_back(two_hosts: Rig, tmp_path: Path) -> None:
    way = ("--hosts", ",".join(two_hosts.names), "--ppn", "1", "--pin", "0,1", "--ssh", shlex.join(two_hosts.ssh))
    words = ("oneccl", *way, "--python", sys.executable, *SMALL, "--time", "5m", "--trials", "30", "--study", "lost")
    out = (tmp_path / "out.txt").open("w")
    with out, subprocess.Popen(command(two_hosts, tmp_path, *words, "--events", "--json"), stdout=out, stderr=subprocess.PIPE,
                               text=True) as run:  # fmt: skip
        assert run.stderr is not None
        seen = 0
        told: list[str] = []
        for line in run.stderr:
            told.append(line)
            seen += '"measured"' in line
            if seen == 6:
                two_hosts.link(two_hosts[1], up=False)
                break
        rest = threading.Thread(target=lambda: told.extend(run.stderr or ()))
        rest.start()
        run.wait(timeout=150)
        rest.join(PATIENCE)
    two_hosts.link(two_hosts[1], up=True)
    answer = json.loads((tmp_path / "out.txt").read_text())
    assert run.returncode == 4, "".join(told)
    assert answer["error"]["kind"] == "environment"
    assert "hbB" in answer["error"]["message"]
    assert "resume" in answer["error"]["mend"]
    assert left(two_hosts) == []
    again = command(two_hosts, tmp_path, "resume", "lost", "--json")
    back = subprocess.run(again, capture_output=True, text=True, check=False, timeout=280)
    assert back.returncode in (0, 3), back.stderr
    finished = json.loads(back.stdout)
    assert finished["trials"] > 6
    assert finished["machine"]["hosts"] == ["hbA", "hbB"]
    assert left(two_hosts) == []
