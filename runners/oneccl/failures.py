"""From what a job died of to a failure that says what it means and what to do."""

from __future__ import annotations

import re

from runners.runner import Failure

# Intel MPI's launcher, when MPI_Init fails.
_INIT_STATUS = "status 143"
NO_PROVIDER = "the provider"
_PROVIDER = re.compile(r"OFI fi_getinfo\(\) failed[^\n]*|can't find suitable provider|can't create providers for name \S+")
_EXCEPTION = re.compile(r"EXCEPTION: ([^\n]+)")
_MPI = re.compile(r"Fatal error in (?:internal_)?Init_thread")
# MPI's stack of an error, the innermost call last: "find_provider(3064)..........: OFI fi_getinfo() failed (…)".
_STACK = re.compile(r"^\w+\(\d+\)\.*: *(\S[^\n]*)$", re.MULTILINE)
_BUS = re.compile(r"SIGBUS|signal: 7|Bus error", re.IGNORECASE)
_TAKEN = re.compile(r"Address already in use|Errno 98")
_ABSENT = re.compile(r"oneCCL: (\S*libccl[^\n]*)")


def explain(failure: Failure, env: dict[str, str], working: tuple[str, ...] = ()) -> Failure:
    """``failure`` of a job with the variables ``env``, by its kind; ``working`` are providers that did start here."""
    text = f"{failure.reason}\n{failure.log}"
    others = f"; {', '.join(working)} does start here" if working else ""
    if failure.kind == "infeasible" and failure.reason.startswith(NO_PROVIDER) and others not in failure.reason:
        return _as(failure, "infeasible", failure.reason + others)
    if failure.kind != "crash":
        return failure
    if _BUS.search(text):
        mend = "sudo mount -o remount,size=2G /dev/shm (a container: --shm-size=2g)"
        reason = f"a rank died of SIGBUS: /dev/shm is full or too small; {mend}"
        return _as(failure, "crash", reason)
    if match := _PROVIDER.search(text):
        name = env.get("I_MPI_OFI_PROVIDER") or env.get("FI_PROVIDER") or "that libfabric would take by itself"
        return _as(failure, "infeasible", f"{NO_PROVIDER} {name} can't be started here: {match[0]}{others}")
    if match := _EXCEPTION.search(text):
        return _as(failure, "infeasible", f"oneCCL refuses the setting: {match[1].strip()[:300]}")
    if _MPI.search(text):
        said = _STACK.findall(text)
        return _as(failure, "infeasible", f"MPI can't start with the setting: {said[-1][:300] if said else 'see the log'}")
    if match := _ABSENT.search(text):
        return _as(failure, "environment", match[1][:300])
    return failure


def last_words_lost(failure: Failure) -> bool:
    """MPI gave up at its start, and its launcher ended the ranks before they could tell why: it may be heard next time."""
    return failure.kind == "crash" and _INIT_STATUS in failure.reason


def port_taken(failure: Failure) -> bool:
    """Rank 0 found the port that the ranks should meet at in use: another one will do."""
    return bool(_TAKEN.search(f"{failure.reason}\n{failure.log}"))


def _as(failure: Failure, kind: str, reason: str) -> Failure:
    return Failure(kind, reason, failure.log, failure.seconds)  # type: ignore[arg-type]
