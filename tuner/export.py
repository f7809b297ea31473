"""Writes a recommendation down: as new files, into the user's own file, or as text to look at first."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tuner import targets
from tuner.errors import WrongUsage
from tuner.exporters.format import Exporter, Options, as_exporter
from tuner.files import backups, read_text, roll_back, write_atomically
from tuner.files import diff as unified
from tuner.lint import hiding, with_machine
from tuner.recommendation import Recommendation


@dataclass(frozen=True, slots=True)
class ExportResult:
    """``texts`` by file name or path; of these ``written`` now holds; ``diff`` is against what is on disk.

    Both are to be shown: credentials in a user's file are hidden in them, not in what is written.

    ``notes`` say what else had to change in the user's file; ``backups`` are the files that were replaced.
    """

    texts: Mapping[str, str]
    written: tuple[Path, ...] = ()
    backups: tuple[Path, ...] = ()
    diff: str = ""
    notes: tuple[str, ...] = field(default=())


def export(
    recommendation: Recommendation,
    format: str | None = None,
    output: Path | None = None,
    into: Path | None = None,
    diff: bool = False,
    options: Options | None = None,
) -> ExportResult:
    """Renders ``recommendation`` and writes it to ``output`` (a file or a folder) or merges it ``into`` a file.

    With neither, or with ``diff``, nothing is written; a file that is replaced is kept as a backup. Raises WrongUsage and
    NotUsable.
    """
    if diff and output is None and into is None:
        raise WrongUsage("--diff needs --into FILE or -o FILE to compare with.")
    if output is not None and into is not None:
        raise WrongUsage("-o and --into can't be used together: one writes a new file, the other changes yours.")
    exporter = as_exporter(targets.load(recommendation.target).exporter)
    chosen = with_machine(exporter, options)
    if into is not None:
        return _merge(exporter, recommendation, into, diff, chosen, options or {})
    texts = exporter.render(recommendation, format or exporter.FORMATS[0].name, chosen)
    if output is None:
        return ExportResult(texts)
    return _write(_places(texts, output), diff, hiding(exporter))


def rolled_back(path: Path, diff: bool = False) -> ExportResult:
    """Puts the newest backup of ``path`` back; ``backups`` of the result is what stood there. With ``diff`` only shows it.

    Raises WrongUsage and NotUsable.
    """
    text = read_text(path, "--rollback")
    found = backups(path)
    if not found:
        raise WrongUsage(f"--rollback {path}: there is no backup of it ({path.name}.bak), so no export replaced it.")
    old = read_text(found[0], "--rollback")
    hide = _hiding_of(path, text)
    shown = unified(hide(text), hide(old), path.name)
    texts = {str(path): hide(old)}
    if diff:
        return ExportResult(texts, diff=shown)
    _, kept = roll_back(path)
    return ExportResult(texts, (path,), (kept,), shown)


def _hiding_of(path: Path, text: str) -> Callable[[str], str]:
    """As ``_hiding``, of the target whose file it is; all is shown of a file that is no target's."""
    for name in targets.names():
        exporter = as_exporter(targets.load(name).exporter)
        if exporter.matches(path.name, text):
            return hiding(exporter)
    return str


def _merge(
    exporter: Exporter, recommendation: Recommendation, into: Path, diff: bool, options: Options, given: Options
) -> ExportResult:
    text = read_text(into, "--into")
    try:
        merged = exporter.merge(text, recommendation, options)
    except WrongUsage as error:
        raise WrongUsage(f"--into {into}: {error.message}", error.mend) from None
    notes = (*merged.notes, *_left(len(exporter.lint(merged.text, options)), into, given))
    hide = hiding(exporter)
    shown = unified(hide(text), hide(merged.text), into.name)
    texts = {str(into): hide(merged.text)}
    if diff or merged.text == text:
        return ExportResult(texts, diff=shown, notes=notes)
    backup = write_atomically(into, merged.text)
    return ExportResult(texts, (into,), (backup,) if backup else (), shown, notes)


def _left(count: int, into: Path, given: Options) -> list[str]:
    """That the rest of the file is not in order, which merging leaves as it is."""
    if not count:
        return []
    asked = []
    for name, value in given.items():
        if value is not None and value is not False:
            asked += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    file = ["--", str(into)] if str(into).startswith("-") else [str(into)]
    command = shlex.join(["tune", "lint", *asked, *file])
    return [f"the file then has {count} {'finding' if count == 1 else 'findings'} left in what was yours: {command}"]


def _places(texts: Mapping[str, str], output: Path) -> dict[Path, str]:
    """Where each text goes: into a folder under its own name, or the only one to the very path."""
    if output.is_dir():
        return {output / name: text for name, text in texts.items()}
    if len(texts) > 1:
        raise WrongUsage(f"-o {output}: this format has {len(texts)} files ({', '.join(texts)}); name a folder that exists.")
    (text,) = texts.values()
    return {output: text}


def _write(places: Mapping[Path, str], diff: bool, hide: Callable[[str], str]) -> ExportResult:
    shown = "".join(
        unified(hide(read_text(path, "-o")) if os.path.lexists(path) else "", hide(text), path.name)
        for path, text in places.items()
    )
    texts = {str(path): hide(text) for path, text in places.items()}
    if diff:
        return ExportResult(texts, diff=shown)
    backups = [write_atomically(path, text) for path, text in places.items()]
    return ExportResult(texts, tuple(places), tuple(backup for backup in backups if backup is not None), shown)
