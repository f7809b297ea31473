"""The real DeepSpeed builds its handle from exported, merged and fixed files, with the values that were meant."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spaces.aio import SPACE
from tuner.export import export
from tuner.lint import fix_file, lint_file
from tuner.recommendation import Recommendation

DATA = Path(__file__).parents[1] / "data" / "aio"
BEST = {"block_size": 1 << 21, "queue_depth": 16, "intra_op_parallelism": 4, "single_submit": True, "overlap_events": False}

# For each file: what its handle was built with, by DeepSpeed's own loader and as a plain dict, or the error.
LOAD = """
import json, sys
import hjson
from deepspeed.ops.op_builder import AsyncIOBuilder
from deepspeed.runtime.config_utils import dict_raise_error_on_duplicate_keys
from deepspeed.runtime.swap_tensor.aio_config import get_aio_config
from deepspeed.runtime.zero.config import get_zero_config

make = AsyncIOBuilder().load(verbose=False).aio_handle

def built(load, path):
    try:
        with open(path) as file:
            parsed = load(file, object_pairs_hook=dict_raise_error_on_duplicate_keys)
        get_zero_config(parsed)
        block = get_aio_config(parsed)
        handle = make(
            block_size=block["block_size"],
            queue_depth=block["queue_depth"],
            single_submit=block["single_submit"],
            overlap_events=block["overlap_events"],
            intra_op_parallelism=block["intra_op_parallelism"],
        )
        return {
            "block_size": handle.get_block_size(),
            "queue_depth": handle.get_queue_depth(),
            "intra_op_parallelism": handle.get_intra_op_parallelism(),
            "single_submit": handle.get_single_submit(),
            "overlap_events": handle.get_overlap_events(),
        }
    except Exception as error:
        return f"{type(error).__name__}: {error}"

print("BUILT " + json.dumps({path: [built(hjson.load, path), built(json.load, path)] for path in sys.argv[1:]}))
"""


def built(*paths):
    """What each file gives, by (DeepSpeed's loader, Python's json)."""
    run = subprocess.run([sys.executable, "-c", LOAD, *map(str, paths)], capture_output=True, text=True, timeout=900)
    lines = [line for line in run.stdout.splitlines() if line.startswith("BUILT ")]
    assert lines, run.stdout + run.stderr
    found = json.loads(lines[0].removeprefix("BUILT "))
    return [found[str(path)] for path in paths]


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("deepspeed") is None, reason="DeepSpeed is not installed")
@pytest.mark.timeout(960)  # the first load may have to build the op
def test_handles_from_our_files(tmp_path):
    recommendation = Recommendation("aio-1", "aio", "native", "adopt", BEST, SPACE.default, None, "faster", {}, {})
    exported = export(recommendation, output=tmp_path).written[0]
    names = ("ds_printed.json", "ds_old.json", "ds_nested.json")
    originals, merged, fixed = [], [], []
    for name in names:
        originals.append(DATA / name)
        merged.append(Path(shutil.copy(DATA / name, tmp_path / f"merged {name}")))
        fixed.append(Path(shutil.copy(DATA / name, tmp_path / f"fixed {name}")))
        export(recommendation, into=merged[-1])
        fix_file(fixed[-1])
    extras = tmp_path / "with comments.json"
    extras.write_text('\ufeff{\n  // ours\n  "aio": {"use_gds": false, "block_size": 1048576.0,},\n}\n')
    into_extras = Path(shutil.copy(extras, tmp_path / "merged with comments.json"))
    export(recommendation, into=into_extras)
    texts = {
        "float.json": '{"aio": {"block_size": 1048576.0}}',
        "twice.json": '{"aio": {"queue_depth": 8, "queue_depth": 8}}',
        "null.json": '{"aio": {"queue_depth": null}}',
        "flag.json": '{"aio": {"overlap_events": null}}',
    }
    broken = [tmp_path / name for name in texts]
    for path in broken:
        path.write_text(texts[path.name])
    mended = [Path(shutil.copy(path, tmp_path / f"mended {path.name}")) for path in broken]
    for path in mended:
        assert fix_file(path).left == ()

    everything = [exported, *merged, *fixed, *originals, extras, into_extras, *broken, *mended]
    found = dict(zip(everything, built(*everything), strict=True))

    for path in (exported, *merged):
        assert found[path] == [BEST, BEST], path
    expected = [
        {"block_size": 8388608, "queue_depth": 32, "intra_op_parallelism": 2, "single_submit": False, "overlap_events": True},
        {"block_size": 262144, "queue_depth": 32, "intra_op_parallelism": 8, "single_submit": False, "overlap_events": True},
        {"block_size": 1048576, "queue_depth": 16, "intra_op_parallelism": 2, "single_submit": False, "overlap_events": True},
    ]
    for path, setting in zip(fixed, expected, strict=True):
        assert found[path] == [setting, setting], path

    # The findings are true: this is what the files did before.
    printed, old, nested = (found[path] for path in originals)
    assert all(result.startswith("TypeError") for result in printed)
    assert old[0]["intra_op_parallelism"] == 1
    assert all("extra_forbidden" in result or "Extra inputs" in result for result in nested)
    assert found[into_extras][0] == BEST
    assert "JSONDecodeError" in found[into_extras][1]
    assert {finding.message.split(":")[0] for finding in lint_file(into_extras).findings} == {
        "the file begins with a byte order mark",
        "the file holds comments",
        "a comma before a closing bracket",
    }
    as_float, twice, null, flag = (found[path] for path in broken)
    assert as_float[0] == SPACE.default
    assert as_float[1].startswith("TypeError")
    assert all("Duplicate keys" in result for result in twice)
    assert all(result.startswith("TypeError") for result in null)
    assert flag == [{**SPACE.default, "overlap_events": False}] * 2
    assert [found[path] for path in mended[:3]] == [[SPACE.default, SPACE.default]] * 3
    assert found[mended[3]] == flag
