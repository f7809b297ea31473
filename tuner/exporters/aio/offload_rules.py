"""What can be wrong where NVMe offload and the aio block meet: paths, stages, buffers, memory, kernel events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from runners.runner import Json
from spaces.aio import SPACE, reserved_events
from spaces.units import format_size
from tuner.exporters.aio.block import THREADS, TOP, name_in, nested
from tuner.exporters.aio.model_rules import whole
from tuner.exporters.aio.names import OPTIMIZER, PARAM, SECTIONS, ZERO, alike
from tuner.exporters.aio.options import Options
from tuner.exporters.issue import Issue, counted
from tuner.json_text.scan import Document, Path

# DeepSpeed's defaults (runtime/zero/offload_config.py).
_BUFFER_COUNT, _BUFFER_SIZE, _OPTIMIZER_BUFFERS = 5, 100_000_000, 4

# Of 8 ranks each holds about 11 MB of the largest matrices of a 7B model in 16 bits: up to 8M a block leaves them on NVMe.
_LARGE_BLOCK = 8 << 20
# More elements than any rank's share of one tensor: 8 GB in 16 bits.
_MANY_ELEMENTS = 4_000_000_000
# What pinned buffers may take before the program that trains has nothing left.
_SHARE_OF_MEMORY = 0.8
# A rank with parameters on NVMe opens two handles, a pipelined optimizer swapper two, a plain one one; where the file
# doesn't say, the most that there can be.
_MOST_HANDLES = 4


@dataclass(frozen=True, slots=True)
class _File:
    """A configuration and how DeepSpeed reads single values of it."""

    document: Document
    options: Options

    def value(self, *path: str) -> Json:
        node = self.document.node(path)
        return None if node is None else node.value

    def number(self, default: int, *path: str) -> int:
        """An integer as DeepSpeed's models take it: 8e9 and "8" are numbers, "auto" and nonsense leave the default."""
        value = whole(self.value(*path))
        return default if value is None else value

    def on_nvme(self, section: Path) -> bool:
        return self.value(*map(str, section), "device") == "nvme"

    def issue(self, path: Path, message: str, mend: str) -> Issue:
        return Issue(self.document.key_line(path), ".".join(map(str, path)), message, mend)

    @property
    def element(self) -> int:
        """Bytes of a parameter's element: 2 where a 16-bit type is on."""
        half = (self.value(name, "enabled") for name in ("fp16", "bf16", "bfloat16"))
        return 2 if any(value in (True, "auto") for value in half) else 4

    def setting(self) -> dict[str, int] | None:
        """block_size, queue_depth and threads that would be used; None where one is no number."""
        home = TOP if self.document.node(TOP) is not None else next(nested(self.document), TOP)
        found: dict[str, int] = {}
        for knob in SPACE.knobs:
            if knob.domain.kind == "flag":
                continue
            node = self.document.node((*home, name_in(knob, self.options)))
            value = knob.default if node is None else node.value
            if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= knob.limit:
                return None
            found[knob.name] = int(value)
        return found


def issues(document: Document, options: Options) -> Iterator[Issue]:
    """Everything that the offload sections and the limits of this machine say about the file."""
    file = _File(document, options)
    for section in SECTIONS:
        if file.on_nvme(section):
            yield from _section(file, section)
        else:
            yield from _no_device(file, section)
    if file.on_nvme(PARAM):
        yield from _param_buffers(file)
    if file.on_nvme(OPTIMIZER):
        yield from _optimizer_buffers(file)
    setting = file.setting()
    if setting is not None:
        yield from _threshold(file, setting)
        yield from _events(file, setting)


def _section(file: _File, section: Path) -> Iterator[Issue]:
    name = str(section[-1])
    path = file.value(*map(str, section), "nvme_path")
    if path == "":
        where, folder = (*section, "nvme_path"), 'write "nvme_path": "/a/folder/on/the/drive"'
        yield file.issue(where, "nvme_path is empty: DeepSpeed swaps into the folder that the program was started in", folder)
    elif path in (None, "auto") and not _slip(file, section, "nvme_path"):
        where = (*section, "nvme_path" if file.document.node((*section, "nvme_path")) else "device")
        yield file.issue(
            where,
            f"{name} is on nvme and has no nvme_path: DeepSpeed fails when it makes its swap folder",
            'add "nvme_path": "/a/folder/on/the/drive"',
        )
    stage = file.number(0, ZERO, "stage")
    if stage < 3 and not _slip(file, (ZERO,), "stage"):
        at, mend = f"stage {stage}", 'set "stage": 3, or the device to cpu'
        if file.document.node((ZERO, "stage")) is None:
            at = "no stage (0 is the default)"
        elif file.value(ZERO, "stage") == "auto":
            at, mend = 'stage "auto" (DeepSpeed takes 0)', 'set "stage": 3, unless Accelerate fills it in'
        yield file.issue(
            (*section, "device"),
            f"{name} on nvme with {at}: it parses fine and does nothing, only stage 3 swaps to NVMe",
            mend,
        )


def _no_device(file: _File, section: Path) -> Iterator[Issue]:
    """A path and no device: the default is none."""
    where = (*section, "nvme_path")
    if (
        file.value(*map(str, where))
        and file.document.node((*section, "device")) is None
        and not _slip(file, section, "device")
    ):
        message = f"{section[-1]} has an nvme_path and no device: nothing is offloaded (none is the default)"
        yield file.issue(where, message, 'add "device": "nvme"')


def _slip(file: _File, section: Path, name: str) -> bool:
    """Whether ``name`` stands in the section misspelt, which is a finding of its own."""
    node = file.document.node(section)
    return node is not None and any(m.key != name and alike(m.key, [name]) for m in node.members)


def _param_buffers(file: _File) -> Iterator[Issue]:
    where = (*PARAM, "buffer_size")
    count = file.number(_BUFFER_COUNT, *map(str, PARAM), "buffer_count")
    size = file.number(_BUFFER_SIZE, *map(str, where))
    ranks, memory = file.options.ranks, file.options.memory
    pinned = count * size * file.element * ranks
    too_much = memory is not None and pinned > memory * _SHARE_OF_MEMORY
    if too_much or size >= _MANY_ELEMENTS:
        sum_shown = f"{counted(count, 'buffer')} x {size} elements x {file.element} bytes"
        sum_shown += f" x {ranks} ranks" if ranks > 1 else ""
        of_machine = f"; this machine has {_gib(memory)}" if memory is not None else ""
        fits = f"; up to {memory // 2 // (count * file.element * ranks)} takes half of this memory" if memory and count else ""
        yield file.issue(
            where,
            f"offload_param.buffer_size counts elements, not bytes: {sum_shown} = {_gib(pinned)} of pinned memory{of_machine}",
            f"write the elements of the largest partition of one tensor (default {_BUFFER_SIZE}){fits}",
        )
    setting = file.setting()
    if setting is not None and 0 < size * file.element < setting["block_size"]:
        yield file.issue(
            where,
            f"buffers of {size} elements x {file.element} bytes are smaller than block_size {setting['block_size']}: a "
            "partition either is too small to be swapped or doesn't fit its buffer",
            f"write at least {-(-setting['block_size'] // file.element)}, or a smaller block_size",
        )


def _optimizer_buffers(file: _File) -> Iterator[Issue]:
    where = (*OPTIMIZER, "buffer_count")
    count = file.number(_OPTIMIZER_BUFFERS, *map(str, where))
    if count < _OPTIMIZER_BUFFERS:
        yield file.issue(
            where,
            f"offload_optimizer.buffer_count {count} is too few for Adam (parameter, gradient, momentum, variance): "
            "DeepSpeed runs out of swap buffers",
            f"write {_OPTIMIZER_BUFFERS} or more",
        )


def _threshold(file: _File, setting: dict[str, int]) -> Iterator[Issue]:
    block = setting["block_size"]
    if block > _LARGE_BLOCK and (file.on_nvme(PARAM) or file.on_nvme(OPTIMIZER)):
        shown = format_size(block)
        yield file.issue(
            (*TOP, "block_size"),
            f"block_size {shown} is also the swap threshold: partitions smaller than {shown} stay in memory, not on NVMe",
            f"take {format_size(_LARGE_BLOCK)} or less unless the memory for them is there",
        )


def _events(file: _File, setting: dict[str, int]) -> Iterator[Issue]:
    limit, ranks = file.options.aio_max_nr, file.options.ranks
    if limit is None:
        return
    handles = file.options.handles or _handles(file)
    need = reserved_events(setting, ranks, handles)
    if need > limit:
        threads, depth = setting[THREADS], setting["queue_depth"]
        enough = max(1 << 20, 1 << (need - 1).bit_length())
        yield file.issue(
            (*TOP, "queue_depth"),
            f"({counted(threads, 'thread')} + 1) x {depth} deep x {counted(handles, 'handle')} x {counted(ranks, 'rank')} "
            f"= {need} aio events, "
            f"and fs.aio-max-nr is {limit}: the first I/O aborts",
            f"take a smaller queue_depth, or: sudo sysctl fs.aio-max-nr={enough}",
        )


def _handles(file: _File) -> int:
    pipelined = any(file.value(*map(str, OPTIMIZER), name) is True for name in ("pipeline_read", "pipeline_write"))
    known = 2 * file.on_nvme(PARAM) + (1 + pipelined) * file.on_nvme(OPTIMIZER)
    return known or _MOST_HANDLES


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"
