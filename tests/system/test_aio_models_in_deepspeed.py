"""What lint says of zero_optimization is what DeepSpeed's own models do: refused where it says so, and taken elsewhere."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest

from tuner.exporters import aio
from tuner.exporters.aio.names import DEVICES, FIELDS, OPTIMIZER, PARAM
from tuner.json_text.scan import parse

# For each configuration: the stage and device that it comes to, or None where it is refused; and the models' fields.
CHECK = """
import json, sys
from deepspeed.runtime.zero.config import get_zero_config
from deepspeed.runtime.zero import offload_config as models

def taken(config):
    try:
        zero = get_zero_config(config)
    except Exception:
        return None
    return [int(zero.stage), *(section and section.device for section in (zero.offload_param, zero.offload_optimizer))]

print("TAKEN " + json.dumps({
    "param": list(models.DeepSpeedZeroOffloadParamConfig.model_fields),
    "optimizer": list(models.DeepSpeedZeroOffloadOptimizerConfig.model_fields),
    "devices": [each.value for each in models.OffloadDeviceEnum],
    "configs": [taken(config) for config in json.load(sys.stdin)],
}))
"""
COUNTS = ["4", " 4 ", "+4", "4.0", "4.", "1_0", "1e8", "4K", "", "x", -1, "-1", 4.0, 4.5, None, True, "auto", [], {}]
FLAGS = ["yes", "No", "ON", "f", "1", " true", "maybe", "", 0, 1, 2, 1.0, 0.5, None, "auto", []]
SHARES = ["0.5", " 0.5 ", "1e-1", "50%", 0, 1, 1.5, -0.1, "nan", None, True, "auto", []]
STAGES = ["3", "3.0", " 3", "three", "", 0, 3, 4, -1, 3.0, 2.5, None, True, "auto", []]
PLACES = ["/x", "", None, 1, True, "auto", []]
KINDS = {"device": [*DEVICES, "NVMe", " nvme", "disk", "", None, True, "auto"], "path": PLACES, "count": COUNTS}


def configurations():
    values = {**KINDS, "flag": FLAGS, "share": SHARES}
    for section, fields in FIELDS.items():
        for name, kind in fields.items():
            for value in values[kind]:
                yield {"zero_optimization": {"stage": 3, section[-1]: {name: value}}}
        for name in ("nvme_pth", "Device", "buffer_size", "ratio", "colour"):
            yield {"zero_optimization": {"stage": 3, section[-1]: {name: 1}}}
        for value in ({}, None, "auto", "nvme", True, []):
            yield {"zero_optimization": {"stage": 3, section[-1]: value}}
    for stage in STAGES:
        yield {"zero_optimization": {"stage": stage}}
    for zero in ({}, True, False, None, "auto", 3, [], {"offload_params": {}}, {"Stage": 3}, {"nvme_path": "/x"}, {"aio": {}}):
        yield {"zero_optimization": zero}
    for name in ("AIO", "zero_optimisation", "offload_param", "stage"):
        yield {name: {"stage": 3}}


def refused(config):
    messages = [finding.message for finding in aio.lint(json.dumps(config), {})]
    return any("refuses" in message or "DeepSpeed fails on" in message for message in messages)


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("deepspeed") is None, reason="DeepSpeed is not installed")
@pytest.mark.timeout(660)
def test_lint_and_the_models_agree():
    configs = list(configurations())
    fixed = [parse(aio.fix(json.dumps(config), {})).root.value for config in configs]
    run = subprocess.run(
        [sys.executable, "-c", CHECK],
        input=json.dumps([*configs, *fixed]),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    (line,) = [line for line in run.stdout.splitlines() if line.startswith("TAKEN ")] or [run.stdout + run.stderr]
    real = json.loads(line.removeprefix("TAKEN "))
    assert set(real["param"]) == set(FIELDS[PARAM])
    assert set(real["optimizer"]) == set(FIELDS[OPTIMIZER])
    assert set(real["devices"]) == set(DEVICES)
    before, after = real["configs"][: len(configs)], real["configs"][len(configs) :]
    # An offload ratio below 1 wants stage 3, which they have; nothing else here depends on another key.
    wrong = [config for config, taken in zip(configs, before, strict=True) if (taken is None) != refused(config)]
    assert wrong == []
    for config, mended, old, new in zip(configs, fixed, before, after, strict=True):
        if old is not None and "aio" not in config:
            assert old == new, (config, mended)
        assert (new is None) == refused(mended), mended
    assert sum(taken is None for taken in before) > sum(taken is None for taken in after) > 20
