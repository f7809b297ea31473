"""`tune mlperf run`: data generated where there is none, then training runs by DLIO, each judged by MLPerf's rules."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, List, Optional  # noqa: UP035  Typer reads these at run time on Python 3.10 too

import typer

from tuner.cli import options

if TYPE_CHECKING:
    from runners.mlperf.session import Run, Session

HELP = """Train with DLIO on a folder, as MLPerf Storage does it: real reads, and a sleep for each step's computation.

The data set is generated when the folder holds none and --files says how many. Fewer or smaller files than the rules ask for
are measured too, and said to be no submission. Exit code 1 when a run misses the utilisation that it must reach.

Example: tune mlperf run --data /mnt/data/unet3d --model unet3d --accelerators 2 --files 64 --runs 1
"""
BROKEN = 1


def run(
    data: Annotated[Path, typer.Option("--data", help="Folder with the data set, or for it.", metavar="DIR")],
    model: Annotated[
        str, typer.Option("--model", help="unet3d, resnet50 or cosmoflow; bert in v0.5.", metavar="NAME")
    ] = "unet3d",
    accelerator: Annotated[str, typer.Option("--accelerator", help="h100 or a100; v100 in v0.5.", metavar="NAME")] = "",
    accelerators: Annotated[int, typer.Option("--accelerators", help="Emulated accelerators in all.", metavar="N")] = 1,
    version: Annotated[
        str, typer.Option("--mlperf-version", help="Whose workloads and rules; the newest, if none.", metavar="VERSION")
    ] = "",
    runs: Annotated[int, typer.Option("--runs", help="Runs, one after the other; a report takes 5.", metavar="N")] = 1,
    files: Annotated[
        int,
        typer.Option("--files", help="Files to generate where the folder holds none, or to use of those there.", metavar="N"),
    ] = 0,
    epochs: Annotated[int, typer.Option("--epochs", help="Epochs of a run; those of the workload, if none.", metavar="N")] = 0,
    param: Annotated[
        Optional[List[str]],  # noqa: UP006, UP045
        typer.Option(
            "--param", help="A parameter of DLIO, like reader.read_threads=8; may be repeated.", metavar="NAME=VALUE"
        ),
    ] = None,
    open_division: Annotated[bool, typer.Option("--open", help="Allow parameters that the CLOSED division doesn't.")] = False,
    results: Annotated[
        Path, typer.Option("--results", help="Folder for the results; it may not hold any yet.", metavar="DIR")
    ] = Path("mlperf-results"),
    hosts: Annotated[
        str, typer.Option("--hosts", help="Client hosts: a file, or names like a,b:4; this one, if none.", metavar="FILE|LIST")
    ] = "",
    mpi: Annotated[
        str, typer.Option("--mpi", help="The mpirun to use; that beside DLIO's Python, if none.", metavar="PROGRAM")
    ] = "",
    python: Annotated[
        str, typer.Option("--dlio-python", help="The Python that has DLIO; this one, if none.", metavar="PROGRAM")
    ] = "",
    ssh: Annotated[str, typer.Option("--ssh", help="The ssh command, with options that it needs.", metavar="COMMAND")] = "ssh",
    limit: Annotated[
        str, typer.Option("--limit", help="The longest that one run may take; from the workload, if none.", metavar="DURATION")
    ] = "",
    as_json: options.AsJson = False,
) -> None:
    from runners.mlperf.opening import Asked, opened
    from tuner.session import user_mistakes

    asked = Asked(
        data=data,
        model=model,
        accelerator=accelerator,
        accelerators=accelerators,
        version=version,
        runs=runs,
        files=files,
        epochs=epochs,
        parameters=tuple(param or ()),
        open_division=open_division,
        results=results,
        hosts=hosts,
        mpi=mpi,
        python=python,
        ssh=ssh,
        limit=limit,
    )
    done: list[Run] = []
    with user_mistakes(), opened(asked, _tell) as session:
        for sentence in session.notes:
            _tell(sentence)
        for number in range(1, asked.runs + 1):
            done.append(session.run(number))
            if not as_json:
                _print(session, done[-1])
        raise typer.Exit(_end(session, done, as_json=as_json))


def _tell(sentence: str) -> None:
    typer.echo(sentence, err=True)


def _print(session: Session, run: Run) -> None:
    from tuner import screen

    out = screen.console()
    training = run.trained.summary.training
    assert training is not None
    style = "green" if session.passed(run) else "red"
    wanted = f"where {session.workload.threshold:.0f} % is asked for"
    figures = f"{run.samples_per_second:.4g} samples/s, {session.io_rate(run):.5g} MiB/s"
    out.print(f"[bold]{screen.escape(run.name)}[/]  utilisation [bold {style}]{run.au:.1f} %[/] {wanted}; {figures}")
    for epoch, au in zip(run.trained.epochs, training.au, strict=True):
        steps = f"{epoch.steps} steps of {epoch.median_step * 1000:.0f} ms (median), the first after {epoch.first_step:.2f} s"
        out.print(f"  epoch {epoch.number}: {au:.1f} %; {steps}")
    for warning in run.warnings:
        out.print(f"  [bold yellow]note[/] {screen.escape(warning)}")


def _end(session: Session, done: list[Run], *, as_json: bool) -> int:
    passed = all(map(session.passed, done))
    if as_json:
        from tuner import as_json as json_form

        json_form.dump(session.record(done))
        return 0 if passed else BROKEN
    from tuner import screen

    out = screen.console()
    out.print(f"results   {screen.escape(str(session.folder))}")
    out.print(f"bound by  {screen.escape(session.bound(done))}")
    if len(done) > 1:
        out.print(f"next      tune mlperf report {screen.escape(str(session.folder))}")
    return 0 if passed else BROKEN
