"""A target from somebody else's package: found by its entry point, run through the real command line, no edit here."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

_SPACE = """
    from spaces.space import Knob, Space, log2
    SUMMARY = "Sleeping: the fewer naps, the faster."
    NAPS = Knob("naps", log2(1, 64), 16, "How many naps to take.", "folklore", unit="count")
    SPACE = Space((NAPS,), cost=lambda c: c["naps"])
"""
_RUNNER = """
    import math, random, time
    from dataclasses import dataclass, field
    from runners.options import option
    from runners.runner import Measurement, Objective

    EXAMPLE = "tune naps --soft"
    DEFAULTS = {"trials": 40}

    @dataclass(frozen=True)
    class Options:
        soft: bool = field(default=False, metadata=option("Sleep softly."))

    OPTIONS = Options

    class Naps:
        objective = Objective("naps_per_s", "1/s")
        bytes_prepared = 0
        engine, engine_reason = "sleep", ""
        def __init__(self, space): self.space, self.rng = space, random.Random(3)
        def facts(self): return {}
        def check(self): return []
        def prepare(self): pass
        def bytes_per_measurement(self): return 0
        def bytes_to_prepare(self): return 0
        def measure(self, config, limit):
            value = 100.0 / config["naps"] * math.exp(self.rng.gauss(0, 0.02))
            return Measurement({"naps_per_s": value}, (value,), 0.001)
        def cross_check(self, config): return None
        def close(self): pass
        def __enter__(self): return self
        def __exit__(self, *exc): self.close()

    def create(options, space): return Naps(space)
    def doctor(options): return []
"""
_EXPORTER = """
    from dataclasses import dataclass
    from tuner.exporters.format import Format, Merged
    FORMATS = (Format("naps", "naps.env", "one variable"),)
    @dataclass(frozen=True)
    class FILE_OPTIONS: pass
    def render(recommendation, format, options): return {"naps.env": f"NAPS={recommendation.config['naps']}\\n"}
    def merge(text, recommendation, options): return Merged(text + render(recommendation, "naps", {})["naps.env"])
    def present(text, options): return {"naps": int(text.split("=")[1])}
    def present_notes(text, options): return []
    def matches(filename, text): return filename == "naps.env"
    def lint(text, options): return []
    def fix(text, options): return text
    def machine_options(): return {}
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    package = tmp_path / "site" / "napping"
    package.mkdir(parents=True)
    for name, source in {"__init__": "", "space": _SPACE, "runner": _RUNNER, "exporter": _EXPORTER}.items():
        (package / f"{name}.py").write_text(textwrap.dedent(source))
    metadata = tmp_path / "site" / "napping-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: napping\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[clustertune.targets]\nnaps = napping\n")
    ours = {"PYTHONPATH": str(tmp_path / "site"), "CLUSTERTUNE_STORAGE": str(tmp_path / "s.db"), "COLUMNS": "200"}
    return {**os.environ, **ours}


def tune(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tuner", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_a_target_from_elsewhere_is_a_command_like_any_other(environment: dict[str, str], tmp_path: Path) -> None:
    helped = tune(environment, "naps", "--help")
    assert "the fewer naps, the faster" in helped.stdout
    assert "--soft" in helped.stdout
    done = tune(environment, "naps", "--json")
    answer = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert answer["recommended"] == {"naps": 1}
    assert answer["gain"]["ratio"] == pytest.approx(16, rel=0.1)
    assert answer["files"] == {"naps.env": "NAPS=1\n"}
    exported = tune(environment, "export", answer["study"], "-o", str(tmp_path / "naps.env"))
    assert exported.returncode == 0, exported.stderr
    assert (tmp_path / "naps.env").read_text() == "NAPS=1\n"
    assert "how many naps" in tune(environment, "knobs", "naps").stdout.lower()
