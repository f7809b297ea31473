"""Which epochs of a measurement count: those whose bytes the store, or the mount's own cache, really gave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runners.mount.meter import Moved
from runners.mount.work import Epoch
from spaces.units import format_size

_ANSWERED = 0.9
_PREVENT = "--direct reads past the page cache; data larger than the memory keep it from answering"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Indexes of the epochs that count, and a sentence for each that doesn't and for what else is odd."""

    counted: tuple[int, ...]
    sentences: tuple[str, ...]


def judge(epochs: Sequence[Epoch], moved: Sequence[Moved], *, warm: bool, share: float = 0.9) -> Verdict:
    """Cold epochs count when at least ``share`` of what they read left the store meanwhile, warm ones when the mount itself
    answered them and they come after one that filled its caches.
    """
    counted: list[int] = []
    sentences: list[str] = []
    for number, (epoch, bytes_moved) in enumerate(zip(epochs, moved, strict=True)):
        if epoch.filling:
            continue
        name = f"epoch {number + 1}" if len(epochs) > 1 else "the measurement"
        if epoch.bytes_read <= 0:
            sentences.append(f"{name} read nothing")
            continue
        said = _warm(name, epoch, bytes_moved) if warm else _cold(name, epoch, bytes_moved, share)
        if said:
            sentences.append(said)
        else:
            counted.append(number)
    if warm and counted:
        sentences += _leaks([epochs[n] for n in counted], [moved[n] for n in counted])
    return Verdict(tuple(counted), tuple(sentences))


def _cold(name: str, epoch: Epoch, moved: Moved, share: float) -> str:
    # What is read ahead may make up for what the page cache answered, so both must account for it.
    if moved.served >= share * epoch.bytes_read and _answered(epoch, moved):
        return ""
    told = min(moved.served, moved.answered if moved.answered is not None else moved.served)
    return (
        f"{name} is not counted: {_mib(epoch.bytes_read)} were read and {_mib(told)} came from the store, the rest from "
        f"memory; {_PREVENT}"
    )


def _warm(name: str, epoch: Epoch, moved: Moved) -> str:
    if moved.answered is None or _answered(epoch, moved):
        return ""
    return (
        f"{name} is not counted: {_mib(epoch.bytes_read)} were read and the mount answered {_mib(moved.answered)}, the rest "
        f"came from the kernel's page cache; {_PREVENT}"
    )


def _answered(epoch: Epoch, moved: Moved) -> bool:
    return moved.answered is None or moved.answered >= _ANSWERED * epoch.bytes_read


def _leaks(epochs: Sequence[Epoch], moved: Sequence[Moved]) -> list[str]:
    read, served = sum(epoch.bytes_read for epoch in epochs), sum(each.served for each in moved)
    if served <= 0.1 * read:
        return []
    return [f"the mount's cache is not warm: {served / read:.0%} of what was read still came from the store"]


def _mib(count: int) -> str:
    return format_size(count) if count % (1 << 20) == 0 else f"{count / 2**20:.1f}M"
