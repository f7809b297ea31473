"""What a user may ask of every target that measures a mount: what is read, how, and by how many at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from runners.mount import generated
from runners.mount.work import Work
from runners.options import option
from runners.runner import UsageError
from spaces.units import format_size, parse_duration, parse_size

Pattern = Literal["sequential", "random"]


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """To be inherited by a target's options. What is text is checked by ``work_of`` and the load."""

    load: str = field(
        default="auto",
        metadata=option(
            "What reads: fio, torch (a DataLoader), dlio, or a workload of MLPerf Storage (unet3d, bert, resnet50, "
            "cosmoflow); auto takes torch where it is installed, else fio.",
            "NAME",
        ),
    )
    data: str = field(
        default="",
        metadata=option("What is read: a file, folder or pattern inside the mount; the largest files, if none.", "PATH"),
    )
    generate: str = field(
        default="",
        metadata=option("Write a data set of this size into what is mounted, read that, and remove it at the end.", "SIZE"),
    )
    pattern: Pattern = field(
        default="sequential",
        metadata=option("Order of the reads: fio's blocks, or the files that a DataLoader takes."),
    )
    block_size: str = field(default="256K", metadata=option("Bytes of one read.", "SIZE"))
    jobs: int = field(
        default=4, metadata=option("Readers at once, as many as the job has (DataLoader workers, fio jobs).", "N")
    )
    read_time: str = field(default="5s", metadata=option("How long one measurement reads.", "DURATION"))
    cold: bool = field(default=False, metadata=option("Every byte comes from the store; so it is without --warm."))
    warm: bool = field(
        default=False, metadata=option("Read once before it is timed: the mount's own cache answers, if it has one.")
    )
    direct: bool = field(default=False, metadata=option("Read past the kernel's page cache (O_DIRECT), where the job does."))
    memory: str = field(
        default="",
        metadata=option("What a setting may hold in memory; half of what is available, if none.", "SIZE"),
    )
    scratch: str = field(
        default="",
        metadata=option("Folder for mount points and caches of ours; the system's temporary folder, if none.", "DIR"),
    )
    system: bool = field(
        default=False,
        metadata=option("Tune what the kernel grants a mount, too: read-ahead beyond 128K, requests under way (needs root)."),
    )
    accelerators: int = field(default=1, metadata=option("Accelerators that dlio emulates.", "N"))
    tune_reader: bool = field(
        default=False,
        metadata=option("Tune dlio's reader together with the mount, as far as MLPerf's CLOSED division allows it."),
    )
    open: bool = field(default=False, metadata=option("With --tune-reader: what the OPEN division allows, too."))
    hosts: str = field(
        default="",
        metadata=option(
            "Client hosts that mount and read together: a hosts file, an Ansible inventory, or names like a,b. Without any, "
            "this machine alone.",
            "FILE|LIST",
        ),
    )
    ssh: str = field(default="ssh", metadata=option("The ssh command, with options that it needs.", "COMMAND"))
    python: str = field(
        default="", metadata=option("The Python 3.10 or newer that is started on the hosts; python3, if none.", "PROGRAM")
    )
    load_option: list[str] = field(
        default_factory=list,
        metadata=option("Handed on to the load as it is, like reader.read_threads=8 for dlio; may be repeated.", "NAME=VALUE"),
    )


def work_of(options: LoadOptions) -> Work:
    """The options, checked and in numbers. Raises UsageError."""
    if options.cold and options.warm:
        raise UsageError("warm", "--cold", "can't be asked for together: they are two studies")
    for name, number in (("jobs", options.jobs), ("accelerators", options.accelerators)):
        if not 1 <= number <= 4096:
            raise UsageError(name, number, "must be from 1 to 4096")
    block = _size("block-size", options.block_size)
    if not 512 <= block <= 1 << 30 or block % 512:
        raise UsageError("block-size", options.block_size, "must be a multiple of 512 bytes, from 512 to 1G")
    try:
        seconds = parse_duration(options.read_time)
    except ValueError as error:
        raise UsageError("read-time", options.read_time, str(error)) from None
    if not 0.5 <= seconds <= 3600:
        raise UsageError("read-time", options.read_time, "must be from 0.5s to 1h")
    memory = _size("memory", options.memory) if options.memory else None
    if memory is not None and memory < 1 << 20:
        raise UsageError("memory", options.memory, "must be at least 1M")
    generate = _generated(options)
    return Work(
        pattern=options.pattern,
        block_size=block,
        jobs=options.jobs,
        seconds=seconds,
        warm=options.warm,
        direct=options.direct,
        data=_inside(options.data),
        memory=memory,
        accelerators=options.accelerators,
        extra=tuple(_pair(text) for text in options.load_option),
        reader=("open" if options.open else "closed") if options.tune_reader else "",
        generate=generate,
    )


def _generated(options: LoadOptions) -> int:
    if not options.generate:
        return 0
    size = _size("generate", options.generate)
    if not generated.SMALLEST <= size <= generated.LARGEST:
        smallest, largest = format_size(generated.SMALLEST), format_size(generated.LARGEST)
        raise UsageError("generate", options.generate, f"must be from {smallest} to {largest}")
    if options.data:
        raise UsageError("generate", options.generate, "makes what is read, and --data names something else: leave one out")
    if options.load not in ("auto", "fio", "torch"):
        why = f"makes plain files; those of --load {options.load} are made by tune mlperf run --files N"
        raise UsageError("generate", options.generate, why)
    return size


def _size(name: str, text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise UsageError(name, text, str(error)) from None


def _inside(text: str) -> str:
    """A path below the mount; what leads out of it is refused."""
    if text.startswith("/") or ".." in text.split("/") or "\0" in text:
        raise UsageError("data", text, "must be a path inside the mount, without a leading / and without .. in it")
    return text.strip("/")


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError("load-option", text, "must be NAME=VALUE")
    return name, value
