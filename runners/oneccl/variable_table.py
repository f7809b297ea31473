"""The environment variables of oneCCL, and those of Intel MPI and libfabric that bear on it: names, kinds, allowed values.

Where from: "guide" is the oneCCL guide (environment variables), "code" oneCCL's src/common/env (2021.14) and the names in the
libraries of oneCCL 2022.1, "mpi" the Intel MPI reference, "fabric" the libfabric manual. What values do was tried with oneCCL
2022.1 and Intel MPI 2021.18.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from spaces.oneccl import ALGORITHMS

Kind = Literal["flag", "choice", "count", "number", "cpus", "algorithms", "provider", "text"]
Source = Literal["guide", "code", "mpi", "fabric"]


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable. ``values`` are those of a choice, or the algorithms that a host buffer can have; ``least`` is the
    smallest count. ``dead`` says, as the end of a sentence, why setting it does nothing.
    """

    name: str
    kind: Kind
    source: Source
    values: tuple[str, ...] = ()
    least: int = 0
    dead: str = ""

    @property
    def device(self) -> bool:
        """Whether it is for device buffers only."""
        return self.dead == _HOST


def _each(kind: Kind, source: Source, names: str, *values: str, least: int = 0, dead: str = "") -> Iterator[Variable]:
    for name in names.split():
        yield Variable(name, kind, source, values, least, dead)


_HOST = "is for device buffers: on CPUs it does nothing"
_ROWS: tuple[Iterator[Variable], ...] = (
    # Transport
    _each("choice", "guide", "CCL_ATL_TRANSPORT", "mpi", "ofi"),
    _each("choice", "code", "CCL_ATL_MPI", "impi", "mpich"),
    _each("choice", "guide", "CCL_ATL_SEND_PROXY", "none", "regular", "usm"),
    _each("flag", "guide", "CCL_ATL_SHM CCL_ATL_HMEM"),
    _each("flag", "code", "CCL_ATL_SYNC_COLL CCL_ATL_EXTRA_EP CCL_ATL_CACHE CCL_ATL_MPI_BF16 CCL_ATL_MPI_FP16"),
    _each("flag", "code", "CCL_ATL_RMA", dead="is not read any more: oneCCL never uses RMA there"),
    _each("count", "code", "CCL_ATL_OFI_MAX_RETRY_COUNT CCL_ATL_OFI_MAJOR_VERSION CCL_ATL_OFI_MINOR_VERSION"),
    _each("choice", "guide", "CCL_MNIC", "none", "local", "global"),
    _each("choice", "guide", "CCL_MNIC_OFFSET", "none", "local_proc_idx"),
    _each("count", "guide", "CCL_MNIC_COUNT", least=1),
    _each("text", "guide", "CCL_MNIC_NAME"),
    _each("text", "code", "CCL_OFI_DOMAIN_NAMES CCL_OFI_LIBRARY_PATH CCL_MPI_LIBRARY_PATH CCL_PMIX_LIBRARY_PATH"),
    _each("flag", "code", "CCL_OFI_ENABLE_HOSTNAME_SHARING CCL_OFI_INIT_ENABLE_HOSTNAME_SHARING"),
    # Start-up
    _each("choice", "guide", "CCL_PROCESS_LAUNCHER", "hydra", "torchrun", "pmix", "none"),
    _each("count", "guide", "CCL_LOCAL_RANK"),
    _each("count", "guide", "CCL_LOCAL_SIZE CCL_WORLD_SIZE", least=1),
    _each("choice", "code", "CCL_KVS_MODE", "pmi", "mpi"),
    _each("choice", "guide", "CCL_KVS_IP_EXCHANGE", "env"),
    _each("text", "guide", "CCL_KVS_IFACE CCL_KVS_IP_PORT"),
    _each("flag", "code", "CCL_KVS_PREFER_IPV6 CCL_KVS_MPI_ALLGATHER CCL_KVS_USE_MPI_RANKS CCL_PMI_FORCE_FINALIZE"),
    _each("count", "code", "CCL_KVS_CONNECTION_TIMEOUT CCL_KVS_GET_TIMEOUT", least=1),
    _each("choice", "code", "CCL_PLUGIN", "ONECCL_LEGACY", "ONECCL_LEGACY_CPU", "ONECCL_NULL"),
    _each("choice", "code", "CCL_BACKEND", "native", "stub"),
    _each("choice", "code", "CCL_FRAMEWORK", "none", "horovod"),
    _each("text", "guide", "CCL_ROOT CCL_CONFIGURATION CCL_CONFIGURATION_PATH CCL_STUB_BACKEND_COMM_ID CCL_POD_ADDR"),
    _each("count", "code", "CCL_OCCP_CLIENT_IO_THREADS CCL_OCCP_CLIENT_OP_TIMEOUT CCL_OCCP_SERVER_IO_THREADS"),
    _each("count", "code", "CCL_OCCP_SERVER_OP_TIMEOUT CCL_OCCP_SERVER_RANKS_PER_THREAD"),
    _each("text", "code", "CCL_OCCP_LOG_LEVEL CCL_OCCP_SERVER_HOSTNAME"),
    # Progress
    _each("count", "guide", "CCL_WORKER_COUNT", least=1),
    _each("flag", "guide", "CCL_WORKER_OFFLOAD CCL_WORKER_WAIT"),
    _each("cpus", "guide", "CCL_WORKER_AFFINITY CCL_WORKER_MEM_AFFINITY"),
    _each("count", "code", "CCL_SPIN_COUNT", least=1),
    _each("choice", "code", "CCL_YIELD", "none", "pause", "sleep", "sched_yield"),
    _each("choice", "guide", "CCL_PRIORITY", "none", "direct", "lifo"),
    # Algorithms
    *(_each("algorithms", "guide", f"CCL_{name.upper()}", *ALGORITHMS[name]) for name in ALGORITHMS),
    _each("algorithms", "code", "CCL_SEND CCL_RECV", "direct"),
    _each("algorithms", "code", "CCL_SCATTER CCL_GATHER", "naive"),
    _each("flag", "code", "CCL_ALGO_FALLBACK CCL_UNORDERED_COLL CCL_STRICT_ORDER CCL_OP_SYNC CCL_OVERLAPPING_COLLECTIVES"),
    _each("count", "guide", "CCL_CHUNK_COUNT CCL_RS_CHUNK_COUNT CCL_MIN_CHUNK_SIZE CCL_RS_MIN_CHUNK_SIZE", least=1),
    _each("count", "guide", "CCL_ALLREDUCE_2D_CHUNK_COUNT CCL_ALLREDUCE_2D_MIN_CHUNK_SIZE", least=1),
    _each("flag", "code", "CCL_ALLREDUCE_2D_SWITCH_DIMS CCL_ALLREDUCE_NREDUCE_BUFFERING"),
    _each("count", "code", "CCL_ALLREDUCE_NREDUCE_SEGMENT_SIZE CCL_DTREE_PARTITION_COUNT CCL_BCAST_PART_COUNT", least=1),
    _each("count", "code", "CCL_ALLTOALL_SCATTER_MAX_OPS CCL_ENTRY_MAX_UPDATE_TIME_SEC", least=1),
    _each("count", "code", "CCL_MAX_SHORT_SIZE CCL_SELECTION_MAX_COLL_SIZE CCL_FINALIZE_EVENT_GC_THRESHOLD"),
    _each("flag", "guide", "CCL_FUSION CCL_FUSION_CHECK_URGENT"),
    _each("count", "guide", "CCL_FUSION_BYTES_THRESHOLD CCL_FUSION_COUNT_THRESHOLD", least=1),
    _each("number", "guide", "CCL_FUSION_CYCLE_MS"),
    _each("choice", "code", "CCL_CACHE_KEY", "match_id", "full"),
    _each("flag", "code", "CCL_CACHE_FLUSH CCL_BUFFER_CACHE CCL_ENABLE_AUTO_CACHE CCL_CHECK_INPLACE_ALIASING"),
    _each("flag", "code", "CCL_ENABLE_OMP_COLL CCL_ENABLE_OMP_ALLREDUCE CCL_ENABLE_OMP_ALLGATHERV"),
    _each(
        "text", "code", "CCL_OMP_ALLREDUCE_NUM_THREADS CCL_BF16 CCL_FP16 CCL_SELECTION_POLICY CCL_UNORDERED_COLL_COORDINATOR"
    ),
    _each("flag", "code", "CCL_USE_MPI_BCAST_WA CCL_USE_ROOT_PRINT_WA CCL_IPC_ALLGATHERV_WA"),
    # Logs
    _each("choice", "guide", "CCL_LOG_LEVEL", "error", "warn", "info", "debug", "trace"),
    _each("flag", "code", "CCL_ABORT_ON_THROW CCL_QUEUE_DUMP CCL_SCHED_DUMP CCL_SCHED_PROFILE CCL_PROFILING_ENABLE"),
    _each("text", "code", "CCL_LOG_FILE CCL_PLATFORM_INFO_HIDE CCL_ITT_LEVEL CCL_DEBUG_TIMESTAMPS_LEVEL"),
    # Other buffers, and gone
    _each("text", "code", "CCL_STAGING_BUFFER CCL_USE_HMEM CCL_BARRIER_SYNC CCL_OP_SYCL_SERIALIZE", dead=_HOST),
    _each("text", "code", "CCL_REDUCE_SCATTER_FALLBACK_ALGO CCL_SCALEOUT_HOST_BUF_SIZE CCL_ENABLE_SYCL_KERNELS", dead=_HOST),
    _each("text", "code", "CCL_USE_ZESINIT CCL_USE_EXTERNAL_QUEUE CCL_WIN_COLL_SYMMETRIC", dead=_HOST),
    _each("text", "code", "CCL_ATL_OFI_TIMEOUT_SEC CCL_PM_TYPE", dead="is gone from oneCCL 2022 and does nothing there"),
    # Intel MPI
    _each("choice", "mpi", "I_MPI_FABRICS", "shm", "ofi", "shm:ofi"),
    _each("provider", "mpi", "I_MPI_OFI_PROVIDER"),
    # libfabric
    _each("provider", "fabric", "FI_PROVIDER"),
)
TABLE: dict[str, Variable] = {variable.name: variable for row in _ROWS for variable in row}

# Names that come and go with GPU support; none of them reaches CPU buffers.
_DEVICE = re.compile(
    r"CCL_(?:(?:ZE|SYCL|KERNEL|TOPO|DRMFD|UMF)_\w+|\w+_(?:SCALEOUT|PIPE_CHUNK_COUNT|TOPO_READ|TOPO_LARGE_SCALE)|"
    r"\w+_MONOLITHIC_\w*KERNEL)"
)
# Providers that libfabric has or had, the usual ones first.
PROVIDERS = (
    "tcp", "shm", "verbs;ofi_rxm", "verbs", "psm3", "mlx", "ucx", "efa", "opx", "cxi", "psm2", "psm", "ofi_rxm", "ofi_rxd",
    "verbs;ofi_rxd", "udp", "udp;ofi_rxd", "sockets", "net", "sm2", "lnx", "gni", "bgq", "usnic", "ofi_mrail", "off_coll",
)  # fmt: skip


def known(name: str) -> Variable | None:
    """The variable of that name; None where there is none."""
    if name not in TABLE and _DEVICE.fullmatch(name):
        return Variable(name, "text", "guide", dead=_HOST)
    return TABLE.get(name)
