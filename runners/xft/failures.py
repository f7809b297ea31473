"""From what a job died of to a failure that says what it means and what to do."""

from __future__ import annotations

import re

from runners.runner import Failure

_TAKEN = re.compile(r"Address already in use|EADDRINUSE|Errno 98")
_ILLEGAL = re.compile(r"SIGILL|Illegal instruction|signal: 4\b|signal 4\b|status 132\b")
_KILLED = re.compile(r"was ended by SIGKILL|KILLED BY SIGNAL: 9|status 137\b")
_BUS = re.compile(r"SIGBUS|signal: 7\b|Bus error|status 135\b", re.IGNORECASE)
_PLACE = re.compile(r"can't place: ([^\n]+)")
_MEMORY = re.compile(r"out of memory: [^\n]+|can't allocate memory[^\n]*|std::bad_alloc|MemoryError")
_MODULE = re.compile(r"No module named '([\w.]+)'")
_LIBRARY = re.compile(r"(\S+): cannot open shared object file")
_ARGUMENT = re.compile(r"error: (?:unrecognized arguments:|argument )[^\n]+")


def explain(failure: Failure) -> Failure:
    """``failure`` of a job, by what its ranks and launcher said."""
    if failure.kind != "crash":
        return failure
    text = f"{failure.reason}\n{failure.log}"
    if match := _PLACE.search(text):
        return _as(failure, "infeasible", match[1][:300])
    if match := _MEMORY.search(text):
        return _as(failure, "infeasible", f"{_who(failure)}memory is short: {match[0][:200]}")
    if _ILLEGAL.search(text):
        why = (
            "the program uses instructions that this CPU does not have (SIGILL); xFT needs AVX-512, and AMX for bf16 and int8"
        )
        return _as(failure, "environment", f"{_who(failure)}{why}")
    if _BUS.search(text):
        mend = "sudo mount -o remount,size=16G /dev/shm (a container: --shm-size=16g)"
        return _as(failure, "crash", f"{_who(failure)}a rank died of SIGBUS: /dev/shm is full or too small; {mend}")
    if _KILLED.search(text):
        why = "killed without a word (SIGKILL), mostly by the kernel when memory is short; mpirun ends the other ranks so too"
        return _as(failure, "crash", f"{_who(failure)}{why}")
    if match := _MODULE.search(text):
        mend = f"python -m pip install {match[1].partition('.')[0]} there, or name another Python with --python"
        return _as(failure, "environment", f"{_who(failure)}its Python has no {match[1]}; {mend}")
    if match := _LIBRARY.search(text):
        return _as(failure, "environment", f"{_who(failure)}the library {match[1]} is not found there")
    if match := _ARGUMENT.search(text):
        return _as(failure, "environment", f"the program does not take its arguments: {match[0][:300]}")
    return failure


def port_taken(failure: Failure) -> bool:
    """Ranks found the port that they should meet at in use: another one will do."""
    return bool(_TAKEN.search(f"{failure.reason}\n{failure.log}"))


def _who(failure: Failure) -> str:
    match = re.match(r"rank \d+ on \S+", failure.reason)
    return f"{match[0]}: " if match else ""


def _as(failure: Failure, kind: str, reason: str) -> Failure:
    return Failure(kind, reason, failure.log, failure.seconds)  # type: ignore[arg-type]
