"""Mounts on several client hosts: real sshd, real mounts and reads on two of them at once, hit while they read."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.alluxio_fuse import make_home
from support.rig import Rig, RigHost, rig
from support.store import Store, store

pytestmark = [pytest.mark.system, pytest.mark.root]

MIB = 1 << 20
HOSTS = ("hbA", "hbB")
MINE = "# ours\nalluxio.user.position.reader.streaming.async.prefetch.thread=32\ns3a.secretKey=not-to-be-shown-4711\n"
NARROW = ["--vfs-read-chunk-streams", "0,4", "--vfs-read-chunk-size", "4M", "--buffer-size", "0,16M", "--async-read", "true",
          "--max-read-ahead", "128K"]  # fmt: skip
FIO = ["--load", "fio", "--jobs", "1", "--read-time", "1s"]


@dataclass
class Cluster:
    """Two hosts, and a store on the first that both can reach. ``tune`` runs on the first."""

    rig: Rig
    store: Store
    scratch: Path

    def words(self, target: str, *more: str) -> list[str]:
        ssh = shlex.join(self.rig.ssh)
        return [target, "--hosts", ",".join(HOSTS), "--ssh", ssh, "--python", sys.executable, "--scratch", str(self.scratch),
                *FIO, *more]  # fmt: skip

    def rclone(self, *more: str) -> list[str]:
        return self.words("rclone", "--remote", "slow:data", "--config", str(self.store.config), *NARROW, *more)

    def start(self, words: Sequence[str], storage: Path) -> subprocess.Popen[str]:
        command = [*self.rig[0].inside, sys.executable, "-m", "tuner", *words, "--storage", str(storage)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=storage.parent)

    def tune(self, words: Sequence[str], storage: Path, limit: float = 200) -> tuple[int, str, str]:
        process = self.start(words, storage)
        try:
            out, err = process.communicate(timeout=limit)
        finally:
            process.kill()
        assert "Traceback" not in err, err
        return process.returncode, out, err

    def reading(self, storage: Path) -> bool:
        """Whether a study is under way and both hosts have mounted."""
        return storage.exists() and len({line.split()[0] for line in self.mounts()}) == len(HOSTS)

    def mounts(self) -> list[str]:
        return [
            f"{host.name} {line.split()[1]}"
            for host in self.rig.hosts
            for line in host.run("cat", "/proc/mounts").splitlines()
            if str(self.scratch) in line
        ]

    def clean(self) -> bool:
        left = [line for host in self.rig.hosts for line in host.processes("CLUSTERTUNE_JOB")]
        return not left and not self.mounts() and not list(self.scratch.iterdir())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("rig")
    with rig(folder) as made, store(tmp_path_factory.mktemp("store"), host=made[0]) as shop:
        for number in range(2):
            shop.add(f"part{number}.bin", 32 * MIB)
        scratch = folder / "s"
        scratch.mkdir()
        yield Cluster(made, shop, scratch)


def until(true: Callable[[], object], limit: float = 60.0) -> None:
    deadline = time.monotonic() + limit
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def controllers(host: RigHost) -> list[int]:
    """The `tune` processes of a host, by its own numbers."""
    code = (
        "import os\n"
        "for pid in filter(str.isdigit, os.listdir('/proc')):\n"
        "    line = open(f'/proc/{pid}/cmdline').read().split('\\0')\n"
        "    if line[1:3] == ['-m', 'tuner']:\n"
        "        print(pid)\n"
    )
    return [int(each) for each in host.run(sys.executable, "-c", code).split()]


def test_two_hosts_mount_and_read_at_the_same_time(cluster: Cluster, tmp_path: Path) -> None:
    code, out, err = cluster.tune(cluster.rclone("--trials", "24", "--time", "3m", "--json"), tmp_path / "s.db")
    assert code == 0, err
    answer = json.loads(out)
    assert answer["recommended"]["vfs_read_chunk_streams"] == 4
    measured = answer["evidence"]["measured"]["hosts"]
    assert list(measured) == list(HOSTS)
    for host in HOSTS:
        assert measured[host]["bytes_from_store"] >= 0.9 * measured[host]["bytes_read"] > 0
    figures = [measured[host]["metrics"]["read_mib_s"] for host in HOSTS]
    assert sum(figures) > 1.5 * max(figures)
    assert answer["machine"]["hosts"] == list(HOSTS)
    assert cluster.clean()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_whatever_ends_a_study_nothing_stays_on_the_hosts(cluster: Cluster, tmp_path: Path, how: signal.Signals) -> None:
    process = cluster.start(cluster.rclone("--time", "10m", "--study", "cut"), tmp_path / "s.db")
    try:
        until(lambda: cluster.reading(tmp_path / "s.db"))
        (pid,) = controllers(cluster.rig[0])
        cluster.rig[0].run("kill", f"-{int(how)}", str(pid))
        process.communicate(timeout=60)
    finally:
        process.kill()
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert cluster.clean()
    else:
        until(cluster.clean)
        code, _, err = cluster.tune(["resume", "cut", "--time", "20s"], tmp_path / "s.db")
        assert code in (0, 3, 5), err
        assert cluster.clean()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_what_hosts_have_generated_goes_however_the_study_ends(cluster: Cluster, tmp_path: Path, how: signal.Signals) -> None:
    remote = tmp_path / "remote"
    remote.mkdir()
    words = [*cluster.words("rclone", "--remote", str(remote), *NARROW), "--read-time", "5s", "--generate", "32M"]
    process = cluster.start([*words, "--time", "10m"], tmp_path / "s.db")
    try:
        until(lambda: len(list(remote.iterdir())) == len(HOSTS) and cluster.reading(tmp_path / "s.db"))
        time.sleep(3)
        (pid,) = controllers(cluster.rig[0])
        cluster.rig[0].run("kill", f"-{int(how)}", str(pid))
        process.communicate(timeout=90)
    finally:
        process.kill()
    if how == signal.SIGKILL:
        until(lambda: not list(remote.iterdir()) and cluster.clean(), 90)
    assert list(remote.iterdir()) == []
    assert cluster.clean()


def test_a_host_that_goes_away_is_named(cluster: Cluster, tmp_path: Path) -> None:
    process = cluster.start(cluster.rclone("--time", "10m", "--study", "lost", "--json"), tmp_path / "s.db")
    try:
        until(lambda: cluster.reading(tmp_path / "s.db"))
        cluster.rig.link(cluster.rig[1], up=False)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
        cluster.rig.link(cluster.rig[1], up=True)
    assert process.returncode == 4, err
    error = json.loads(out)["error"]
    assert "hbB" in error["message"], error
    until(cluster.clean, 90)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--load", "unet3d", "--tune-reader", "--load-option", "dlio_python=/no/python"], "/no/python"),
        (["--remote", "nowhere:data"], "nowhere"),
        (["--data", "none/*"], "--data none/*: names no file"),
        (["--scratch", "/no/such/folder"], "--scratch /no/such/folder: is no folder that exists"),
        (["--ssh", "no-such-ssh"], "--ssh no-such-ssh: is no program"),
        (["--python", "no-such-python"], "no-such-python can't be started"),
    ],
)
def test_what_can_not_be_is_told_in_a_sentence(cluster: Cluster, tmp_path: Path, more: list[str], said: str) -> None:
    code, out, err = cluster.tune([*cluster.rclone("--time", "1m"), *more], tmp_path / "s.db")
    assert code in (2, 4), err
    assert said in err, err
    assert out == ""
    assert cluster.clean()


def test_the_doctor_looks_at_every_host(cluster: Cluster, tmp_path: Path) -> None:
    words = ["doctor", *cluster.words("rclone", "--remote", "slow:data", "--config", str(cluster.store.config)), "--json"]
    command = [*cluster.rig[0].inside, sys.executable, "-m", "tuner", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, cwd=tmp_path)
    problems = json.loads(done.stdout)["problems"]
    assert not [each for each in problems if each["severity"] == "error"], problems
    wrong = ["--rclone", "/bin/true"]
    done = subprocess.run([*command, *wrong], capture_output=True, text=True, timeout=100, check=False, cwd=tmp_path)
    (error,) = [each for each in json.loads(done.stdout)["problems"] if each["severity"] == "error"]
    assert error["message"].startswith("every host: /bin/true is not rclone")


def test_one_machine_under_two_names_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"x" * MIB)
    words = ["rclone", "--remote", str(tmp_path), "--hosts", "localhost,127.0.0.1", "--python", sys.executable, *FIO]
    command = [sys.executable, "-m", "tuner", *words, "--trials", "1", "--storage", str(tmp_path / "s.db")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, cwd=tmp_path)
    assert "localhost and 127.0.0.1 are one machine" in " ".join(done.stderr.split())


# -- Alluxio -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def alluxio(cluster: Cluster, tmp_path: Path) -> Iterator[dict[str, Path]]:
    """Each host's own Alluxio, where it is found without a word; its mount is up. By host, its site file."""
    sites = {}
    for host in cluster.rig.hosts:
        home = make_home(tmp_path / host.name / "alluxio", "enterprise", "3.6", cluster.store.config, "slow:data")
        sites[host.name] = home / "conf/alluxio-site.properties"
        sites[host.name].write_text(MINE)
        sites[host.name].chmod(0o600)
        host.run("mount", "-t", "tmpfs", "none", "/opt")
        host.run("mkdir", "/opt/alluxio", "/opt/mnt")
        host.run("mount", "--bind", home, "/opt/alluxio")
        host.run("/opt/alluxio/dora/integration/fuse/bin/alluxio-fuse", "mount", "s3://training/", "/opt/mnt")
    yield sites
    for host in cluster.rig.hosts:
        script = "/opt/alluxio/dora/integration/fuse/bin/alluxio-fuse"
        host.run(script, "unmount", "/opt/mnt", check=False)
        host.run("umount", "--lazy", "/opt", check=False)


def as_before(cluster: Cluster, sites: dict[str, Path]) -> bool:
    for host in cluster.rig.hosts:
        site = sites[host.name]
        if site.read_text() != MINE or [path.name for path in site.parent.iterdir()] != [site.name]:
            return False
        if "part0.bin" not in host.run("timeout", "10", "ls", "/opt/mnt", check=False):
            return False
    return True


def test_alluxio_is_put_back_on_every_host_however_its_study_ends(
    cluster: Cluster, alluxio: dict[str, Path], tmp_path: Path
) -> None:
    words = cluster.words("alluxio", "--mount", "/opt/mnt", "--part-length", "1M,4M", "--max-part-number", "1,8")
    code, out, err = cluster.tune([*words, "--trials", "24", "--time", "3m", "--json"], tmp_path / "s.db")
    assert code in (0, 3), err
    measured: dict[str, Any] = json.loads(out)["evidence"]["measured"]["hosts"]
    assert list(measured) == list(HOSTS)
    assert as_before(cluster, alluxio)
    for how in (signal.SIGINT, signal.SIGKILL):
        process = cluster.start([*words, "--time", "10m", "--study", f"cut{int(how)}"], tmp_path / "s.db")
        try:
            until(lambda: all(site.read_text() != MINE for site in alluxio.values()))
            time.sleep(2)
            (pid,) = controllers(cluster.rig[0])
            cluster.rig[0].run("kill", f"-{int(how)}", str(pid))
            process.communicate(timeout=90)
        finally:
            process.kill()
        if how == signal.SIGKILL:
            until(lambda: as_before(cluster, alluxio), 90)
        assert as_before(cluster, alluxio)


def test_hosts_that_share_a_site_file_are_refused(cluster: Cluster, alluxio: dict[str, Path], tmp_path: Path) -> None:
    shared = alluxio["hbA"]
    words = cluster.words("alluxio", "--mount", "/opt/mnt", "--site-file", str(shared), "--time", "1m")
    code, _, err = cluster.tune(words, tmp_path / "s.db")
    assert code == 4
    assert f"hbA and hbB share {shared}" in err
    assert as_before(cluster, alluxio)


def test_a_mount_that_one_host_can_not_make_is_a_failure_of_all(cluster: Cluster, tmp_path: Path) -> None:
    """One host's rclone ends at once when it is to mount with many streams: no host reads then, and the search goes on."""
    words = cluster.rclone("--rclone", unable(tmp_path, "echo no >&2; exit 3"), "--trials", "24", "--time", "3m", "--json")
    code, out, err = cluster.tune(words, tmp_path / "s.db")
    answer = json.loads(out)
    assert code in (0, 3), err
    assert answer["recommended"]["vfs_read_chunk_streams"] == 0
    assert answer["failures"]["crash"] >= 1
    assert cluster.clean()


def test_a_program_that_dies_while_others_mount_ends_the_study(cluster: Cluster, tmp_path: Path) -> None:
    words = cluster.rclone("--rclone", unable(tmp_path, "kill -9 $PPID"), "--time", "3m", "--json")
    code, out, err = cluster.tune(words, tmp_path / "s.db")
    assert code == 4, err
    assert json.loads(out)["error"]["message"].startswith("hbB: ")
    until(cluster.clean)


def unable(folder: Path, act: str) -> str:
    """An rclone that does ``act`` on the second host when it is to mount with four streams."""
    program = folder / "rclone"
    real = shlex.quote(str(Path(sys.executable).with_name("rclone")))
    program.write_text(f'#!/bin/sh\ncase "$(hostname) $*" in *hbB*chunk-streams=4*) {act};; esac\nexec {real} "$@"\n')
    program.chmod(0o755)
    return str(program)
