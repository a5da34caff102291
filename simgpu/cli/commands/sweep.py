"""``simgpu sweep``."""

from __future__ import annotations

from typing import Annotated

import typer

from simgpu.cli.commands.options import Html, Json, NoFold, NoHtml, Scenario, Set
from simgpu.cli.guard import guarded


def sweep(
    file: Scenario,
    set_: Set = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", metavar="N", help="Processes; as many as CPUs by default.")
    ] = None,
    dask: Annotated[
        str | None, typer.Option("--dask", metavar="ADDRESS", help="Use a Dask cluster: its scheduler's address.")
    ] = None,
    journal: Annotated[
        str | None,
        typer.Option("--journal", metavar="PATH", help="Finished points, to resume from; ./<scenario>.sweep.jsonl."),
    ] = None,
    html: Html = None,
    no_html: NoHtml = False,
    csv: Annotated[
        str | None, typer.Option("--csv", metavar="PATH", help="Where the table goes; ./<scenario>.sweep.csv.")
    ] = None,
    parquet: Annotated[
        str | None, typer.Option("--parquet", metavar="PATH", help="Write the table as Parquet too (pyarrow).")
    ] = None,
    json: Json = None,
    no_fold: NoFold = False,
) -> None:
    """Simulate every point of a scenario's sweep grid; the same command resumes. Writes ./<scenario>.sweep.html."""
    with guarded():
        from simgpu.cli.sweep import sweep_command

        sweep_command(
            file,
            overrides=set_ or (),
            jobs=jobs,
            dask=dask,
            journal=journal,
            html=html,
            no_html=no_html,
            csv=csv,
            parquet=parquet,
            json=json,
            fold=not no_fold,
        )
