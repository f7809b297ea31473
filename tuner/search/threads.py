"""How many threads the models' matrices may use: one."""

from __future__ import annotations

from functools import cache
from typing import Any


def one_thread() -> Any:
    """A context in which BLAS uses one thread: matrices of this size gain nothing from more, and lose much where the machine
    is busy.
    """
    return _controller().limit(limits=1, user_api="blas")


@cache
def _controller() -> Any:
    # Looking for the process's libraries takes longer than a proposal; those that are loaded later keep their threads.
    from threadpoolctl import ThreadpoolController

    import tuner.search.gaussian  # noqa: F401  with it scipy's BLAS is loaded

    return ThreadpoolController()
