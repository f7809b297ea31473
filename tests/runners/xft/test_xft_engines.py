"""Programs that run once: their figures by pattern or by xFT's lines, and what is refused before anything starts."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.sysfs import SPR, topology
from support.sysfs import Host as Shape

from runners.launch.job import Ended
from runners.launch.reach import last_line
from runners.runner import EnvironmentProblem, UsageError
from runners.xft.choose import choose
from runners.xft.engines import command, oneshot, torch_bench, watch
from runners.xft.engines.oneshot import report_of
from runners.xft.engines.torch_engine import TorchEngine
from runners.xft.engines.xft_engine import XftEngine
from runners.xft.goal import Goal, Request
from runners.xft.model_files import find
from runners.xft.options import Options
from runners.xft.place import Place, strays
from runners.xft.plan import Plan
from runners.xft.possible import refused
from runners.xft.results import Figures, parse
from spaces.xft import SPACE, Software

GOAL = Goal(2, 32, 4, "next-token")


def place(tmp_path: Path, shape: Shape = Shape((4, 4), 2, flags=SPR), engines: Any = None, **options: Any) -> Place:  # noqa: B008
    made = Place.of(Options(**{"launcher": "ssh", **options}))
    have = {"torch": "2.13"} if engines is None else engines
    told = {"engines": have, "libraries": {}, "there": [], "network": {"rdma": {}, "shm": 1 << 30}}
    made.__dict__["told"] = {"localhost": told}
    made.__dict__["topologies"] = {"localhost": topology(tmp_path, shape)}
    return made


def chosen(where: Place) -> Any:
    return choose(where.options, where, find(where.options.model), Goal.of(where.options))


@pytest.mark.parametrize(
    ("pattern", "text", "requests"),
    [
        (r"tpot=(?P<next_ms>\S+)", "tpot=10.5\ntpot=11\n", (Request(None, (10.5,)), Request(None, (11.0,)))),
        (r"ttft=(?P<first_ms>\S+) tpot=(?P<next_ms>\S+)", "x ttft=90 tpot=1e1", (Request(90.0, (10.0,)),)),
        (r"ttft=(?P<first_ms>\S+)|tpot=(?P<next_ms>\S+)", "ttft=90\ntpot=10\n", (Request(90.0, (10.0,)),)),
        (r"(?P<tokens_per_s>[\d.]+) tok/s", "40 tok/s", (Request(None, (50.0,)),)),
    ],
)
def test_figures_are_found_by_pattern(pattern: str, text: str, requests: tuple[Request, ...]) -> None:
    assert command.of_pattern(command.compiled(pattern), text, GOAL) == requests


@pytest.mark.parametrize(
    ("pattern", "text", "said"),
    [
        (r"tpot=(?P<next_ms>\S+)", "nothing here", "matches nothing"),
        (r"tpot=(?P<next_ms>\S+)", "tpot=fast", "'fast' for next_ms, which is no number"),
        (r"tpot=(?P<next_ms>\S+)", "tpot=0", "which no program takes"),
        (r"ttft=(?P<first_ms>\S+)|tpot=(?P<next_ms>\S+)", "ttft=9\ntpot=1\ntpot=2", "1 times of first tokens and 2"),
    ],
)
def test_figures_that_are_none_are_said(pattern: str, text: str, said: str) -> None:
    found = command.of_pattern(command.compiled(pattern), text, GOAL)
    assert isinstance(found, str)
    assert said in found


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"engine": "command"}, "--engine command: name the program with --program"),
        ({"program": "x", "engine": "torch"}, "--program x: is for --engine command"),
        ({"pattern": "x"}, "--pattern x: is for the output of a --program"),
        ({"benchmark": "x", "engine": "torch"}, "--benchmark x: is for --engine xft"),
        ({"program": "'x"}, "a quote is not closed"),
        ({"program": "/no/such/thing --now"}, "there is no /no/such/thing"),
        ({"program": "~nosuchuser/thing --now"}, "there is no such user"),
        ({"program": "/dev/ --now"}, "/dev/ is a folder"),
        ({"program": "/etc/passwd --now"}, "/etc/passwd may not be executed: chmod +x, or name what runs it first"),
        ({"program": sys.executable, "pattern": "("}, "is no regular expression"),
        ({"program": sys.executable, "pattern": "x"}, "needs groups named next_ms"),
        ({"dtype": "fp33"}, "--dtype fp33: is none of"),
        ({"layers": 9}, "--layers 9: the model has 4 layers"),
        ({"layers": -1}, "--layers -1"),
        ({"layers": 1, "program": sys.executable}, "computes all layers"),
        ({"engine": "xft"}, "name xFT's benchmark.py"),
        ({"engine": "xft", "benchmark": "/no/such"}, "is neither xFT's benchmark.py nor a checkout"),
    ],
)
def test_options_that_do_not_fit_are_named(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        chosen(place(tmp_path, **options))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mpi": "/no/such/mpirun", "launcher": "auto"}, "--mpi /no/such/mpirun: there is no such program"),
        ({"mpi": "nosuchmpirun", "launcher": "auto"}, "no folder of the PATH"),
        ({"mpi": "x", "launcher": "ssh"}, "is not used with --launcher ssh"),
        ({"ssh": "'"}, "a quote is not closed"),
    ],
)
def test_launchers_that_are_not_there_are_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        Place.of(Options(**options))
    assert said in str(caught.value)


def test_a_named_program_that_is_no_mpirun_is_an_environment_problem() -> None:
    with pytest.raises(EnvironmentProblem, match="is the launcher of neither"):
        Place.of(Options(mpi="/bin/true"))


def checkout(folder: Path) -> Path:
    (folder / "benchmark").mkdir(parents=True)
    (folder / "benchmark" / "benchmark.py").write_text("raise SystemExit(1)\n")
    (folder / "benchmark" / "prompt.json").write_text(json.dumps({"llama": {"32": "x", "64": "y"}}))
    config = folder / "examples" / "model_config" / "llama-2-7b"
    config.mkdir(parents=True)
    (config / "config.ini").write_text("[llama]\nhead_num=32\n")
    return folder


def test_xfts_own_program_gets_its_own_words(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "xft")
    where = place(tmp_path / "h", benchmark=str(folder), model="llama-2-7b", engine="xft", input_tokens=64, python="py")
    engine = chosen(where).engine
    assert isinstance(engine, XftEngine)
    words = engine.command()
    assert words[:2] == ("py", "benchmark.py")
    given = dict(zip(words[2::2], words[3::2], strict=True))
    assert given["--token_in"] == "64"
    assert given["--dtype"] == "bf16"
    assert given["--model_name"] == "llama-2-7b"
    assert "--beam_width" not in given, "benchmark.py of today ends with an error for it"
    assert engine.software.engine == "xft"


def test_prompts_that_benchmark_py_has_not_would_hang_it(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "xft")
    with pytest.raises(UsageError, match="prompts of 32, 64 tokens for llama"):
        chosen(place(tmp_path / "h", benchmark=str(folder), model="llama-2-7b", engine="xft", input_tokens=33))
    with pytest.raises(UsageError, match=r"has no config\.ini"):
        chosen(place(tmp_path / "i", benchmark=str(folder), model="qwen-7b", engine="xft"))


def test_types_that_torch_has_not_are_computed_with_others_and_said(tmp_path: Path) -> None:
    engine = chosen(place(tmp_path, engine="torch", dtype="int8", model="llama-2-7b", layers=2)).engine
    assert isinstance(engine, TorchEngine)
    assert engine.dtype == "bf16"
    assert engine.notes() == (
        "figures are of 2 of the model's 32 layers",
        "weights are bf16 where int8 was asked for: torch has no such products",
    )


def test_what_nothing_reads_is_not_searched(tmp_path: Path) -> None:
    where = place(tmp_path, engine="torch")
    plan = Plan(where.topologies, where_demand(where), chosen(where).engine.software)
    assert ("blocktime", "0") in refused(SPACE, plan, rdma=False), "there is no libiomp5 here"
    far = replace(
        plan, topologies=dict.fromkeys(("a", "b"), where.topologies["localhost"]), software=Software("torch", "gomp")
    )
    said = refused(SPACE, far, rdma=False)
    assert ("blocktime", "0") not in said
    assert "does not leave a host" in said["provider", "shm"]
    assert "RDMA" in said["provider", "verbs"]
    assert ("provider", "tcp") not in said
    assert ("algorithm_small", "ring") not in said, "2 KB for a word of tiny"
    assert ("algorithm_medium", "ring") not in said, "64 KB for its prompt"
    assert "no sum of this model has such a size: they are 2048, 65536 bytes" in said["algorithm_large", "ring"]
    assert ("provider", "verbs") not in refused(SPACE, far, rdma=True)
    alone = refused(SPACE, replace(plan, software=Software("torch", "gomp")), rdma=True)
    assert "it matters between hosts" in alone["yield", "none"]


def where_demand(where: Place) -> Any:
    from runners.xft.model import Demand

    return Demand(find(where.options.model), "bf16")


def test_the_shells_own_variables_are_left_out() -> None:
    environ = {"OMP_NUM_THREADS": "3", "KMP_BLOCKTIME": "1", "I_MPI_PIN": "0", "I_MPI_ROOT": "/x", "PATH": "/bin",
               "XFT_ONECCL": "1", "ENABLE_THP": "1", "LD_PRELOAD": "", "CCL_ROOT": "/y"}  # fmt: skip
    assert strays(environ) == ["ENABLE_THP", "I_MPI_PIN", "KMP_BLOCKTIME", "OMP_NUM_THREADS", "XFT_ONECCL"]


def test_a_watchers_report_is_found_among_other_output() -> None:
    line = watch.MARK + json.dumps({"threads": []})
    assert report_of(f"noise\n{line}\nmore noise\n") == {"threads": []}
    assert report_of("noise") is None
    assert report_of(watch.MARK + "{broken") is None


def test_what_our_program_prints_is_what_xfts_prints() -> None:
    requests = [{"first": 90.0, "next": [10.0, 12.0]}, {"first": 110.0, "next": [11.0, 13.0]}]
    found = parse(torch_bench.block("tiny", requests, 2, 32))
    assert isinstance(found, Figures)
    assert (found.first_ms, found.next_ms, found.min_ms, found.max_ms) == (100.0, 11.5, 10.0, 13.0)
    assert found.decode_tokens_per_s == pytest.approx(2000 / 11.5, abs=0.01)


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        ({"PMI_RANK": "1", "PMI_SIZE": "4"}, (1, 4)),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "3"}, (2, 3)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, (0, 2)),
        ({"PMI_RANK": "x", "PMI_SIZE": "4"}, (0, 1)),
        ({}, (0, 1)),
    ],
)
def test_ranks_know_their_number_by_any_launcher(environ: dict[str, str], place: tuple[int, int]) -> None:
    assert torch_bench.place_of(environ) == place


def test_what_our_watch_tells_is_not_taken_for_what_the_program_said() -> None:
    """It is the last line of a rank's standard error: a program that fails is told of by its own last line."""
    told = f'fatal: no weights\n\n{watch.MARK}{{"wall": 0.5}}\n'
    assert last_line(told) == "fatal: no weights"
    assert last_line(f"\n{watch.MARK}{{}}\n") == ""
    text = oneshot.printed(Ended(0, "a", "node", "tpot=5\n", told, 1.0))
    assert text.startswith("tpot=5\n")
    assert "no weights" in text
    assert "wall" not in text
