"""--engine benchmark under a real mpirun, with a program that prints what oneCCL's benchmark was recorded to print.

oneCCL's own program is in no package for pip and is not built here: how it is called and read is tested, not the program.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from runners.oneccl import benchmark
from runners.oneccl.benchmark_output import Row, Table
from runners.oneccl.options import Options
from runners.oneccl.program_runner import ProgramRunner
from runners.oneccl.runner import CclRunner
from runners.oneccl.setup import Setup
from runners.runner import Failure, Measurement, UsageError
from spaces.oneccl import SPACE

# Of each call: what oneCCL 2022.1 says at info and debug level, then the table of its benchmark, for the sizes asked for.
PROGRAM = """#!{python}
import os, sys
words = dict(zip(sys.argv[1::2], sys.argv[2::2]))
counts = [int(each) for each in words["-y"].split(",")]
if os.environ.get("CCL_YIELD") == "sleep" and os.environ["PMI_RANK"] == "1":
    os.kill(os.getpid(), 7)
if os.environ["PMI_RANK"] != "0":
    sys.exit(0)
for name in ("CCL_ALLREDUCE", "CCL_YIELD", "CCL_WORKER_OFFLOAD"):
    if name in os.environ:
        print(f"2026:11:30-16:58:29:10534 |CCL_WARN| value of {{name}} changed to be {{os.environ[name]}} (default:)")
print("2026:11:30-16:58:30:10534:[0] |CCL_INFO| library version: Gold-2022.1.0 2026-08-19T 06:08:47Z (x)")
print("2026:11:30-16:58:30:10534:[0] |CCL_INFO| CCL_ATL_TRANSPORT: mpi")
chosen = os.environ.get("CCL_ALLREDUCE", "ring:0-max").partition(":")[0].replace("2d", "ring")
print("options:")
for name, value in (("processes", 2), ("backend", "host"), ("iters", words["-i"]), ("warmup_iters", words["-w"]),
                    ("elem_counts", "[" + " ".join(map(str, counts)) + "]"), ("collectives", words["-l"]),
                    ("datatypes", words["-d"]), ("reductions", words["-r"])):
    print(f"  {{name + ':':<16}}{{value}}")
print()
print("datatype: " + words["-d"] + "\\nreduction: " + words["-r"])
print("#" + "-" * 60 + "\\n# Benchmarking: " + words["-l"] + "\\n# #processes: 2\\n#" + "-" * 60 + "\\n")
heads = ("#bytes", "#elem_count", "#repetitions", "t_min[usec]", "t_max[usec]", "t_avg[usec]", "stddev[%]")
print("".join(f"{{head:>14}}" for head in heads))
for count in counts:
    print(f"selected algo: coll {{words['-l']}}, count {{count}}, algo {{chosen}}")
    row = (4 * count, count, words["-i"], f"{{count / 100:.2f}}", f"{{count / 50:.2f}}", f"{{count / 75:.2f}}", "1.00")
    print("".join(f"{{value:>14}}" for value in row))
print("\\n# All done")
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "benchmark"
    path.write_text(PROGRAM.format(python=sys.executable))
    path.chmod(0o755)
    return path


def options(program: Path, **more: Any) -> Options:
    return Options(**{"engine": "benchmark", "benchmark": str(program), "sizes": "1K,64K,4M:2", **more})


def test_the_program_is_named_or_found(program: Path, tmp_path: Path) -> None:
    assert benchmark.find(Options(benchmark=str(program)), None) == str(program)
    with pytest.raises(UsageError, match="there is no such program"):
        benchmark.find(Options(benchmark=str(tmp_path / "none")), None)
    place = tmp_path / "root" / "examples" / "benchmark" / "benchmark"
    place.parent.mkdir(parents=True)
    program.rename(place)
    assert benchmark.find(Options(), tmp_path / "root") == str(place)
    assert benchmark.find(Options(), tmp_path / "other") == ""


def test_small_messages_are_repeated_more() -> None:
    assert benchmark.repetitions(None) == 20
    assert benchmark.repetitions(20e-6) == 2000
    assert benchmark.repetitions(3e-3) == 100
    assert benchmark.repetitions(5.0) == 20


def test_the_rows_own_count_and_the_slowest_rank_hold() -> None:
    table = Table("allreduce", 2, (Row(1024, 5e-6, 4e-6, 6e-6, 1), Row(2048, 7e-6)))
    assert benchmark.times(table, [1024, 2048]) == {1024: (6e-6, 1), 2048: (7e-6, 1)}
    missing = benchmark.times(table, [4096])
    assert isinstance(missing, Failure)
    assert "no row for 4096 bytes" in missing.reason


@pytest.mark.system
def test_measurements_by_the_program(program: Path) -> None:
    with ProgramRunner(Setup.of(options(program)), SPACE) as runner:
        assert runner.engine == "benchmark"
        assert not [each for each in runner.check() if each.severity == "error"]
        assert runner.facts()["oneccl"] == "2022.1.0"
        plain = runner.measure(SPACE.default, 60)
        assert isinstance(plain, Measurement), plain
        assert plain.metrics["us_1K"] == pytest.approx(256 / 50)
        assert plain.metrics["time_us"] == pytest.approx(256 / 50 + 16384 / 50 + 2 * (1 << 20) / 50, rel=1e-3)
        again = runner.measure({**SPACE.default, "algorithm_small": "ring"}, 60)
        assert isinstance(again, Measurement), again
        calls = again.evidence["calls"]
        assert isinstance(calls, dict)
        assert calls["1K"] > calls["4M"] == 20
        replaced = runner.measure({**SPACE.default, "algorithm_small": "2d"}, 60)
        assert isinstance(replaced, Failure)
        assert replaced.reason == "oneCCL runs ring for 1024 bytes where 2d is set"
        died = runner.measure({**SPACE.default, "worker_offload": "1", "yield": "sleep"}, 60)
        assert isinstance(died, Failure)
        assert died.kind == "crash"
        assert "/dev/shm" in died.reason
        lost = runner.measure({**SPACE.default, "chunk_count": 2}, 60)
        assert isinstance(lost, Failure)
        assert "CCL_CHUNK_COUNT=2 did not arrive" in lost.reason


@pytest.mark.system
def test_auto_takes_our_ranks() -> None:
    with CclRunner(Setup.of(Options(sizes="1K")), SPACE) as runner:
        assert runner.engine == "embedded"
