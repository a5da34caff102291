"""``simgpu schedule``."""

from __future__ import annotations

from typing import Annotated

import typer

from simgpu.cli.commands.options import Json
from simgpu.cli.guard import guarded


def schedule(
    name: Annotated[
        str, typer.Argument(metavar="NAME|FILE", help="Pipeline schedule such as 1f1b or zbv, or a CSV of PyTorch's.")
    ],
    stages: Annotated[int | None, typer.Option("--stages", "-p", metavar="P", help="Pipeline ranks.")] = None,
    virtual: Annotated[
        int | None,
        typer.Option("--virtual", "-v", metavar="V", help="Stages per rank; 1, or 2 where it takes several."),
    ] = None,
    microbatches: Annotated[
        int | None, typer.Option("--microbatches", "-m", metavar="M", help="Microbatches per step.")
    ] = None,
    pipeline_microbatches: Annotated[
        int | None,
        typer.Option(
            "--pipeline-microbatches",
            metavar="M",
            help="Microbatches of one run of the pipeline, which drains and fills again for the next; all by default.",
        ),
    ] = None,
    form: Annotated[str, typer.Option("--format", metavar="FORMAT", help="grid, or PyTorch's csv.")] = "grid",
    json: Json = None,
) -> None:
    """Print a pipeline schedule, step by step, after checking that it can run."""
    with guarded():
        from simgpu.cli.schedule import schedule_command

        schedule_command(
            name,
            stages=stages,
            virtual=virtual,
            microbatches=microbatches,
            pipeline_microbatches=pipeline_microbatches,
            form=form,
            json=json,
        )
