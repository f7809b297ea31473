"""The engine xft with a program in place of benchmark.py, started for real: this machine need not be able to load xFT."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from runners.runner import Failure
from runners.xft.engines.engine import Run
from runners.xft.engines.xft_engine import XftEngine
from runners.xft.goal import Goal
from runners.xft.layout import Layout, RankPlace
from runners.xft.model_files import find
from runners.xft.options import Options
from runners.xft.place import Place
from runners.xft.seats import Memory

pytestmark = pytest.mark.system
CORES = tuple(sorted(os.sched_getaffinity(0)))
_HEAD = "import argparse, json, os, signal, sys\np = argparse.ArgumentParser()\n"
_OPTIONS = ("model_name", "model_path", "token_path", "prompt_path", "token_in", "token_out", "batch_size", "iteration",
            "warmup", "dtype")  # fmt: skip
PARSER = _HEAD + "".join(f"p.add_argument('--{name}')\n" for name in _OPTIONS) + "given = p.parse_args()\n"
PRINTS = PARSER + (
    "print('[INFO] ENABLE_TUNED_COMM is enabled for faster reduceAdd.')\n"
    "print('The folder does not exist. Using fake weight!')\n"
    "print('\\x1b[32m' + '=' * 50 + given.model_name + ' Final Performance' + '=' * 50 + '\\x1b[0m')\n"
    "print('First token Avg Latency:\\t90.00 ms\\nNext token Avg Latency:\\t12.50 ms')\n"
    "open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'seen'), 'w').write(json.dumps(\n"
    "    [vars(given), sorted(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS'], os.getcwd()]))\n"
)


def engine(tmp_path: Path, text: str) -> XftEngine:
    benchmark, config = tmp_path / "benchmark", tmp_path / "examples" / "model_config" / "llama-2-7b"
    benchmark.mkdir()
    config.mkdir(parents=True)
    (benchmark / "benchmark.py").write_text(text)
    (config / "config.ini").write_text("[llama]\n")
    options = Options(engine="xft", model="llama-2-7b", benchmark=str(tmp_path), launcher="ssh", python=sys.executable)
    place = Place.of(options)
    place.__dict__["told"] = {"localhost": {"engines": {"xfastertransformer": "2.1.2"}, "libraries": {}}}
    return XftEngine(place, find("llama-2-7b"), Goal.of(options), options, "bf16")


def layout(**env: str) -> Layout:
    given = {"OMP_NUM_THREADS": "1", **env}
    return Layout((RankPlace(0, "localhost", 0, CORES[:1], 1, Memory(), given),))


def measured(tmp_path: Path, text: str) -> Run | Failure:
    return engine(tmp_path, text).measure(layout(), 60)


def test_its_figures_and_what_its_ranks_had_are_read(tmp_path: Path) -> None:
    found = measured(tmp_path, PRINTS)
    assert isinstance(found, Run), found
    (request,) = found.requests
    assert (request.first_ms, request.next_ms) == (90.0, (12.5,))
    assert found.evidence["weights"] == "fake"
    (report,) = found.reports
    assert report["cpus"] == list(CORES[:1])
    seen: list[Any] = json.loads((tmp_path / "benchmark" / "seen").read_text())
    assert seen[0]["token_in"] == "32"
    assert seen[1:] == [list(CORES[:1]), "1", str(tmp_path / "benchmark")]


@pytest.mark.parametrize(
    ("text", "kind", "word"),
    [
        ("import os, signal\nos.kill(os.getpid(), signal.SIGILL)\n", "environment", "AVX-512"),
        ("import argparse\np = argparse.ArgumentParser()\np.parse_args()\n", "environment", "unrecognized arguments"),
        ("import nosuchmodule\n", "environment", "no nosuchmodule"),
        (PARSER + "print('loading')\n", "crash", "holds no figures"),
        ("raise SystemExit('[ERROR] Plese use --input_prompt if you want custom input.')\n", "crash", "status 1"),
    ],
)
def test_what_it_dies_of_is_named(tmp_path: Path, text: str, kind: str, word: str) -> None:
    found = measured(tmp_path, text)
    assert isinstance(found, Failure), found
    assert found.kind == kind, found
    assert word in found.reason


def test_several_ranks_need_an_mpi_of_xfts_kind(tmp_path: Path) -> None:
    of = engine(tmp_path, PRINTS)
    one = layout()
    two = Layout((*one.ranks, *one.ranks))
    assert of.refuses(one) == ""
    assert "Intel MPI or MPICH" in of.refuses(two)
