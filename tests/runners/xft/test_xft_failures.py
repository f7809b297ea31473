"""What a job died of becomes a kind and a sentence that says what to do."""

from __future__ import annotations

import pytest

from runners.runner import Failure
from runners.xft.failures import explain, port_taken


@pytest.mark.parametrize(
    ("reason", "log", "kind", "word"),
    [
        ("rank 1 on hbB was ended by SIGILL", "", "environment", "rank 1 on hbB: the program uses instructions"),
        ("rank 0 on hbA ended with status 132", "", "environment", "AVX-512"),
        ("rank 3 on hbB was ended by SIGKILL", "", "crash", "memory is short"),
        ("rank 0 on hbA was ended by SIGBUS", "", "crash", "shm-size"),
        ("rank 0 on hbA ended with status 4", "can't place: memory can't be placed (bind 1)", "infeasible", "(bind 1)"),
        ("rank 0 on hbA ended with status 5: out of memory: no memory for this", "", "infeasible", "memory is short"),
        ("rank 1 on hbB ended with status 1", "No module named 'torch.distributed'", "environment", "pip install torch "),
        ("rank 1 on hbB ended with status 1", "libccl.so.1: cannot open shared object file", "environment", "libccl.so.1"),
        ("rank 1 on hbB ended with status 2", "error: unrecognized arguments: --beam_width 1", "environment", "--beam"),
        ("rank 1 on hbB ended with status 9", "something else", "crash", "status 9"),
    ],
)  # fmt: skip
def test_every_death_has_its_sentence(reason: str, log: str, kind: str, word: str) -> None:
    told = explain(Failure("crash", reason, log, 1.5))
    assert (told.kind, told.seconds) == (kind, 1.5)
    assert word in told.reason


def test_what_is_no_crash_stays_as_it_is() -> None:
    failure = Failure("timeout", "the job was stopped after 3.0 s", "SIGILL somewhere")
    assert explain(failure) is failure


def test_a_port_in_use_is_seen() -> None:
    assert port_taken(Failure("crash", "rank 0 on hbA ended with status 1", "OSError: [Errno 98] Address already in use"))
    assert not port_taken(Failure("crash", "rank 0 on hbA ended with status 1"))
