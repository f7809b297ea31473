"""What every discovered target must hold, so that a sixth one is tested without a line of tests."""

import dataclasses
import random
import subprocess
import sys
from pathlib import Path

import pytest

from spaces.space import Space
from tuner import targets
from tuner.exporters.format import Format
from tuner.recommendation import Gain, Recommendation

TARGETS = [targets.load(name) for name in targets.names()]
each = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)


def test_there_are_targets() -> None:
    assert "aio" in targets.names()


@each
def test_the_space_has_its_default_inside(target: targets.Target) -> None:
    assert isinstance(target.space, Space)
    assert target.space.contains(target.space.default)
    assert target.space.pool(random.Random(0), 64)


@each
def test_every_knob_explains_itself(target: targets.Target) -> None:
    for knob in target.space.knobs:
        assert len(knob.help) > 15
        assert knob.source
        assert all(knob.parse(knob.show(value)) == value for value in knob.domain.values)


@each
def test_every_option_explains_itself_and_has_a_default(target: targets.Target) -> None:
    for field in dataclasses.fields(target.options):
        assert field.metadata.get("help"), field.name
    assert target.options()
    assert target.example.startswith(f"tune {target.name} ")
    names = {field.name for field in dataclasses.fields(target.options)}
    assert not names & {knob.option.replace("-", "_") for knob in target.space.knobs}, "an option would hide a knob"


@each
def test_options_survive_json(target: targets.Target) -> None:
    plain = dataclasses.asdict(target.options())
    assert target.options(**plain) == target.options()


@each
def test_files_read_back_as_what_was_recommended(target: targets.Target, tmp_path: Path) -> None:
    space, exporter = target.space, target.exporter
    rng = random.Random(1)
    for config in rng.sample(space.pool(rng, 200), 20):
        answer = Recommendation(
            "s", target.name, "e", "adopt", config, space.default, Gain(1.2, 1.1, 1.3, 0.9), "r", {"x": 1.0}, {"x": 0.8}
        )
        for form in exporter.FORMATS:
            assert isinstance(form, Format)
            texts = exporter.render(answer, form.name, {})
            assert texts
            assert all(text.endswith("\n") for text in texts.values())
        (text,) = exporter.render(answer, exporter.FORMATS[0].name, {}).values()
        assert exporter.present(text, {}) == config
        assert exporter.matches(exporter.FORMATS[0].filename, text)
        assert exporter.lint(text, {}) == []
        merged = exporter.merge(text, answer, {})
        assert exporter.present(merged.text, {}) == config


@each
def test_the_command_teaches_with_an_example(target: targets.Target) -> None:
    command = [sys.executable, "-m", "tuner", target.name, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"COLUMNS": "200", "PATH": ""})
    assert done.returncode == 0, done.stderr
    assert "Example: tune " in done.stdout
    for knob in target.space.knobs:
        assert f"--{knob.option}" in done.stdout


def test_nothing_heavy_is_imported_for_help() -> None:
    script = (
        "import sys\n"
        "from tuner.cli.app import build\n"
        "build()\n"
        "heavy = {'numpy', 'optuna', 'scipy', 'sklearn', 'torch', 'deepspeed', 'rich', 'sqlalchemy', 'pandas'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(("package", "forbidden"), [("spaces", ("runners", "tuner")), ("runners", ("tuner",))])
def test_imports_go_one_way(package: str, forbidden: tuple[str, ...]) -> None:
    root = Path(__file__).parents[2] / package
    for module in root.rglob("*.py"):
        for line in module.read_text().splitlines():
            words = line.split()
            if len(words) > 1 and words[0] in ("import", "from"):
                assert words[1].split(".")[0] not in forbidden, f"{module}: {line}"
