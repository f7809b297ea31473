"""`tune mlperf report`: results read in, MLPerf's rules held against them, and its own report files written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from tuner.cli import options
from tuner.errors import WrongUsage

if TYPE_CHECKING:
    from runners.mlperf.report import Report
    from runners.mlperf.reported import Reported

HELP = """Read results of v0.5, v1.0 or v2.0, hold the rules against them, and write MLPerf's own report files with -o.

DIR holds the runs (their summary.json), or is a report file. Exit code 1 when a rule is broken.

Example: tune mlperf report results/unet3d_h100 -o results
"""
BROKEN = 1  # exit code: a rule is broken


def report(
    where: Annotated[Path, typer.Argument(metavar="DIR", help="Folder with the runs, or a report file.")],
    output: Annotated[
        Optional[Path],  # noqa: UP045  Typer reads this at run time on Python 3.10 too
        typer.Option("-o", "--output", help="Write MLPerf's own report files into this folder.", metavar="DIR"),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    from runners.mlperf import report as rules
    from runners.mlperf.fields import BadResult
    from runners.mlperf.folders import SUMMARY, read_folder
    from runners.mlperf.reported import find_reports, read_report

    try:
        if where.is_file() or (where.is_dir() and not any(where.rglob(SUMMARY)) and find_reports(where)):
            if output is not None:
                raise WrongUsage(f"-o {output}: {where} is a report already; name the folder with the runs to write one")
            finished = [each for file in find_reports(where) for each in read_report(file)]
            raise typer.Exit(_show_finished(finished, as_json=as_json))
        reports = [rules.report(runs) for runs in read_folder(where)]
        written = _write(reports, output) if output is not None else []
    except BadResult as error:
        raise WrongUsage(str(error)) from None
    raise typer.Exit(_show(reports, written, as_json=as_json))


def _write(reports: list[Report], folder: Path) -> list[Path]:
    from runners.mlperf.formats import render
    from tuner.files import write_atomically

    versions = {each.runs[0].version for each in reports}
    if len(versions) > 1 or (len(reports) > 1 and versions != {"v2.0"}):
        where = ", ".join(str(each.runs[0].folder.parent) for each in reports)
        raise WrongUsage(f"-o {folder}: there are {len(reports)} reports; write each from its own folder: {where}")
    if not folder.is_dir():
        raise WrongUsage(f"-o {folder}: is no folder")
    written = []
    for name, text in render(reports).items():
        write_atomically(folder / name, text)
        written.append(folder / name)
    return written


def _show(reports: list[Report], written: list[Path], *, as_json: bool) -> int:
    """Prints reports and returns the exit code."""
    valid = all(each.valid for each in reports)
    if as_json:
        from tuner import as_json as json_form

        json_form.dump({"reports": [_as_record(each) for each in reports], "valid": valid, "written": list(map(str, written))})
        return 0 if valid else BROKEN
    from tuner import screen

    out = screen.console()
    for each in reports:
        _print(out, each)
    for file in written:
        out.print(f"written   {screen.escape(str(file))}")
    return 0 if valid else BROKEN


def _print(out: Any, report: Report) -> None:
    from tuner import screen

    first = report.runs[0]
    what = " on ".join(filter(None, (report.model or "an unnamed workload", report.accelerator)))
    title = f"{what}, {first.accelerators} of them, {first.version}: {len(report.runs)} runs in {first.folder.parent}"
    out.print(f"[bold]{screen.escape(title)}[/]")
    table = screen.table("run", "samples/s", "MiB/s", "utilisation", "of epochs")
    for run in ((report.warm_up,) if report.warm_up else ()) + report.runs:
        epochs = " ".join(f"{au:.1f}" for each in run.summaries[:1] if each.training for au in each.training.au)
        name = f"{run.name} (warm-up)" if run is report.warm_up else run.name
        row = (name, f"{run.samples_per_second:.4g}", f"{run.io_rate:.5g}", f"{run.au:.1f} %", epochs)
        table.add_row(*map(screen.escape, row))
    out.print(table)
    deviation = report.samples_per_second_deviation
    out.print(f"mean      {report.samples_per_second:.4f} samples/s (deviation {deviation:.3g}), {report.io_rate:.1f} MiB/s")
    out.print(f"reached   {report.au:.1f} % utilisation at least, where {report.threshold:.0f} % is asked for")
    for finding in report.findings:
        style, word = ("red", "broken") if finding.invalid else ("yellow", "note")
        out.print(f"[bold {style}]{word:<9}[/] {screen.escape(finding.message)}")
    if report.valid:
        out.print(
            f"[bold green]valid[/]     every rule that can be seen in these files is kept; {report.division.upper()} division"
        )


def _as_record(report: Report) -> dict[str, Any]:
    first = report.runs[0]
    return {
        "model": report.model,
        "accelerator": report.accelerator,
        "version": first.version,
        "accelerators": first.accelerators,
        "hosts": first.hosts,
        "samples_per_second": report.samples_per_second,
        "io_mib_s": report.io_rate,
        "au_percent": report.au,
        "threshold_percent": report.threshold,
        "division": report.division,
        "valid": report.valid,
        "findings": [{"rule": each.rule, "invalid": each.invalid, "message": each.message} for each in report.findings],
        "runs": [
            {
                "name": run.name,
                "samples_per_second": run.samples_per_second,
                "io_mib_s": run.io_rate,
                "au_percent": run.au,
                "au_by_epoch": [list(each.training.au) for each in run.summaries if each.training],
            }
            for run in report.runs
        ],
    }


def _show_finished(reports: list[Reported], *, as_json: bool) -> int:
    doubted = any(each.doubts for each in reports)
    if as_json:
        from tuner import as_json as json_form

        records = [
            {
                "file": str(each.file),
                "model": each.model,
                "accelerator": each.accelerator,
                "accelerators": each.accelerators,
                "runs": len(each.runs),
                "samples_per_second": each.samples_per_second,
                "io_mib_s": each.io_rate,
                "doubts": list(each.doubts),
            }
            for each in reports
        ]
        json_form.dump({"reports": records, "valid": not doubted})
        return BROKEN if doubted else 0
    from tuner import screen

    out = screen.console()
    for each in reports:
        what = " on ".join(filter(None, (each.model, each.accelerator)))
        out.print(f"[bold]{screen.escape(f'{what}, {each.accelerators} of them: a report of {len(each.runs)} runs')}[/]")
        out.print(f"mean      {each.samples_per_second:.4f} samples/s, {each.io_rate:.1f} MiB/s")
        for doubt in each.doubts:
            out.print(f"[bold yellow]doubt[/]     {screen.escape(doubt)}")
    return BROKEN if doubted else 0
