"""The MPIs that tests can start: one folder each below .venv/mpi (``make .venv/.mpi``), or below CLUSTERTUNE_TEST_MPI."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

KINDS = {"intel": "12", "mpich": "12", "openmpi": "40"}
_ROOT = Path(__file__).resolve().parents[3]


def folder(kind: str) -> Path:
    """Where an MPI is installed, with bin and lib below. Skips the test where it isn't."""
    path = Path(os.environ.get("CLUSTERTUNE_TEST_MPI", _ROOT / ".venv" / "mpi")) / kind
    if not (path / "bin" / "mpirun").exists():
        pytest.skip(f"needs the MPI {kind} in {path} (make .venv/.mpi)")
    return path


def library(kind: str) -> Path:
    return folder(kind) / "lib" / f"libmpi.so.{KINDS[kind]}"
