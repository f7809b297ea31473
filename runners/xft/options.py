"""What a user may ask of `tune xft` besides its knobs; the command line is made from these fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from runners.options import option

EngineName = Literal["auto", "torch", "xft", "vllm", "command"]
LauncherName = Literal["auto", "mpirun", "ssh"]
Goal = Literal["next-token", "first-token", "throughput"]


@dataclass(frozen=True, slots=True)
class Options:
    """Options of one `tune xft` run; what is text is checked where it is used."""

    hosts: str = field(
        default="",
        metadata=option(
            "Hosts of the job: a hosts file, an Ansible inventory, or names like a,b; this host if none.", "FILE|LIST"
        ),
    )
    model: str = field(
        default="tiny",
        metadata=option(
            "Shape of the model: a name like qwen-72b, a config.json or config.ini, or tiny, which takes seconds.", "NAME|FILE"
        ),
    )
    layers: int = field(
        default=0,
        metadata=option(
            "Layers that the engine torch computes; 0 is all. Fewer are quicker, and said beside every figure.", "N"
        ),
    )
    dtype: str = field(
        default="", metadata=option("Type of the weights, as xFT names it; if none, what the engine and CPU do best.", "TYPE")
    )
    batch: int = field(default=1, metadata=option("Sequences at a time.", "N"))
    input_tokens: int = field(default=32, metadata=option("Tokens of a prompt.", "N"))
    output_tokens: int = field(default=32, metadata=option("Tokens that are generated for each prompt.", "N"))
    goal: Goal = field(
        default="next-token", metadata=option("What is made small, or large: a token's time, or tokens a second.")
    )
    ttft: str = field(
        default="",
        metadata=option("A service goal: the first token within this time, then most tokens a second; like 500ms.", "TIME"),
    )
    engine: EngineName = field(
        default="auto",
        metadata=option(
            "Who computes: xFT's benchmark.py, our decoder on torch, vllm, or your own --program; auto says which and why."
        ),
    )
    benchmark: str = field(default="", metadata=option("xFT's benchmark.py, or its checkout, for --engine xft.", "PATH"))
    program: str = field(
        default="", metadata=option("Your program with its arguments, started for each rank, for --engine command.", "COMMAND")
    )
    pattern: str = field(
        default="",
        metadata=option(
            "Regular expression for its figures, with groups next_ms, first_ms, tokens_per_s; xFT's own lines if none.",
            "REGEX",
        ),
    )
    launcher: LauncherName = field(
        default="auto",
        metadata=option("Who starts the ranks: mpirun, or ssh (this host: itself); auto takes an mpirun if there is one."),
    )
    mpi: str = field(
        default="", metadata=option("The mpirun; if none, the one beside this Python, else the PATH's.", "PROGRAM")
    )
    iface: str = field(
        default="", metadata=option("Network interface between hosts; the one that they share if none is named.", "NAME")
    )
    topology: str = field(
        default="",
        metadata=option("File with recorded topologies, to lay ranks out for hosts that are not there (--dry-run).", "FILE"),
    )
    ssh: str = field(default="ssh", metadata=option("The ssh command, with options that it needs.", "COMMAND"))
    python: str = field(
        default="", metadata=option("The Python that is started on the hosts, with the engine's packages.", "PROGRAM")
    )
