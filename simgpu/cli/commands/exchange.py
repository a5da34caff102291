"""``simgpu import`` and ``simgpu export``: to and from the files of frameworks and profilers."""

from __future__ import annotations

from typing import Annotated

import typer

from simgpu.cli.commands.options import Set
from simgpu.cli.guard import guarded


def import_(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Files of one run: DeepSpeed, Accelerate, LLaMA-Factory, Axolotl and others, and its launch script.",
        ),
    ],
    out: Annotated[str, typer.Option("--out", "-o", metavar="PATH", help="Scenario file; - is standard output.")],
    model: Annotated[
        str | None, typer.Option("--model", "-m", metavar="NAME|FILE", help="Bundled model, or a config.json.")
    ] = None,
    topology: Annotated[
        str | None, typer.Option("--topology", "-t", metavar="NAME|FILE", help="Bundled topology, or a file.")
    ] = None,
    gpus: Annotated[int | None, typer.Option("--gpus", metavar="N", min=1, help="GPUs in all.")] = None,
    set_: Set = None,
) -> None:
    """Make a scenario of the configuration files that a run has. Nothing in them is executed."""
    with guarded():
        from simgpu.cli.imports import import_command
        from simgpu.config.imported_run import RunAnswers

        answers = RunAnswers(model=model, topology=topology, gpus=gpus, settings=tuple(set_ or ()))
        import_command(files, answers, out=out)


def export(
    scenario: Annotated[str, typer.Argument(metavar="SCENARIO", help="Scenario file, or the name of a bundled one.")],
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="A trace: perfetto (one file) or kineto (a file per rank); "
            "launch files: deepspeed, accelerate, torchrun, megatron or torchtitan.",
        ),
    ] = "perfetto",
    out: Annotated[
        str | None, typer.Option("--out", "-o", metavar="PATH", help="File of perfetto, folder of the others.")
    ] = None,
    case: Annotated[
        str | None, typer.Option("--case", metavar="NAME", help="Which of the scenario's variants.")
    ] = None,
    set_: Set = None,
    waits: Annotated[
        bool, typer.Option("--waits", help="Let NCCL kernels spin until their partners come, as profilers show them.")
    ] = False,
    all_ranks: Annotated[
        bool, typer.Option("--all-ranks", help="Every rank, also of large jobs, whose alike ranks share a file.")
    ] = False,
) -> None:
    """Write a simulated step as a trace, for ui.perfetto.dev or as the PyTorch profiler does; or its launch files."""
    with guarded():
        from simgpu.cli.export import export_command

        written = export_command(
            scenario, form=form, out=out, case=case, overrides=set_ or (), waits=waits, all_ranks=all_ranks
        )
        typer.echo(written[0] if form == "perfetto" else f"{written[0].parent}: {len(written)} files")
