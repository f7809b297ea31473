"""The libraries that proposals need, loaded while a run prepares: about a second that nobody waits for then."""

from __future__ import annotations

import contextlib
import importlib
import threading

_NEEDED = ("tuner.search.gaussian", "scipy.special", "sklearn.tree", "optuna.samplers")


def load() -> threading.Thread:
    """Starts loading and returns at once; join before anything is measured that counts. What can't be loaded is no matter
    here: who needs it says so.
    """
    thread = threading.Thread(target=_load, name="loading", daemon=True)
    thread.start()
    return thread


def _load() -> None:
    with contextlib.suppress(ImportError):
        for name in _NEEDED:
            importlib.import_module(name)
