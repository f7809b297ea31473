"""Which engine computes, and why: what the user names, or the nearest to xFT that runs on every host."""

from __future__ import annotations

from dataclasses import dataclass

from runners.runner import EnvironmentProblem, UsageError
from runners.xft import isa
from runners.xft.engines.command import CommandEngine
from runners.xft.engines.engine import Engine
from runners.xft.engines.torch_engine import OWN_TYPES, TorchEngine
from runners.xft.engines.vllm_engine import VllmEngine
from runners.xft.engines.xft_engine import XftEngine, benchmark_of
from runners.xft.goal import Goal
from runners.xft.model import DTYPES, ModelShape
from runners.xft.options import Options
from runners.xft.place import Place

_XFT = "xfastertransformer"
_FAST_BF16 = frozenset(("amx_bf16", "avx512_bf16", "avx512bf16", "bf16"))


@dataclass(frozen=True, slots=True)
class Chosen:
    """``dtype`` is the type of the weights that a rank's memory is counted by."""

    engine: Engine
    why: str
    dtype: str


def choose(options: Options, place: Place, shape: ModelShape, goal: Goal) -> Chosen:
    """Raises UsageError for options that don't fit together, EnvironmentProblem where a named engine can't run."""
    if options.dtype and options.dtype not in DTYPES:
        raise UsageError("dtype", options.dtype, f"is none of {', '.join(DTYPES)}")
    engine: str = options.engine
    why = "--engine names it"
    _fitting(options)
    if engine == "auto":
        engine, why = _automatic(options, place)
    if engine != "torch" and options.layers:
        raise UsageError("layers", options.layers, f"the engine {engine} computes all layers; it is for --engine torch")
    if engine == "command":
        return Chosen(CommandEngine(place, goal, options), why, options.dtype or "bf16")
    if engine == "xft":
        dtype = options.dtype or _best(place)
        _refuse(place, dtype)
        return Chosen(XftEngine(place, shape, goal, options, dtype), why, dtype)
    fast = all(topology.flags & _FAST_BF16 for topology in place.topologies.values())
    dtype = options.dtype if options.dtype in OWN_TYPES else "bf16" if fast else "fp32"
    if engine == "vllm":
        return Chosen(VllmEngine(place, shape, goal, dtype), why, dtype)
    return Chosen(TorchEngine(place, shape, goal, dtype, options.dtype), why, dtype)


def _fitting(options: Options) -> None:
    if options.program and options.engine not in ("auto", "command"):
        raise UsageError("program", options.program, f"is for --engine command, and --engine {options.engine} was named")
    if options.engine == "command" and not options.program:
        raise UsageError("engine", "command", "name the program with --program")
    if options.pattern and not options.program:
        raise UsageError("pattern", options.pattern, "is for the output of a --program")
    if options.benchmark and options.engine not in ("auto", "xft"):
        raise UsageError("benchmark", options.benchmark, f"is for --engine xft, and --engine {options.engine} was named")


def _automatic(options: Options, place: Place) -> tuple[str, str]:
    """xFT where it runs on every host, else our decoder, with what is missing."""
    if options.program:
        return "command", "--program names what to run"
    if options.benchmark:
        return "xft", "--benchmark names xFT's program"
    for name, told in place.told.items():
        if _XFT not in told["engines"]:
            return "torch", f"{name} has no {_XFT}" if not place.alone else f"there is no {_XFT} here"
    dtype = options.dtype or _best(place)
    for name, host in place.topologies.items():
        if lacking := isa.missing(dtype, host.flags):
            return "torch", f"{_XFT} is there and {name}'s CPU has no {', '.join(lacking)}, which it needs for {dtype}"
    if benchmark_of(options) is None:
        return "torch", f"{_XFT} is there without its benchmark.py, which comes with its source: name it with --benchmark"
    return "xft", "xFT and its benchmark.py are there"


def _best(place: Place) -> str:
    """bf16, which xFT's scripts take, or the first type that all hosts' CPUs have."""
    able = [set(isa.able(host.flags)) for host in place.topologies.values()]
    shared = [dtype for dtype in isa.XFT_DTYPES if all(dtype in each for each in able)]
    return "bf16" if "bf16" in shared or not shared else shared[0]


def _refuse(place: Place, dtype: str) -> None:
    """Raises where a host's CPU can't load xFT: importing it would kill the process."""
    for name, host in place.topologies.items():
        problem = isa.refusal(dtype, name, host)
        if problem is not None:
            raise EnvironmentProblem(problem.message, problem.mend)
