"""What else bears on an aio block: the DeepSpeed that will read it, the ranks on a node, and the machine's limits."""

from __future__ import annotations

import importlib.metadata
import re
from dataclasses import dataclass, field
from pathlib import Path

from runners.options import option
from runners.runner import Json
from tuner.errors import WrongUsage
from tuner.exporters import format as contract

# The release that renamed `thread_count` to `intra_op_parallelism` (pull request 7056); 0.16.3 reads only the old name,
# 0.16.4 only the new one.
RENAMED = (0, 16, 4)

_VERSION = re.compile(r"v?(\d+(?:\.\d+)+)(?:[-+.]?[A-Za-z].*|\+.*)?")


@dataclass(frozen=True, slots=True)
class FileOptions:
    """What `tune export` and `tune lint` let a user say about an aio block; None leaves it to this machine."""

    deepspeed_version: str | None = field(
        default=None, metadata=option("DeepSpeed that reads the file, where it isn't the one installed here.", "VERSION")
    )
    ranks: int | None = field(default=None, metadata=option("Ranks on one node, for the check against aio-max-nr.", "N"))
    handles: int | None = field(default=None, metadata=option("aio handles of each rank, for the same check.", "N"))


@dataclass(frozen=True, slots=True)
class Options:
    """The aio exporter's own view of the options; what is None is not known, and checks that need it are left out.

    ``version`` None is the present DeepSpeed; ``handles`` is a rank's number of aio handles, ``memory`` bytes of RAM,
    ``aio_max_nr`` the kernel's fs.aio-max-nr, ``cuda`` whether a CUDA device is here.
    """

    version: tuple[int, ...] | None = None
    ranks: int = 1
    handles: int | None = None
    memory: int | None = None
    aio_max_nr: int | None = None
    cuda: bool | None = None

    @property
    def thread_key(self) -> str:
        """The only key that this DeepSpeed reads the number of threads from."""
        return "thread_count" if self.version is not None and self.version < RENAMED else "intra_op_parallelism"

    @property
    def reader(self) -> str:
        """The DeepSpeed that reads the file, as it is called in a sentence."""
        return "today's DeepSpeed" if self.version is None else f"DeepSpeed {'.'.join(map(str, self.version))}"


def read(options: contract.Options) -> Options:
    """The options that matter here, checked; raises WrongUsage."""
    cuda = options.get("cuda")
    return Options(
        version=_version(options.get("deepspeed_version")),
        ranks=contract.whole_number(options, "ranks", 1) or 1,
        handles=contract.whole_number(options, "handles", None),
        memory=contract.whole_number(options, "memory", None),
        aio_max_nr=contract.whole_number(options, "aio_max_nr", None),
        cuda=cuda if isinstance(cuda, bool) else None,
    )


def machine_options() -> dict[str, Json]:
    """The installed DeepSpeed's version, this machine's memory (a container's limit counts), aio-max-nr, and CUDA."""
    found: dict[str, Json] = {"cuda": Path("/dev/nvidiactl").exists()}
    try:
        found["deepspeed_version"] = importlib.metadata.version("deepspeed")
    except importlib.metadata.PackageNotFoundError:
        found["deepspeed_version"] = None
    memory = [
        *(int(size) << 10 for size in re.findall(r"^MemTotal:\s+(\d+) kB", _text("/proc/meminfo"), re.MULTILINE)),
        *(int(size) for size in re.findall(r"^\d+$", _text("/sys/fs/cgroup/memory.max"), re.MULTILINE)),
    ]
    found["memory"] = min(memory, default=None)
    limit = _text("/proc/sys/fs/aio-max-nr").strip()
    found["aio_max_nr"] = int(limit) if limit.isdecimal() else None
    return found


def _version(value: Json) -> tuple[int, ...] | None:
    if value is None:
        return None
    match = _VERSION.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise WrongUsage(f"--deepspeed-version {value}: is not a version; write it like 0.16.4.")
    numbers = tuple(int(part) for part in match[1].split("."))
    return numbers + (0,) * (3 - len(numbers))


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
