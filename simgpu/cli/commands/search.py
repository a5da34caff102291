"""``simgpu search``."""

from __future__ import annotations

from typing import Annotated

import typer

from simgpu.cli.commands.options import Html, Json, NoFold, NoHtml, Scenario, Set
from simgpu.cli.guard import guarded


def search(
    file: Scenario,
    set_: Set = None,
    out: Annotated[
        str | None, typer.Option("--out", metavar="PATH", help="Winner as a scenario file; - is standard output.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", metavar="N", help="Processes; as many as CPUs by default.")
    ] = None,
    journal: Annotated[
        str | None,
        typer.Option("--journal", metavar="PATH", help="Keep finished simulations here, and go on from them."),
    ] = None,
    html: Html = None,
    no_html: NoHtml = False,
    json: Json = None,
    no_fold: NoFold = False,
) -> None:
    """Find the fastest strategy that fits, for a fixed model, cluster and batch. Writes ./<scenario>.search.html."""
    with guarded():
        from simgpu.cli.search import search_command

        search_command(
            file,
            overrides=set_ or (),
            out=out,
            jobs=jobs,
            journal=journal,
            html=html,
            no_html=no_html,
            json=json,
            fold=not no_fold,
        )
