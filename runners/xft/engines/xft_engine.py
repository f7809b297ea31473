"""The engine of xFT itself: its benchmark.py in a process a rank, with fake weights where there are no others.

Nothing of xFT is imported here: on a CPU without AVX-512 that alone kills the process.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from runners.launch.mpirun import Mpirun
from runners.runner import Failure, Json, Problem, UsageError
from runners.xft import results
from runners.xft.engines import oneshot
from runners.xft.engines.command import of_figures
from runners.xft.engines.engine import Run
from runners.xft.goal import Goal
from runners.xft.layout import Layout
from runners.xft.model import ModelShape
from runners.xft.options import Options
from runners.xft.place import Place
from spaces.xft import Software

_ITERATIONS, _WARMUP = 5, 1


def benchmark_of(options: Options) -> Path | None:
    """benchmark.py that --benchmark names, itself or by its checkout; None where none is named. Raises UsageError."""
    if not options.benchmark:
        return None
    path = Path(options.benchmark).expanduser().absolute()
    for file in (path, path / "benchmark.py", path / "benchmark" / "benchmark.py"):
        if file.is_file():
            return file
    raise UsageError("benchmark", options.benchmark, "is neither xFT's benchmark.py nor a checkout that has it in benchmark/")


class XftEngine:
    name = "xft"
    stand_in = False

    def __init__(self, place: Place, shape: ModelShape, goal: Goal, options: Options, dtype: str) -> None:
        self._place, self._goal, self._dtype = place, goal, dtype
        file = benchmark_of(options)
        if file is None:
            raise UsageError("engine", "xft", "name xFT's benchmark.py, or its checkout, with --benchmark")
        self._file = file
        self._folder = self._config(shape, options)
        self._prompts(shape)

    def _config(self, shape: ModelShape, options: Options) -> Path:
        """The folder with config.ini and tokenizer of the model: the checkout's own, or the user's."""
        given = Path(options.model).expanduser()
        own = given if given.is_dir() else given.parent if given.is_file() else None
        folder = own or self._file.parent.parent / "examples" / "model_config" / shape.name
        if not (folder / "config.ini").is_file():
            raise UsageError(
                "model", options.model, f"xFT needs config.ini and tokenizer of the model, and {folder} has no config.ini"
            )
        return folder.absolute()

    def _prompts(self, shape: ModelShape) -> None:
        """benchmark.py has prompts of some lengths only, and ends its first rank, and no other, for any other length."""
        try:
            pool = json.loads((self._file.parent / "prompt.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return
        family = next((name for name in ("qwen", "baichuan2", "baichuan", "chatglm3", "chatglm2", "chatglm", "opt", "llama")
                       if name in shape.name.lower() and name in pool), "llama")  # fmt: skip
        lengths = list(pool.get(family, {})) if isinstance(pool, dict) else []
        if lengths and str(self._goal.input) not in lengths:
            raise UsageError(
                "input-tokens", self._goal.input, f"benchmark.py has prompts of {', '.join(lengths)} tokens for {family}"
            )

    @property
    def software(self) -> Software:
        return Software("xft", "iomp5", self._place.iomp5)

    def notes(self) -> tuple[str, ...]:
        return ()

    def facts(self) -> Mapping[str, Json]:
        versions = {told["engines"].get("xfastertransformer", "source") for told in self._place.told.values()}
        return {"xft": ", ".join(sorted(versions)), "dtype": self._dtype, "benchmark": str(self._file)}

    def check(self) -> list[Problem]:
        return []

    def refuses(self, layout: Layout) -> str:
        """xFT splits heads as uneven as they come; its ranks find each other by an MPI with libmpi.so.12."""
        launcher = self._place.launcher
        if len(layout.ranks) == 1 or (isinstance(launcher, Mpirun) and launcher.mpi.kind != "openmpi"):
            return ""
        return "xFT's ranks find each other by Intel MPI or MPICH, and none of them starts these; name its mpirun with --mpi"

    def command(self) -> tuple[str, ...]:
        """What a rank runs."""
        goal = self._goal
        return (
            self._place.python, self._file.name, "--model_name", self._folder.name, "--model_path", str(self._folder),
            "--token_path", str(self._folder), "--prompt_path", "prompt.json", "--token_in", str(goal.input),
            "--token_out", str(goal.output), "--batch_size", str(goal.batch), "--iteration", str(_ITERATIONS),
            "--warmup", str(_WARMUP), "--dtype", self._dtype,
        )  # fmt: skip

    def measure(self, layout: Layout, limit: float) -> Run | Failure:
        done = oneshot.run(self._place, layout, self.command(), {}, str(self._file.parent), limit)
        if isinstance(done, Failure):
            return done
        ranks, reports = done
        found = of_figures(results.parse(ranks[0].stdout))
        if isinstance(found, str):
            return Failure("crash", found, (ranks[0].stdout + ranks[0].stderr)[-4096:])
        fake = "Using fake weight" in ranks[0].stdout or "Loading real weight" not in ranks[0].stdout
        return Run(found, reports if len(reports) == len(ranks) else (), (), {"weights": "fake" if fake else "real"})

    def close(self) -> None:
        """Nothing is kept between measurements."""
