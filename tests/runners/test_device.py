"""The folder checks, the mount table and what sysfs says, on fixture trees and on real devices."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.blocks import device_id_of, inspect_block, node_of, other_io, related_ids
from runners.device import check_folder, inspect, supports_o_direct
from runners.mounts import Mount, mount_of, mount_points, parse_mounts, unescape
from runners.runner import UsageError

PLAIN = b"27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n"


def escape(path: bytes) -> bytes:
    return b"".join(b"\\%03o" % c if c in b" \t\n\\#" else bytes([c]) for c in path)


# --- the mount table


@given(st.binary(min_size=1, max_size=60).filter(lambda path: b"\0" not in path))
def test_every_path_comes_back_from_the_mount_table(path: bytes) -> None:
    line = b"40 27 8:1 / /" + escape(path) + b" rw - ext4 /dev/sda1 rw\n"
    (mount,) = parse_mounts(line)
    assert os.fsencode(mount.point) == b"/" + path
    assert (mount.device_id, mount.fs_type, mount.source) == ("8:1", "ext4", "/dev/sda1")


@given(st.binary(max_size=300))
def test_garbage_in_the_mount_table_is_left_out(text: bytes) -> None:
    assert parse_mounts(text + b"\n" + PLAIN)[-1].point == "/"


def test_optional_fields_and_an_empty_source_are_read() -> None:
    lines = (
        b"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 shared:7 - ext3 /dev/root rw,errors=continue\n"
        b"37 35 0:50 / /mnt/empty ro - tmpfs  rw,size=4k\n"
    )
    first, second = parse_mounts(lines)
    assert (first.root, first.point, first.options, first.source) == ("/mnt1", "/mnt2", ("rw", "noatime"), "/dev/root")
    assert (second.source, second.super_options, second.read_only, second.kind) == ("", ("rw", "size=4k"), True, "memory")


def test_an_escape_is_octal_and_a_lone_backslash_stays() -> None:
    assert unescape(rb"a\040b\134c\011d\9") == "a b\\c\td\\9"


def entry(point: str, device_id: str = "8:1", fs_type: str = "ext4", root: str = "/") -> Mount:
    return Mount(device_id, root, point, ("rw",), fs_type, "/dev/x", ("rw",))


def test_the_longest_mount_point_wins_and_siblings_do_not_match() -> None:
    mounts = [entry("/"), entry("/mnt"), entry("/mnt/nvme", "8:2"), entry("/mnt/nvme2", "8:3")]
    found = mount_of(Path("/mnt/nvme2/x"), mounts)
    assert found is not None
    assert found.point == "/mnt/nvme2"
    found = mount_of(Path("/mnt/nvm"), mounts)
    assert found is not None
    assert found.point == "/mnt"


def test_a_mount_hidden_by_a_later_one_is_not_taken() -> None:
    mounts = [entry("/"), entry("/mnt/deep", "8:2"), entry("/mnt", "8:3")]
    found = mount_of(Path("/mnt/deep"), mounts, device_id="8:3")
    assert found is not None
    assert found.point == "/mnt"


def test_of_two_mounts_on_one_point_the_later_counts() -> None:
    found = mount_of(Path("/mnt"), [entry("/mnt", "8:2"), entry("/mnt", "8:3")])
    assert found is not None
    assert found.device_id == "8:3"


def test_an_anonymous_number_falls_back_to_the_longest_point() -> None:
    mounts = [entry("/", "8:1"), entry("/data", "0:41", "btrfs")]
    found = mount_of(Path("/data/subvolume/x"), mounts, device_id="0:57")
    assert found is not None
    assert found.fs_type == "btrfs"


def test_whole_file_systems_are_named_before_bind_mounts() -> None:
    mounts = [entry("/b", "8:5", root="/inner"), entry("/mnt/long name", "8:5"), entry("/z", "8:6")]
    assert mount_points(["8:5"], mounts) == ["/mnt/long name", "/b"]


@pytest.mark.parametrize(
    ("fs_type", "kind"),
    [
        ("ext4", "local"),
        ("xfs", "local"),
        ("nfs4", "network"),
        ("lustre", "network"),
        ("overlay", "overlay"),
        ("fuse.fuse-overlayfs", "overlay"),
        ("tmpfs", "memory"),
        ("fuse.sshfs", "fuse"),
        ("fuseblk", "fuse"),
    ],
)
def test_kinds_of_file_systems(fs_type: str, kind: str) -> None:
    assert entry("/", fs_type=fs_type).kind == kind


# --- sysfs, as trees of the shapes that real machines have


def put(path: Path, **files: str | int) -> Path:
    for name, text in files.items():
        file = path / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    return path


def register(sysfs: Path, node: Path, number: str) -> None:
    put(node, dev=number)
    for link in (sysfs / "dev/block" / number, sysfs / "class/block" / node.name):
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(node)


def queue(sector: int = 512, rotational: int = 0) -> dict[str, str | int]:
    return {
        "queue__logical_block_size": sector,
        "queue__physical_block_size": 4096,
        "queue__rotational": rotational,
        "queue__max_sectors_kb": 512,
        "queue__scheduler": "[none] mq-deadline",
    }


def nvme(sysfs: Path, number: int, model: str = "Samsung SSD 980 PRO 1TB", speed: str = "16.0 GT/s PCIe") -> Path:
    bridge = put(sysfs / f"devices/pci0000:00/0000:00:0{number}.0", current_link_speed="8.0 GT/s PCIe", current_link_width=16)
    pci = put(bridge / f"0000:0{number}:00.0", current_link_speed=speed, current_link_width=4, numa_node=number % 2)
    controller = put(pci / f"nvme/nvme{number}", model=f"{model}      ", transport="pcie")
    disk = put(controller / f"nvme{number}n1", **queue())
    (disk / "device").symlink_to(controller)
    register(sysfs, disk, f"259:{number * 10}")
    return disk


def test_an_nvme_drive(tmp_path: Path) -> None:
    nvme(tmp_path, 1)
    block = inspect_block("259:10", tmp_path)
    assert block is not None
    assert (block.name, block.model, block.transport) == ("nvme1n1", "Samsung SSD 980 PRO 1TB", "nvme")
    assert (block.sector, block.physical_sector, block.max_sectors_kb) == (512, 4096, 512)
    assert (block.scheduler, block.rotational, block.numa_node) == ("none", False, 1)
    assert (block.link, block.ceiling_gbs) == ("PCIe 16.0 GT/s x4", 7.88)


def test_a_narrow_slot_above_the_drive_is_the_limit(tmp_path: Path) -> None:
    nvme(tmp_path, 1)
    put(tmp_path / "devices/pci0000:00/0000:00:01.0", current_link_speed="5.0 GT/s PCIe", current_link_width=2)
    block = inspect_block("259:10", tmp_path)
    assert block is not None
    assert (block.link, block.ceiling_gbs) == ("PCIe 5.0 GT/s x2", 1.0)


@pytest.mark.parametrize("model", ["QEMU NVMe Ctrl", "Amazon Elastic Block Store", "nvme_card-pd"])
def test_a_link_that_exists_only_on_paper_is_no_ceiling(tmp_path: Path, model: str) -> None:
    nvme(tmp_path, 1, model)
    block = inspect_block("259:10", tmp_path)
    assert block is not None
    assert block.ceiling_gbs is None


def test_an_unknown_link_speed_is_no_ceiling(tmp_path: Path) -> None:
    nvme(tmp_path, 1, speed="Unknown")
    put(tmp_path / "devices/pci0000:00/0000:00:01.0", current_link_speed="Unknown", current_link_width=0)
    block = inspect_block("259:10", tmp_path)
    assert block is not None
    assert block.ceiling_gbs is None


def test_a_partition_is_its_whole_disk(tmp_path: Path) -> None:
    disk = nvme(tmp_path, 1)
    register(tmp_path, put(disk / "nvme1n1p2", partition=2), "259:12")
    block = inspect_block("259:12", tmp_path)
    assert block is not None
    assert (block.name, block.device_id) == ("nvme1n1", "259:10")
    assert device_id_of("/dev/nvme1n1p2", tmp_path) == "259:12"


def raid(tmp_path: Path) -> Path:
    """LVM on a striped set of two partitions of two drives, and on a third drive."""
    stripe = put(tmp_path / "devices/virtual/block/md0", **queue(), md__level="raid0")
    for number in (1, 2):
        part = put(nvme(tmp_path, number) / f"nvme{number}n1p1", partition=1)
        register(tmp_path, part, f"259:{number * 10 + 1}")
        for folder, name, target in ((stripe / "slaves", part.name, part), (part / "holders", "md0", stripe)):
            folder.mkdir(exist_ok=True)
            (folder / name).symlink_to(target)
    register(tmp_path, stripe, "9:0")
    volume = put(tmp_path / "devices/virtual/block/dm-3", **queue())
    (volume / "slaves").mkdir()
    (volume / "slaves/md0").symlink_to(stripe)
    (volume / "slaves/nvme3n1").symlink_to(nvme(tmp_path, 3))
    (stripe / "holders").mkdir()
    (stripe / "holders/dm-3").symlink_to(volume)
    register(tmp_path, volume, "253:3")
    return volume


def test_members_are_followed_to_the_disks_and_their_links_add_up(tmp_path: Path) -> None:
    raid(tmp_path)
    block = inspect_block("253:3", tmp_path)
    assert block is not None
    assert [(m.name, m.level) for m in block.members] == [("md0", "raid0"), ("nvme3n1", "")]
    assert sorted(block.disks()) == ["259:10", "259:20", "259:30"]
    assert block.ceiling_gbs == pytest.approx(3 * 7.88)
    assert block.members[0].ceiling_gbs == pytest.approx(2 * 7.88)


def test_what_is_stacked_on_a_disk_is_related_to_it(tmp_path: Path) -> None:
    raid(tmp_path)
    assert related_ids("259:10", tmp_path) == ["259:10", "259:11", "9:0", "253:3"]


def test_a_tree_that_points_into_itself_ends(tmp_path: Path) -> None:
    node = put(tmp_path / "devices/virtual/block/dm-0", **queue())
    (node / "slaves").mkdir()
    (node / "slaves/dm-0").symlink_to(node)
    register(tmp_path, node, "253:0")
    assert inspect_block("253:0", tmp_path) is not None


def test_a_sata_drive(tmp_path: Path) -> None:
    port = tmp_path / "devices/pci0000:00/0000:00:17.0/ata3"
    put(port / "link3/ata_link/link3", sata_spd="6.0 Gbps")
    target = put(port / "host2/target2:0:0/2:0:0:0", vendor="ATA     ", model="Samsung SSD 860 ")
    disk = put(target / "block/sda", **queue())
    (disk / "device").symlink_to(target)
    register(tmp_path, disk, "8:0")
    block = inspect_block("8:0", tmp_path)
    assert block is not None
    assert (block.model, block.transport, block.link) == ("ATA Samsung SSD 860", "sata", "SATA 6.0 Gb/s")
    assert block.ceiling_gbs == pytest.approx(0.6)


@pytest.mark.parametrize("number", ["", "0:41", "8", "../../etc", "8:1\n", "999:999"])
def test_numbers_without_a_device(tmp_path: Path, number: str) -> None:
    (tmp_path / "dev/block").mkdir(parents=True)
    assert node_of(number, tmp_path) is None
    assert other_io(number, 0.0, sysfs=tmp_path) == 0.0


def test_btrfs_is_traced_to_its_disk_by_the_mounts_source(tmp_path: Path) -> None:
    nvme(tmp_path / "sys", 1)
    number = tmp_path.stat().st_dev
    assert f"{os.major(number)}:{os.minor(number)}" != "0:99"
    table = tmp_path / "mountinfo"
    table.write_bytes(b"40 1 0:99 /@data " + escape(os.fsencode(tmp_path)) + b" rw - btrfs /dev/nvme1n1 rw,compress=zstd:3\n")
    device = inspect(tmp_path, sysfs=tmp_path / "sys", mountinfo=table)
    assert (device.fs_type, device.device_id, device.model) == ("btrfs", "259:10", "Samsung SSD 980 PRO 1TB")
    assert (device.ceiling_gbs, device.numa_node, "compress=zstd:3" in device.mount_options) == (7.88, 1, True)


def test_no_mount_table_is_survived(tmp_path: Path) -> None:
    device = inspect(tmp_path, sysfs=tmp_path, mountinfo=tmp_path / "absent")
    assert (device.mount_point, device.block, device.sector) == ("", None, 512)


# --- refusals


@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_an_empty_name_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is empty; give a folder"):
        check_folder(text)


def test_a_missing_folder_a_file_and_a_loop_of_links_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    (tmp_path / "round").symlink_to(tmp_path / "round")
    os.mkfifo(tmp_path / "pipe")
    for name, why in {
        "absent": "does not exist",
        "file": "is not a folder",
        "file/below": "can't be used .Not a directory.",
        "round": "can't be used .Too many levels",
        "pipe": "is not a folder",
        "x" * 300: "can't be used .File name too long",
        "nul\0": "can't be used .embedded null",
    }.items():
        with pytest.raises(UsageError, match=why) as caught:
            check_folder(f"{tmp_path}/{name}", option="mount")
        assert str(caught.value).startswith("--mount ")
        assert caught.value.option == "mount"


def test_a_socket_and_a_character_device_are_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        with pytest.raises(UsageError, match="is not a folder"):
            check_folder(str(tmp_path / "s"))
    with pytest.raises(UsageError, match="is a character device; give a folder"):
        check_folder("/dev/null")


def test_control_characters_in_a_name_are_shown_quoted() -> None:
    with pytest.raises(UsageError) as caught:
        check_folder("/nowhere/\x1b[2Jx\udcff")
    assert str(caught.value).isprintable()
    assert "\\x1b[2J" in str(caught.value)


@pytest.mark.parametrize("name", ["plain", "two words", "nvmé ü漢", "-rf", "a:b", "quote'\"", "tab\there"])
def test_any_folder_name_is_taken_and_links_are_followed(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    assert check_folder(str(folder)) == folder.resolve()
    assert check_folder(str(tmp_path / "link")) == folder.resolve()
    assert supports_o_direct(folder) is None
    assert list(folder.iterdir()) == []


def test_a_relative_name_beginning_with_a_dash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "-x").mkdir()
    monkeypatch.chdir(tmp_path)
    assert check_folder("-x") == (tmp_path / "-x").resolve()


@pytest.mark.root
def test_an_unwritable_folder_is_refused(monkeypatch: pytest.MonkeyPatch, as_nobody: Callable) -> None:
    def check(name: str) -> str:
        try:
            check_folder(name)
        except UsageError as error:
            return str(error).removeprefix(f"--device {name}: ")
        return "taken"

    with tempfile.TemporaryDirectory() as text:
        base = Path(text)
        base.chmod(0o755)
        for name, mode in (("shut", 0o755), ("open", 0o777), ("above", 0o700), ("above/below", 0o777)):
            (base / name).mkdir()
            (base / name).chmod(mode)
        assert as_nobody(lambda: check(f"{base}/shut")) == "is not writable for this user; give a folder that is"
        assert as_nobody(lambda: check(f"{base}/open")) == "taken"
        assert "(Permission denied)" in as_nobody(lambda: check(f"{base}/above/below"))
        monkeypatch.chdir(base / "above/below")
        assert as_nobody(lambda: check(".")).startswith("can't be reached by its full path (Permission denied)")


# --- the real thing


@pytest.mark.system
def test_this_machine_agrees_with_findmnt_and_df(tmp_path: Path) -> None:
    device = inspect(tmp_path)
    arguments = ["findmnt", "--noheadings", "--raw", "--output", "TARGET,SOURCE,FSTYPE", "--target", str(tmp_path)]
    try:
        said = subprocess.run(arguments, capture_output=True, text=True, timeout=30, check=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("findmnt is not here")
    assert [device.mount_point, device.source.split("[")[0], device.fs_type] == [said[0], said[1].split("[")[0], said[2]]
    space = os.statvfs(tmp_path)
    assert abs(device.free_bytes - space.f_bavail * space.f_frsize) < 1 << 30
    assert not device.read_only


@pytest.mark.system
@pytest.mark.root
def test_a_drive_with_4096_byte_sectors_under_a_name_with_spaces(
    make_mount: Callable, make_bind: Callable, tmp_path: Path
) -> None:
    disk = make_mount("mount point ü\ttab", sector=4096)
    shown = make_bind(disk.path, tmp_path / "bound here\\too")
    for folder in (disk.path, shown):
        device = inspect(folder)
        assert (device.sector, device.transport, device.fs_type, device.kind) == (4096, "loop", "ext4", "local")
        assert (device.source, device.mount_point) == (disk.device, str(folder))
        assert device.block is not None
        assert device.block.backing.endswith(".img")
        assert supports_o_direct(folder) is None
    assert inspect(shown).disk_ids == inspect(disk.path).disk_ids


@pytest.mark.system
@pytest.mark.root
def test_a_raw_device_is_refused_without_being_opened(make_mount: Callable) -> None:
    disk = make_mount("a mount ü")
    with pytest.raises(UsageError) as caught:
        check_folder(disk.device)
    assert f"give a folder on it, such as {disk.path}" in str(caught.value)
    subprocess.run(["umount", str(disk.path)], check=True, timeout=30)
    with pytest.raises(UsageError, match="mount it and give a folder on it"):
        check_folder(disk.device)


@pytest.mark.system
@pytest.mark.root
def test_a_read_only_mount_is_refused(make_mount: Callable) -> None:
    disk = make_mount("ro", options="ro")
    assert inspect(disk.path).read_only
    with pytest.raises(UsageError, match="is on a read-only mount"):
        check_folder(str(disk.path))


@pytest.mark.system
@pytest.mark.root
def test_tmpfs_is_memory_and_ramfs_refuses_direct_io(make_mount: Callable) -> None:
    memory = make_mount("t", fs="tmpfs").path
    assert inspect(memory).kind == "memory"
    plain = make_mount("r", fs="ramfs").path
    assert supports_o_direct(plain) == "the file system refuses O_DIRECT"
    assert list(plain.iterdir()) == []


@pytest.mark.system
@pytest.mark.root
def test_a_full_disk_still_supports_direct_io(make_mount: Callable) -> None:
    disk = make_mount("full").path
    fill(disk)
    assert inspect(disk).free_bytes < 65536
    assert supports_o_direct(disk) is None
    assert [p.name for p in disk.iterdir() if p.name not in ("lost+found", "filler")] == []


def fill(folder: Path) -> None:
    with (folder / "filler").open("wb", buffering=0) as file:
        size = 1 << 20
        while size:
            try:
                file.write(bytes(size))
            except OSError:
                size //= 8


@pytest.mark.system
@pytest.mark.root
def test_traffic_on_a_disk_is_seen_and_silence_too(make_mount: Callable) -> None:
    disk = make_mount("traffic")
    number = inspect(disk.path).device_id
    os.sync()
    time.sleep(0.2)
    assert other_io(number, 0.2) < 5
    stop = threading.Event()

    def write() -> None:
        handle = os.open(disk.path / "x", os.O_RDWR | os.O_CREAT | os.O_DSYNC)
        while not stop.is_set():
            os.pwrite(handle, bytes(1 << 20), 0)
        os.close(handle)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert other_io(number, 0.5) > 5
    finally:
        stop.set()
        writer.join()
