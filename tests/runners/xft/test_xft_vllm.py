"""The program that runs vLLM, with a module in vLLM's place: requests are counted and timed, its folder goes in any case."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from runners.xft.engines import vllm_program

SPEC: dict[str, Any] = {"config": {"vocab_size": 100}, "dtype": "float32", "ranks": 1, "batch": 2, "input": 4, "output": 5,
                        "repeats": 3}  # fmt: skip
# Ten milliseconds for a prompt, and one for each token after the first.
VLLM = """
import time
class SamplingParams:
    def __init__(self, max_tokens, **_): self.max_tokens = max_tokens
class Made:
    def __init__(self, count): self.token_ids = list(range(count))
class Answer:
    def __init__(self, count): self.outputs = [Made(count)]
class LLM:
    def __init__(self, model, **given):
        import os, json
        assert json.load(open(os.path.join(model, "config.json"))) == {"vocab_size": 100}
        assert given["load_format"] == "dummy" and not given["enable_prefix_caching"]
        print("folder", model, flush=True)
        if os.environ.get("HANG"): time.sleep(60)
    def generate(self, prompts, parameters, use_tqdm):
        time.sleep(0.01 + 0.001 * (parameters.max_tokens - 1))
        short = int(__import__("os").environ.get("SHORT", "0"))
        return [Answer(parameters.max_tokens - short) for _ in prompts]
"""


def started(tmp_path: Path, **environ: str) -> subprocess.Popen[str]:
    (tmp_path / "vllm.py").write_text(VLLM)
    (tmp_path / "tmp").mkdir(exist_ok=True)
    text = Path(vllm_program.__file__).read_text()
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "TMPDIR": str(tmp_path / "tmp"), **environ}
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", text, json.dumps(SPEC)], stdout=pipe, stderr=pipe, text=True, env=env)


def test_requests_are_timed_and_the_first_is_not_counted(tmp_path: Path) -> None:
    with started(tmp_path) as run:
        out, errors = run.communicate(timeout=60)
    assert run.returncode == 0, errors
    figures = json.loads(out.partition("clustertune-figures ")[2])
    assert len(figures) == SPEC["repeats"]
    assert all(first >= 10 and following >= 0 for first, following in figures)
    assert list((tmp_path / "tmp").iterdir()) == []


def test_fewer_tokens_than_asked_for_are_no_figure(tmp_path: Path) -> None:
    with started(tmp_path, SHORT="1") as run:
        out, errors = run.communicate(timeout=60)
    assert run.returncode != 0
    assert "where 1 were asked for" in errors
    assert "clustertune-figures" not in out
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_its_folder_goes_when_it_is_ended_or_at_the_next_start(tmp_path: Path, number: signal.Signals) -> None:
    with started(tmp_path, HANG="1") as run:
        assert run.stdout is not None
        assert run.stdout.readline().startswith("folder ")
        run.send_signal(number)
        run.communicate(timeout=60)
    deadline = time.monotonic() + 10
    while number == signal.SIGTERM and list((tmp_path / "tmp").iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(list((tmp_path / "tmp").iterdir())) == (0 if number == signal.SIGTERM else 1)
    with started(tmp_path) as again:
        again.communicate(timeout=60)
    assert list((tmp_path / "tmp").iterdir()) == []
