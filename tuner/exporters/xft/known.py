"""Variables of xFT and of OpenMP runtimes by what they are worth in a launch script: read, dead, or misspelt."""

from __future__ import annotations

import difflib
import re

from spaces.xft import VARIABLES

# Set by xFT's own scripts and read by nothing in its releases 1.8 to 2.1. Of some its branch test/distributed was a reader:
# who runs that keeps them, so that taking them out is no safe mend.
_OF_A_BRANCH = "only its old branch test/distributed did"
DEAD = {
    "XFT_COMM_TIME": _OF_A_BRANCH,
    "XFT_TIMELINE": _OF_A_BRANCH,
    "ENABLE_CBLAS_MLP": _OF_A_BRANCH,
    "is_ali_cloud": f"{_OF_A_BRANCH}; run.sh has XFT_CLOUD_ENV instead",
    "XFT_ONECCL_BF16": "no version ever did",
}
DEAD_EVERYWHERE = frozenset({"XFT_ONECCL_BF16"})
_READ = (
    *VARIABLES,
    "ENABLE_KV_TRANS", "ENABLE_SKIP_MASK", "XFT_FAKE_MODEL", "XFT_FAKE_LOAD_INFO", "XFT_VERBOSE", "XFT_DEBUG_DIR",
    "XFT_ENGINE", "XFT_TIMELINE_WHITELIST", "XFT_MAX_REQUEST_NUM", "XFT_PIPELINE_STAGE", "SINGLE_INSTANCE", "XFT_CLOUD_ENV",
    "OMP_SCHEDULE", "OMP_STACKSIZE", "OMP_DYNAMIC", "OMP_NESTED", "OMP_MAX_ACTIVE_LEVELS", "OMP_THREAD_LIMIT",
    "OMP_DISPLAY_ENV", "OMP_DISPLAY_AFFINITY", "OMP_AFFINITY_FORMAT", "OMP_CANCELLATION", "OMP_DEFAULT_DEVICE",
    "OMP_MAX_TASK_PRIORITY", "OMP_NUM_TEAMS", "OMP_TEAMS_THREAD_LIMIT", "OMP_TARGET_OFFLOAD", "OMP_TOOL", "OMP_ALLOCATOR",
    "KMP_AFFINITY", "KMP_SETTINGS", "KMP_LIBRARY", "KMP_TPAUSE", "KMP_HW_SUBSET", "KMP_STACKSIZE", "KMP_VERSION",
    "KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK", "KMP_FORKJOIN_BARRIER_PATTERN", "KMP_PLAIN_BARRIER_PATTERN",
    "KMP_REDUCTION_BARRIER_PATTERN", "KMP_FORKJOIN_BARRIER", "KMP_PLAIN_BARRIER", "KMP_REDUCTION_BARRIER", "KMP_WARNINGS",
    "KMP_USER_LEVEL_MWAIT", "KMP_ENABLE_TASK_THROTTLING", "KMP_DETERMINISTIC_REDUCTION", "KMP_TOPOLOGY_METHOD",
    "GOMP_STACKSIZE", "GOMP_DEBUG", "GOMP_RTEMS_THREAD_POOLS",
)  # fmt: skip
KNOWN = frozenset(_READ)
# Words that tell a file of CPU inference from others.
SIGNS = re.compile(
    r"\b(?:XFT_[A-Z_]+|ENABLE_TUNED_COMM|ENABLE_CAT_MLP|ENABLE_KV_TRANS|FLASH_ATTN_THRESHOLD|xfastertransformer|xFasterTransformer|"
    r"(?:FIRST|NEXT)_TOKEN_WEIGHT_LOCATION|CLUSTERTUNE_(?:RANKS|THREADS|SPARE_CORES|SIBLINGS|SOCKETS|MEMORY|OPENMP))\b"
)
_PREFIXES = ("XFT_", "OMP_", "KMP_", "GOMP_", "ENABLE_", "XDNN_", "FLASH_")
# Names that are a letter or two away and mean something else.
_ALIKE = 0.9


def meant(name: str) -> str | None:
    """The variable that ``name`` plainly stands for; None where it is one itself, or like none."""
    if name in KNOWN or name in DEAD or not re.fullmatch(r"[A-Za-z0-9_]{4,60}", name):
        return None
    if name.upper() in KNOWN:
        return name.upper()
    if not name.startswith(_PREFIXES):
        return None
    close = difflib.get_close_matches(name, sorted(KNOWN), 1, _ALIKE)
    return close[0] if close else None
