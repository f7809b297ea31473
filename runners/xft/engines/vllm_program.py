"""One serving run of vLLM: a model of the asked shape with dummy weights, requests timed. Sent as text to its Python."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

_PREFIX = "clustertune-vllm-"


def timed(engine: Any, prompts: list[dict[str, Any]], parameters: Any, count: int) -> float:
    """Milliseconds of one request of the whole batch; raises RuntimeError where it gives other than ``count`` tokens."""
    begun = time.perf_counter()
    answers = engine.generate(prompts, parameters, use_tqdm=False)
    taken = 1e3 * (time.perf_counter() - begun)
    made = {len(answer.outputs[0].token_ids) for answer in answers}
    if made != {count}:
        raise RuntimeError(f"vLLM made {sorted(made)} tokens where {count} were asked for")
    return taken


def run(spec: dict[str, Any], folder: str) -> list[list[float]]:
    """[milliseconds of the first token, of each next one] for each of the repeats, after one that is not counted."""
    from vllm import LLM, SamplingParams  # type: ignore[import-not-found, unused-ignore]

    Path(folder, "config.json").write_text(json.dumps(spec["config"]), encoding="utf-8")
    engine = LLM(
        model=folder,
        load_format="dummy",
        skip_tokenizer_init=True,
        dtype=spec["dtype"],
        tensor_parallel_size=spec["ranks"],
        max_model_len=spec["input"] + spec["output"],
        max_num_seqs=spec["batch"],
        enforce_eager=True,
        # A prompt that was seen would cost nothing the second time.
        enable_prefix_caching=False,
        seed=1,
    )
    rng = random.Random(1)
    vocabulary = spec["config"]["vocab_size"]
    prompts = [{"prompt_token_ids": [rng.randrange(vocabulary) for _ in range(spec["input"])]} for _ in range(spec["batch"])]

    def parameters(count: int) -> Any:
        return SamplingParams(max_tokens=count, ignore_eos=True, temperature=0.0, detokenize=False)

    one, whole = parameters(1), parameters(spec["output"])
    found = []
    for _ in range(spec["repeats"] + 1):
        first = timed(engine, prompts, one, 1)
        total = timed(engine, prompts, whole, spec["output"])
        found.append([first, max(total - first, 0.0) / (spec["output"] - 1)])
    return found[1:]


def clear(parent: str) -> None:
    """Takes away the folders of runs that were killed: their names hold the numbers of processes that are no more."""
    for folder in Path(parent).glob(_PREFIX + "*"):
        number = folder.name[len(_PREFIX) :].partition("-")[0]
        if number.isdecimal() and not Path("/proc", number).exists() and folder.stat().st_uid == os.geteuid():
            shutil.rmtree(folder, ignore_errors=True)


def end_family() -> None:
    """Kills what descends from this process: vLLM's engine is a process of its own that outlives who started it."""
    found, more = {os.getpid()}, {os.getpid()}
    while more:
        children = set()
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                with contextlib.suppress(OSError, ValueError, IndexError):
                    parent = int((folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
                    if parent in more:
                        children.add(int(folder.name))
        more = children - found
        found |= more
    for pid in found - {os.getpid()}:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def main() -> None:
    spec = json.loads(sys.argv[1])
    # Asked to end, the folder goes too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    clear(tempfile.gettempdir())
    with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-") as folder:
        try:
            figures = run(spec, folder)
        finally:
            end_family()
    sys.stdout.write(f"\nclustertune-figures {json.dumps(figures)}\n")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # past the ends of vLLM's threads, which may wait for ever


if __name__ == "__main__":
    main()
