"""Lints a user's file: finds the target that understands it, asks its exporter, and writes what was mended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from runners.runner import Json
from tuner import targets
from tuner.errors import WrongUsage
from tuner.exporters.format import Exporter, Finding, Options, as_exporter
from tuner.files import diff, read_text, write_atomically


@dataclass(frozen=True, slots=True)
class Linted:
    """What was found in a file, and the diff of the safe mends, "" where there is none."""

    path: Path
    target: str
    findings: tuple[Finding, ...]
    diff: str

    def json(self) -> dict[str, Json]:
        return {"file": str(self.path), "target": self.target, "findings": [finding.json() for finding in self.findings]}


@dataclass(frozen=True, slots=True)
class Fixed:
    """A file after its safe mends: what was done (``diff``, ``backup`` of the old file) and what is left to the user."""

    path: Path
    target: str
    findings: tuple[Finding, ...]
    left: tuple[Finding, ...]
    diff: str
    backup: Path | None

    def json(self) -> dict[str, Json]:
        return {
            "file": str(self.path),
            "target": self.target,
            "findings": [finding.json() for finding in self.left],
            "fixed": [finding.json() for finding in self.findings if finding.safe],
            "backup": None if self.backup is None else str(self.backup),
        }


def lint_file(path: Path, options: Options | None = None, target: str | None = None) -> Linted:
    """Findings of ``path``; ``target`` names the linter where the file doesn't say. Raises WrongUsage."""
    text = read_text(path)
    name, exporter = _linter(path, text, target)
    chosen = with_machine(exporter, options)
    findings = exporter.lint(text, chosen)
    fixed = exporter.fix(text, chosen) if any(finding.safe for finding in findings) else text
    hide = hiding(exporter)
    return Linted(path, name, tuple(findings), diff(hide(text), hide(fixed), path.name))


def fix_file(path: Path, options: Options | None = None, target: str | None = None) -> Fixed:
    """Writes the safe mends into ``path`` and keeps a backup; a file without any is not touched.

    Raises WrongUsage and NotUsable.
    """
    text = read_text(path)
    name, exporter = _linter(path, text, target)
    chosen = with_machine(exporter, options)
    findings = exporter.lint(text, chosen)
    fixed = exporter.fix(text, chosen)
    backup = write_atomically(path, fixed) if fixed != text else None
    hide = hiding(exporter)
    shown = diff(hide(text), hide(fixed), path.name)
    return Fixed(path, name, tuple(findings), tuple(exporter.lint(fixed, chosen)), shown, backup)


def hiding(exporter: Exporter) -> Callable[[str], str]:
    """How a target hides what nobody but a file's reader may see, where its files hold such things."""
    hide = getattr(exporter, "masked", None)
    return cast("Callable[[str], str]", hide) if hide is not None else str


def with_machine(exporter: Exporter, options: Options | None) -> dict[str, Json]:
    """What this machine says, with what the user says over it."""
    given = {name: value for name, value in (options or {}).items() if value is not None}
    return {**exporter.machine_options(), **given}


def _linter(path: Path, text: str, target: str | None) -> tuple[str, Exporter]:
    if target is not None:
        return target, as_exporter(targets.load(target).exporter)
    for name, exporter in _exporters():
        if exporter.matches(path.name, text):
            return name, exporter
    raise WrongUsage(
        f"{path} is no settings file of a known target.",
        f"name it with --target; the targets are: {', '.join(targets.names())}",
    )


def _exporters() -> Iterator[tuple[str, Exporter]]:
    for name in targets.names():
        yield name, as_exporter(targets.load(name).exporter)
