"""What `tune doctor aio` says: limits and software from fixture trees, storage from real file systems."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from runners.aio import software, storage
from runners.aio.doctor import limits, preflight, problems, tensor_sizes
from runners.aio.options import Options
from runners.blocks import Block
from runners.device import Device
from runners.lock import lock_device
from runners.mounts import Kind
from runners.packages import family, install
from runners.runner import Problem, UsageError

ROOT = Path(__file__).parents[3]
MIB = 1 << 20


def named(found: Iterable[Problem], name: str) -> Problem:
    matching = [problem for problem in found if problem.id == name]
    assert len(matching) == 1, (name, list(found))
    return matching[0]


def ids(found: Iterable[Problem]) -> set[str]:
    return {problem.id for problem in found}


# --- kernel limits


def kernel(
    root: Path, *, memlock: str = "unlimited", hard: str = "", caps: str = "0", aio: tuple[int, int] | None = (65536, 0),
    memory_kb: int = 64 << 20,
) -> Path:  # fmt: skip
    files = {
        "self/limits": f"Max locked memory         {memlock}              {hard or memlock}            bytes\n",
        "self/status": f"CapEff:\t{caps}\n",
        "meminfo": f"MemAvailable: {memory_kb} kB\n",
    }
    if aio:
        files |= {"sys/fs/aio-max-nr": str(aio[0]), "sys/fs/aio-nr": str(aio[1])}
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def found_limits(proc: Path, options: Options, size: int = 64 * MIB) -> list[Problem]:
    return list(limits(options, (size,), proc=proc, cgroup=proc / "no cgroup"))


def test_a_machine_with_room_has_no_problem(tmp_path: Path) -> None:
    assert found_limits(kernel(tmp_path), Options()) == []


@pytest.mark.parametrize(("engine", "severity"), [("auto", "warning"), ("deepspeed", "error")])
def test_memlock_below_one_buffer(tmp_path: Path, engine: str, severity: str) -> None:
    options = Options(ranks=2, engine=engine)  # type: ignore[arg-type]
    problem = named(found_limits(kernel(tmp_path, memlock="8388608", hard="unlimited"), options), "memlock")
    assert problem.severity == severity
    assert "8388608 bytes" in problem.message
    assert "67108864 in each of 2 ranks" in problem.message
    assert problem.mend == "ulimit -l unlimited"
    assert "memlock" not in ids(found_limits(kernel(tmp_path, memlock="8388608", caps="4000"), options))


def test_a_hard_limit_above_the_need_can_be_used_without_root(tmp_path: Path) -> None:
    problem = named(found_limits(kernel(tmp_path, memlock="65536", hard=str(128 * MIB)), Options()), "memlock")
    assert problem.mend == "ulimit -l 131072"


def test_buffers_of_all_ranks_against_memory(tmp_path: Path) -> None:
    proc = kernel(tmp_path, memory_kb=1 << 20)
    problem = named(found_limits(proc, Options(ranks=16)), "memory")
    assert (problem.severity, problem.mend) == ("error", "--tensor-size 32M")
    assert str(16 * 64 * MIB) in problem.message
    assert named(found_limits(proc, Options(ranks=9)), "memory").severity == "warning"
    assert "memory" not in ids(found_limits(proc, Options(ranks=2)))


@pytest.mark.parametrize(
    ("events", "ranks", "severity"),
    [((65536, 0), 1, None), ((65536, 0), 8, "note"), ((65536, 60000), 8, "warning"), ((65536, 65530), 1, "error")],
)
def test_aio_events_against_the_job(tmp_path: Path, events: tuple[int, int], ranks: int, severity: str | None) -> None:
    found = found_limits(kernel(tmp_path, aio=events), Options(ranks=ranks))
    if severity is None:
        assert found == []
        return
    problem = named(found, "aio-max-nr")
    assert problem.severity == severity
    assert f"{events[0] - events[1]} of {events[0]} aio events are free" in problem.message
    assert f"4 handles x {ranks} ranks" in problem.message
    assert problem.mend.startswith("sudo sysctl -w fs.aio-max-nr=1048576")


def test_the_mend_of_aio_max_nr_is_enough_for_a_large_job(tmp_path: Path) -> None:
    problem = named(found_limits(kernel(tmp_path), Options(ranks=64, handles=8)), "aio-max-nr")
    wanted = int(problem.mend.split("=")[1].split()[0])
    assert wanted >= 17 * 256 * 8 * 64


def test_a_kernel_without_aio_measures_nothing(tmp_path: Path) -> None:
    assert named(found_limits(kernel(tmp_path, aio=None), Options()), "aio").severity == "error"


# --- options


def test_tensor_sizes_are_read_once_each() -> None:
    assert tensor_sizes(Options(tensor_size="64M,8M,64M, 512K")) == (64 * MIB, 8 * MIB, MIB // 2)


@pytest.mark.parametrize("text", ["", "64M,", "0", "x", "1.0001K", "-1"])
def test_tensor_sizes_that_are_none(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        tensor_sizes(Options(tensor_size=text))
    assert caught.value.option == "tensor-size"
    assert ids(preflight(Options(tensor_size=text))) == {"options"}


@pytest.mark.parametrize("options", [Options(ranks=0), Options(ranks=-4), Options(handles=0)])
def test_counts_below_one(options: Options) -> None:
    assert named(preflight(options), "options").severity == "error"


# --- storage, on devices that are not here


def device(folder: Path, *, kind: Kind = "local", fs_type: str = "ext4", options: tuple[str, ...] = (), free: int = 1 << 40,
           **block: object) -> Device:  # fmt: skip
    facts = {
        "name": "nvme0n1", "device_id": "259:0", "sector": 512, "physical_sector": 4096, "rotational": False,
        "model": "Samsung SSD 980", "transport": "nvme", "max_sectors_kb": 512, "scheduler": "none", "numa_node": 0,
        "link": "PCIe 16.0 GT/s x4", "ceiling_gbs": 7.88,
    }  # fmt: skip
    below = Block(**{**facts, **block}) if kind in ("local", "fuse") else None  # type: ignore[arg-type]
    return Device(folder, "/mnt", "/dev/nvme0n1", fs_type, options, False, kind, "259:0", free, 1 << 41, below)


def test_an_ordinary_drive_has_no_problem(tmp_path: Path) -> None:
    assert storage.essential(device(tmp_path), (64 * MIB,), 1) == []


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"kind": "network", "fs_type": "nfs4"}, "nfs4 is a network file system; the numbers are those of network and server"),
        ({"kind": "overlay", "fs_type": "overlay"}, "not for a volume"),
        ({"kind": "memory", "fs_type": "tmpfs"}, "no disk is measured"),
        ({"kind": "fuse", "fs_type": "fuse.sshfs"}, "a user-space process"),
        ({"transport": "nvme-tcp"}, "a disk over the network"),
        ({"transport": "iscsi"}, "a disk over the network"),
        ({"transport": "loop"}, "its cache"),
        ({"fs_type": "zfs"}, "reads may come from memory"),
        ({"fs_type": "btrfs"}, "may go through memory"),
        ({"options": ("rw", "data=journal")}, "data=journal"),
        ({"rotational": True}, "the disk spins"),
    ],
)
def test_a_file_system_that_changes_the_meaning_is_a_warning(tmp_path: Path, facts: dict[str, object], says: str) -> None:
    problem = named(storage.essential(device(tmp_path, **facts), (64 * MIB,), 1), "file-system")  # type: ignore[arg-type]
    assert problem.severity == "warning"
    assert says in problem.message
    assert problem.mend


def test_btrfs_without_copy_on_write_is_as_good_as_any(tmp_path: Path) -> None:
    assert storage.essential(device(tmp_path, fs_type="btrfs", options=("nodatacow",)), (64 * MIB,), 1) == []


def test_a_tensor_that_is_no_whole_number_of_sectors(tmp_path: Path) -> None:
    problem = named(storage.essential(device(tmp_path), (28824001, 64 * MIB), 1), "sector")
    assert problem.severity == "error"
    assert "28824064 bytes" in problem.message
    assert problem.mend.endswith("--tensor-size 28824064,64M")


def test_large_sectors_are_a_warning_of_silent_corruption(tmp_path: Path) -> None:
    found = storage.essential(device(tmp_path, sector=4096), (64 * MIB,), 1)
    assert named(found, "sector-4k").severity == "warning"
    assert "sector" not in ids(found)


def test_space(tmp_path: Path) -> None:
    sizes = (64 * MIB, 8 * MIB)
    least = storage.least_space(sizes, 4)
    assert least == 4 * 72 * MIB + storage.HEADROOM
    assert named(storage.essential(device(tmp_path, free=least - 1), sizes, 4), "space").severity == "error"
    assert named(storage.essential(device(tmp_path, free=least), sizes, 4), "space").severity == "warning"


def test_two_folders_on_one_disk(tmp_path: Path) -> None:
    one, other = device(tmp_path), device(tmp_path, device_id="259:9")
    assert ids(storage.shared_disks([one, one])) == {"shared-disk"}
    assert ids(storage.shared_disks([one, other])) == set()


def test_the_hardware_note_names_the_members(tmp_path: Path) -> None:
    parts = tuple(device(tmp_path, name=f"nvme{n}n1", device_id=f"259:{n}").block for n in (0, 1))
    stripe = device(tmp_path, name="md0", model="", transport="raid", level="raid0", link="", members=parts)
    note = named(storage.thorough(stripe, 0.0), "hardware")
    assert note.severity == "note"
    for part in (
        "md0 (raid0, raid",
        "of it nvme0n1 (Samsung SSD 980, nvme, PCIe 16.0 GT/s x4",
        "of it nvme1n1",
        "NUMA node 0",
    ):
        assert part in note.message


# --- storage, really


@pytest.mark.system
def test_the_doctor_on_this_machine(tmp_path: Path) -> None:
    folder = tmp_path / "two words ü"
    folder.mkdir()
    found = problems(Options(device=[str(folder)]))
    assert "hardware" in ids(found)
    assert [p.severity for p in found] == sorted((p.severity for p in found), key=["error", "warning", "note"].index)
    assert all(problem.message.isprintable() for problem in found)
    assert list(folder.iterdir()) == []


@pytest.mark.system
def test_the_doctor_imports_neither_torch_nor_deepspeed(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from runners.aio.doctor import problems\n"
        "from runners.aio.options import Options\n"
        "problems(Options(device=[sys.argv[1]]))\n"
        "print([name for name in ('torch', 'deepspeed', 'optuna', 'scipy') if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.system
def test_preflight_is_cheap(tmp_path: Path) -> None:
    options = Options(device=[str(tmp_path)])
    preflight(options)
    begun = time.process_time()
    preflight(options)
    assert time.process_time() - begun < 0.1


def test_folders_that_cannot_be_used_are_all_told(tmp_path: Path) -> None:
    found = preflight(Options(device=[str(tmp_path / "absent"), "/dev/null", str(tmp_path)]))
    assert [p.message for p in found if p.id == "device"] == [
        f"--device {tmp_path}/absent: does not exist; give a folder on the device to tune",
        "--device /dev/null: is a character device; give a folder on the device to tune",
    ]


def test_without_a_folder_the_doctor_says_what_it_did_not_look_at() -> None:
    note = named(problems(Options()), "device")
    assert (note.severity, note.mend) == ("note", "tune doctor aio --device DIR")


@pytest.mark.system
@pytest.mark.root
def test_real_disks_that_spoil_a_measurement(make_mount: Callable) -> None:
    large = make_mount("sectors 4k", size_mb=200, sector=4096).path
    found = preflight(Options(device=[str(large)], tensor_size="1000448"))
    assert named(found, "sector").severity == "error"
    assert "4096-byte sectors" in named(found, "sector").message
    assert "sector-4k" in ids(found)
    plain = make_mount("ramfs", fs="ramfs").path
    assert named(preflight(Options(device=[str(plain)])), "o-direct").severity == "error"
    small = make_mount("small", size_mb=60).path
    assert named(preflight(Options(device=[str(small)])), "space").severity == "error"


@pytest.mark.system
@pytest.mark.root
def test_a_disk_that_is_being_tuned_and_a_killed_runs_folder(make_mount: Callable) -> None:
    disk = make_mount("busy", size_mb=200)
    (disk.path / ".clustertune-scratch-0123456789ab").mkdir()
    number = Path(disk.device).stat().st_rdev
    with lock_device(f"{os.major(number)}:{os.minor(number)}", "tune aio --device here"):
        found = problems(Options(device=[str(disk.path)], tensor_size="1M"))
    assert "(tune aio --device here)" in named(found, "busy").message
    assert ".clustertune-scratch-0123456789ab" in named(found, "leftover").message
    assert "busy" not in ids(problems(Options(device=[str(disk.path)], tensor_size="1M")))


# --- software


def test_the_commands_that_install(tmp_path: Path) -> None:
    for release, wanted in {
        "ID=ubuntu\nID_LIKE=debian\n": "sudo apt-get install -y libaio-dev",
        'ID="rocky"\nID_LIKE="rhel centos fedora"\n': "sudo dnf install -y libaio-devel",
        'ID="opensuse-leap"\nID_LIKE="suse opensuse"\n': "sudo zypper install -y libaio-devel",
        "ID=arch\n": "sudo pacman -S --noconfirm libaio",
        "ID=plan9\n": "install libaio-dev with your package manager",
    }.items():
        (tmp_path / "etc").mkdir(exist_ok=True)
        (tmp_path / "etc/os-release").write_text(f'NAME="x"\n{release}VERSION_ID=1\n')
        assert install("libaio", tmp_path, {}) == wanted
    (tmp_path / "etc/os-release").write_text("ID=debian\n")
    assert install("fio", tmp_path, {"CONDA_PREFIX": "/c"}) == "sudo apt-get install -y fio"
    assert install("compiler", tmp_path, {"CONDA_PREFIX": "/c"}) == "conda install -y -c conda-forge gxx"
    assert family(tmp_path / "absent") is None


def test_libaio_h_is_found_where_compilers_look(tmp_path: Path) -> None:
    header = tmp_path / "deps/include/libaio.h"
    header.parent.mkdir(parents=True)
    header.touch()
    place = str(header.parent)
    assert software.libaio_header(tmp_path, {}) is None
    for environ in ({"CPATH": f"/x:{place}"}, {"CFLAGS": f"-O2 -I{place}"}, {"CONDA_PREFIX": str(tmp_path / "deps")}):
        assert software.libaio_header(tmp_path, environ) == header


def test_where_torch_builds(tmp_path: Path) -> None:
    python = f"py{sys.version_info.major}{sys.version_info.minor}"
    for text, wanted in {
        "cuda: Optional[str] = None\nhip: Optional[str] = None\n": "cpu",
        "cuda: Optional[str] = '12.4'\nhip: Optional[str] = None\n": "cu124",
        "cuda = '11.8'\n": "cu118",
        "cuda: Optional[str] = None\nhip: Optional[str] = '6.2.41133-dd7f95766'\n": "rocm",
    }.items():
        (tmp_path / "version.py").write_text(text)
        folder = software.extensions_folder({"HOME": "/h"}, tmp_path)
        assert folder.parent == Path("/h/.cache/torch_extensions")
        assert folder.name.startswith(f"{python}_{wanted}")
    assert software.extensions_folder({"XDG_CACHE_HOME": "/c"}, None).parent == Path("/c/torch_extensions")
    assert software.extensions_folder({"TORCH_EXTENSIONS_DIR": "/t"}, tmp_path) == Path("/t")


needs_deepspeed = pytest.mark.skipif(software.version("deepspeed") is None, reason="deepspeed is not installed")


def cache(folder: Path, recipe: str) -> dict[str, str]:
    (folder / "async_io").mkdir(parents=True)
    (folder / "async_io/async_io.so").touch()
    (folder / "async_io/build.ninja").write_text(recipe)
    return {**os.environ, "TORCH_EXTENSIONS_DIR": str(folder)}


@needs_deepspeed
def test_an_op_of_this_installation_counts_and_one_of_another_does_not(tmp_path: Path) -> None:
    deepspeed = software.package_folder("deepspeed")
    own = software.find_op(cache(tmp_path / "own", f"cflags = -I{deepspeed}/ops/csrc/aio/py_lib"))
    assert own.library == tmp_path / "own/async_io/async_io.so"
    assert software.find_op(cache(tmp_path / "other", "cflags = -I/elsewhere/deepspeed/ops/csrc/aio")).library is None
    assert software.find_op({"TORCH_EXTENSIONS_DIR": str(tmp_path / "none")}).library is None


@needs_deepspeed
def test_a_lock_of_a_killed_build_is_named_with_its_removal(tmp_path: Path) -> None:
    environ = cache(tmp_path, "")
    lock = tmp_path / "async_io/lock"
    with lock.open("w"):
        problem = named(software.problems("deepspeed", environ), "op-lock")
        assert (problem.severity, problem.message.split()[:2]) == ("note", ["process", str(os.getpid())])
    problem = named(software.problems("deepspeed", environ), "op-lock")
    assert (problem.severity, problem.mend) == ("error", f"rm {lock}")
    assert named(software.problems("auto", environ), "op-lock").severity == "warning"


@needs_deepspeed
def test_what_building_lacks(tmp_path: Path) -> None:
    environ = {"TORCH_EXTENSIONS_DIR": str(tmp_path), "PATH": str(tmp_path), "CXX": "g++-99 -O2"}
    found = software.problems("auto", environ, tmp_path)
    assert {"libaio", "compiler", "ninja"} <= ids(found)
    assert {problem.severity for problem in found} == {"warning"}
    assert "(g++-99 -O2)" in named(found, "compiler").message
    assert "the native engine measures without it" in named(found, "compiler").message
    assert {problem.severity for problem in software.problems("native", environ, tmp_path)} == {"note"}
    assert {problem.severity for problem in software.problems("deepspeed", environ, tmp_path)} == {"error"}
