"""What sysfs knows of a block device: sectors, queue, model, link, and the disks that it is made of."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SYSFS = Path("/sys")

# Bytes a second of one PCIe lane, by the transfer rate that sysfs names, after the line code (8b/10b, 128b/130b, FLIT).
_LANE = {2.5: 0.25e9, 5.0: 0.5e9, 8.0: 0.985e9, 16.0: 1.969e9, 32.0: 3.938e9, 64.0: 7.563e9}
# These present a PCIe link that no data goes over.
_VIRTUAL = ("qemu", "amazon", "google", "nvme_card", "microsoft", "msft", "vmware", "vbox", "oracle", "alibaba")
_PREFIXES = (
    ("nvme", "nvme"),
    ("vd", "virtio"),
    ("xvd", "xen"),
    ("mmcblk", "mmc"),
    ("md", "raid"),
    ("dm-", "mapper"),
    ("loop", "loop"),
    ("zram", "memory"),
    ("ram", "memory"),
    ("pmem", "pmem"),
    ("nbd", "network"),
    ("rbd", "network"),
    ("drbd", "network"),
)


@dataclass(frozen=True, slots=True)
class Block:
    """A whole disk, RAID set, mapping or loop device. Sectors in bytes; what the kernel doesn't say is None or "".

    ``link`` is its PCIe or SATA link as text, ``ceiling_gbs`` the most that goes over it (10^9 bytes a second; the sum of
    the members' for RAID and LVM); ``members`` are the devices right below it, ``backing`` the file of a loop device.
    """

    name: str
    device_id: str
    sector: int
    physical_sector: int
    rotational: bool | None
    model: str
    transport: str
    max_sectors_kb: int | None
    scheduler: str
    numa_node: int | None
    link: str
    ceiling_gbs: float | None
    level: str = ""
    backing: str = ""
    members: tuple[Block, ...] = ()

    def disks(self) -> dict[str, Block]:
        """The devices at the bottom, by device id: itself where it has no members."""
        if not self.members:
            return {self.device_id: self}
        return {key: disk for member in self.members for key, disk in member.disks().items()}


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip("\0 \t\n")
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    try:
        return int(_text(path))
    except ValueError:
        return None


def _whole(node: Path) -> Path:
    """The disk's folder for a partition's."""
    return node.parent if (node / "partition").exists() else node


def node_of(device_id: str, sysfs: Path = SYSFS) -> Path | None:
    """The sysfs folder of the whole device behind "major:minor", or None."""
    if not re.fullmatch(r"\d+:\d+", device_id):
        return None
    node = sysfs / "dev" / "block" / device_id
    return _whole(node.resolve()) if node.exists() else None


def device_id_of(source: str, sysfs: Path = SYSFS) -> str:
    """ "major:minor" of a device by its name in /dev, symbolic links followed; "" when sysfs has none of that name."""
    name = Path(source).resolve().name
    return _text(sysfs / "class" / "block" / name / "dev") if name else ""


def inspect_block(device_id: str, sysfs: Path = SYSFS) -> Block | None:
    node = node_of(device_id, sysfs)
    return _block(node, depth=0) if node else None


def _block(node: Path, depth: int) -> Block:
    queue, name = node / "queue", node.name
    # Stacks of devices are a few deep; the limit only guards against a tree that points into itself.
    below = sorted((node / "slaves").glob("*")) if depth < 8 else []
    members = tuple({b.device_id: b for b in (_block(_whole(entry.resolve()), depth + 1) for entry in below)}.values())
    model = " ".join(f"{_text(node / 'device/vendor')} {_text(node / 'device/model')}".split())
    if re.match(r"0x[0-9a-f]{4}\b", model):  # a PCI vendor number, not a name
        model = model[6:].strip()
    transport = _transport(node)
    link, ceiling = _link(node, transport, model)
    if members:
        leaves = [leaf for member in members for leaf in member.disks().items()]
        ceilings = [disk.ceiling_gbs for disk in dict(leaves).values()]
        known = [c for c in ceilings if c is not None]
        ceiling = sum(known) if len(known) == len(ceilings) else None
    scheduler = re.search(r"\[([^]]+)\]", _text(queue / "scheduler"))
    # A virtual disk says "rotational" when its driver doesn't care to say anything.
    rotational = None if transport in ("virtio", "xen", "hyperv", "loop") else _number(queue / "rotational")
    return Block(
        name=name,
        device_id=_text(node / "dev"),
        sector=_number(queue / "logical_block_size") or 512,
        physical_sector=_number(queue / "physical_block_size") or 512,
        rotational=None if rotational is None else bool(rotational),
        model=model,
        transport=transport,
        max_sectors_kb=_number(queue / "max_sectors_kb"),
        scheduler=scheduler[1] if scheduler else _text(queue / "scheduler"),
        numa_node=next((n for n in (_number(p / "numa_node") for p in _ancestors(node)) if n is not None and n >= 0), None),
        link=link,
        ceiling_gbs=ceiling,
        level=_text(node / "md" / "level"),
        backing=_text(node / "loop" / "backing_file"),
        members=members,
    )


def _ancestors(node: Path) -> Iterator[Path]:
    """The device's folder and those above it, up to the top of the device tree; for NVMe the controller's come first."""
    for start in (node / "device", node):
        path = start.resolve()
        while path.name not in ("devices", "") and path != path.parent:
            yield path
            path = path.parent


def _transport(node: Path) -> str:
    name, path = node.name, str(node)
    fabric = _text(node / "device" / "transport")
    if name.startswith("nvme"):
        return "nvme" if fabric in ("", "pcie", "loop") else f"nvme-{fabric}"
    for prefix, transport in _PREFIXES:
        if name.startswith(prefix):
            return transport
    for part, transport in (
        ("/usb", "usb"),
        ("/session", "iscsi"),
        ("/ata", "sata"),
        ("/virtio", "virtio"),
        ("/end_device-", "sas"),
        ("/rport-", "fc"),
        ("/VMBUS", "hyperv"),
    ):
        if part.lower() in path.lower():
            return transport
    return "scsi" if name.startswith("sd") else ""


def _link(node: Path, transport: str, model: str) -> tuple[str, float | None]:
    """The narrowest link between the disk and the processor, and what it carries in GB/s."""
    if transport == "sata":
        for path in _ancestors(node):
            for speed in sorted(path.glob("link*/ata_link/*/sata_spd")) if path.name.startswith("ata") else ():
                rate = re.match(r"([\d.]+) Gbps", _text(speed))
                if rate:
                    return f"SATA {rate[1]} Gb/s", float(rate[1]) * 0.8 / 8
    if transport != "nvme" or any(word in model.lower() for word in _VIRTUAL):
        return "", None
    best: tuple[float, str] | None = None
    for path in _ancestors(node):
        rate = re.match(r"([\d.]+) GT/s", _text(path / "current_link_speed"))
        width = _number(path / "current_link_width")
        lane = _LANE.get(float(rate[1])) if rate else None
        if rate and width and lane and (best is None or lane * width < best[0]):
            best = (lane * width, f"PCIe {rate[1]} GT/s x{width}")
    return (best[1], round(best[0] / 1e9, 2)) if best else ("", None)


def other_io(device_id: str, seconds: float = 0.2, *, sysfs: Path = SYSFS) -> float:
    """MB/s (10^6 bytes) that the whole disk reads and writes now, watched for ``seconds``.

    0.0 where the kernel keeps no count (network file systems, memory).
    """
    node = node_of(device_id, sysfs)
    if node is None:
        return 0.0
    before, start = _moved(node), time.monotonic()
    time.sleep(seconds)
    moved, passed = _moved(node) - before, time.monotonic() - start
    return max(0.0, moved / passed / 1e6)


def _moved(node: Path) -> int:
    """Bytes read and written since start-up; the kernel counts in 512-byte units whatever the sector is."""
    try:
        fields = [int(field) for field in _text(node / "stat").split()]
    except ValueError:
        return 0
    return 512 * (fields[2] + fields[6]) if len(fields) > 6 else 0


def related_ids(device_id: str, sysfs: Path = SYSFS) -> list[str]:
    """The device, its partitions, and what is stacked on any of them (RAID, LVM, encryption), by device id."""
    found, waiting = [device_id], [sysfs / "dev" / "block" / device_id]
    while waiting:
        node = waiting.pop().resolve()
        below = [entry for entry in sorted(node.glob("*")) if (entry / "partition").exists()]
        for entry in [*below, *sorted((node / "holders").glob("*"))]:
            number = _text(entry / "dev")
            if number and number not in found:
                found.append(number)
                waiting.append(entry)
    return found
