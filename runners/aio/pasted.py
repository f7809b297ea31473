"""What DeepSpeed makes of a printed aio block that is pasted as it is: asked of DeepSpeed itself, in a child process."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runners.opponent import Pasted
from runners.process import Completed, run

_LIMIT = 120.0
_ROOT = Path(__file__).resolve().parents[2]
_KNOBS = ("block_size", "queue_depth", "intra_op_parallelism", "single_submit", "overlap_events")


def as_flag(value: object) -> bool | None:
    """What a person takes ``value`` for: booleans, and the strings that stand for them."""
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else None


def try_block(block: Mapping[str, object], environment: Mapping[str, str]) -> Pasted:
    """``block`` is the inside of "aio", as printed."""
    return _ask({"block": dict(block)}, environment)


def try_key(key: tuple[Any, ...], environment: Mapping[str, str]) -> Pasted:
    """``key`` is a setting of ds_nvme_tune's, which has DeepSpeed's own code write the block for it."""
    return _ask({"key": list(key)}, environment)


def _ask(request: Mapping[str, Any], environment: Mapping[str, str]) -> Pasted:
    argv = [sys.executable, "-m", "runners.aio.pasted", json.dumps(request)]
    done = run(argv, limit=_LIMIT, env=environment, cwd=_ROOT)
    if isinstance(done, Completed):
        try:
            told = json.loads(done.stdout.rstrip().rpartition("\n")[2])
            return Pasted(bool(told["loads"]), str(told["problem"]), told["config"], str(told["mended"]))
        except (ValueError, KeyError, TypeError):
            pass
        problem = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    else:
        problem = done.reason
    return Pasted(False, f"could not be tried: {problem[:300]}", None)


def main() -> None:
    """The child's side: one JSON object on the last line of its standard output."""
    request = json.loads(sys.argv[1])
    block = request.get("block") or _printed(tuple(request["key"]))
    problem = _refusal(block)
    mended: dict[str, bool] = {}
    if problem:
        flags = {name: as_flag(value) for name, value in block.items() if isinstance(value, str)}
        mended = {name: flag for name, flag in flags.items() if flag is not None}
    config = _read({**block, **mended})
    works = not problem or not _refusal({**block, **mended})
    result = {
        "loads": not problem,
        "problem": problem,
        "config": {name: config[name] for name in _KNOBS} if works else None,
        "mended": " and ".join(sorted(mended)),
    }
    print(f"\n{json.dumps(result)}")  # noqa: T201


def _printed(key: tuple[Any, ...]) -> dict[str, Any]:
    from deepspeed.nvme.perf_generate_param import convert_to_param

    return dict(convert_to_param(key))


def _read(block: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in effect; the names that DeepSpeed does not know are gone."""
    from deepspeed.runtime.swap_tensor.aio_config import get_aio_config

    return dict(get_aio_config({"aio": dict(block)}))


def _refusal(block: Mapping[str, Any]) -> str:
    """What DeepSpeed says when it makes its handle of ``block``; "" when it does."""
    from deepspeed.ops.op_builder import AsyncIOBuilder

    config = _read(block)
    try:
        handle = (
            AsyncIOBuilder()
            .load(verbose=False)
            .aio_handle(
                config["block_size"],
                config["queue_depth"],
                config["single_submit"],
                config["overlap_events"],
                config["intra_op_parallelism"],
            )
        )
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {str(error).partition('. The following')[0].splitlines()[0]}"
    del handle
    return ""


if __name__ == "__main__":
    main()
