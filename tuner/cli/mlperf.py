"""`tune mlperf size | run | report`: MLPerf Storage's data sets, a run by DLIO, and its report over five runs."""

from __future__ import annotations

from typing import Annotated

import typer

from tuner.cli import mlperf_report, mlperf_run, options

_HELP = """MLPerf Storage: how large its data set must be, a run by DLIO, and the report over five runs.

Example: tune mlperf size --model unet3d --accelerators 4 --memory 128G
"""
_SIZE = """How many files a workload needs: five times the memory of all clients, and enough steps an epoch.

Example: tune mlperf size --model unet3d --accelerator h100 --accelerators 8 --hosts 2 --memory 128G
"""
Model = Annotated[str, typer.Option("--model", help="unet3d, resnet50 or cosmoflow; bert in v0.5.", metavar="NAME")]
Accelerator = Annotated[str, typer.Option("--accelerator", help="h100 or a100; v100 in v0.5.", metavar="NAME")]
VersionOption = Annotated[
    str,
    typer.Option("--mlperf-version", help="v0.5, v1.0 or v2.0; the newest that has the model, if none.", metavar="VERSION"),
]


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(help=_HELP, no_args_is_help=True, rich_markup_mode=None)
    group.command("size", help=_SIZE, short_help="How many files the rules ask for.")(_size)
    group.command("run", help=mlperf_run.HELP, short_help="Train with DLIO on a folder.")(mlperf_run.run)
    group.command("report", help=mlperf_report.HELP, short_help="The report over five runs.")(mlperf_report.report)
    app.add_typer(group, name="mlperf", short_help="MLPerf Storage: data sizes, runs by DLIO, reports.")


def _size(
    model: Model = "unet3d",
    accelerator: Accelerator = "",
    accelerators: Annotated[int, typer.Option("--accelerators", help="Accelerators in all.", metavar="N")] = 1,
    memory: Annotated[
        str, typer.Option("--memory", help="Memory of a client host; this machine's, if none.", metavar="SIZE")
    ] = "",
    hosts: Annotated[int, typer.Option("--hosts", help="Client hosts.", metavar="N")] = 1,
    version: VersionOption = "",
    as_json: options.AsJson = False,
) -> None:
    from runners.mlperf.memory import host_memory
    from runners.mlperf.size import data_size
    from runners.mlperf.workloads import find
    from tuner.session import user_mistakes

    with user_mistakes():
        workload = find(model, version, accelerator)
        size = data_size(workload, accelerators, host_memory(memory), hosts)
    demand = workload.demand * accelerators
    if as_json:
        from tuner import as_json as json_form

        json_form.dump(
            {
                "model": workload.model,
                "accelerator": workload.accelerator,
                "version": workload.version,
                "accelerators": accelerators,
                "files": size.files,
                "samples": size.samples,
                "bytes": size.bytes,
                "storage_gb": round(size.gib, 2),
                "decided_by": size.by,
                "minutes": size.minutes,
                "demand_mib_s": float(f"{demand:.6g}"),
                "threshold_percent": workload.threshold,
            }
        )
        return
    from tuner import screen

    out = screen.console()
    why = "five times the memory of the clients" if size.by == "memory" else f"{workload.steps} steps an epoch"
    title = f"{workload.name}, {accelerators} of them, {workload.version}"
    out.print(f"[bold]{screen.escape(title)}[/]")
    out.print(f"files     {size.files}, which take {size.gib:.0f} GB; {why} decides")
    epochs = "1 epoch" if workload.epochs == 1 else f"{workload.epochs} epochs"
    out.print(f"run       {size.minutes} minutes at best, {epochs}")
    rate = f"{demand:.0f}" if demand >= 10 else f"{demand:.2g}"
    out.print(f"demand    {rate} MiB/s keep all accelerators busy; {workload.threshold:.0f} % of the time is enough")
