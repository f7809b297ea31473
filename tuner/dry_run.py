"""`tune TARGET --dry-run`: what one setting would be on the machine that is described, and its files; nothing is measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from runners.runner import Json
from spaces.space import Value
from tuner.errors import WrongUsage
from tuner.exporters.format import as_exporter
from tuner.recommendation import Recommendation
from tuner.session import user_mistakes
from tuner.targets import Target


@dataclass(frozen=True, slots=True)
class DryRun:
    """``config`` is the baseline with the values that a user pinned; ``lines`` tell of machine and setting."""

    config: Mapping[str, Value]
    lines: tuple[str, ...]
    files: Mapping[str, str]

    def json(self, target: str) -> dict[str, Json]:
        return {"target": target, "config": dict(self.config), "notes": list(self.lines), "files": dict(self.files)}


def dry_run(target: Target, options: Any, narrow: Mapping[str, str]) -> DryRun:
    """The setting of ``narrow`` (each knob pinned to one value), with all files. Raises WrongUsage, NotUsable."""
    if target.preview is None:
        raise WrongUsage(f"--dry-run: `tune {target.name}` has nothing to show without measuring.")
    with user_mistakes():
        space = target.space.narrow(narrow)
        seen = target.preview(options, space)
        config: dict[str, Value] = dict(seen.space.default)
        for name in narrow:
            values = space[name].domain.values
            if len(values) > 1:
                shown = f"--{space[name].option} {narrow[name]}"
                raise WrongUsage(f"{shown}: --dry-run shows one setting; name one value.")
            config[name] = values[0]
        if broken := seen.space.broken(config):
            raise WrongUsage(f"this setting can't run there: {'; '.join(dict.fromkeys(broken))}.")
    exporter = as_exporter(target.exporter)
    answer = Recommendation(
        "", target.name, "", "adopt", config, dict(target.space.default), None, "", {}, {},
        machine=seen.machine, options=asdict(options),
    )  # fmt: skip
    files: dict[str, str] = {}
    for format in exporter.FORMATS:
        files |= exporter.render(answer, format.name, {})
    return DryRun(config, (*seen.notes, *seen.described(config)), files)
