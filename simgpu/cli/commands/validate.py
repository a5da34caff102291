"""``simgpu validate``."""

from __future__ import annotations

from typing import Annotated

import typer

from simgpu.cli.commands.options import Html, Json, NoHtml, Set
from simgpu.cli.guard import guarded


def validate(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATH]...",
            help="Scenarios with measured values, CSV tables of runs, or folders; by default the published runs.",
            show_default=False,
        ),
    ] = None,
    set_: Set = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where", metavar="COLUMN=PATTERN", help="Rows of tables that count, such as tier=A. Repeatable."
        ),
    ] = None,
    group: Annotated[str, typer.Option(metavar="COLUMN", help="Split each table into families by this column.")] = "",
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", metavar="N", help="Processes; as many as CPUs by default.")
    ] = None,
    journal: Annotated[
        str | None,
        typer.Option("--journal", metavar="PATH", help="Keep finished predictions here, and go on from them."),
    ] = None,
    html: Html = None,
    no_html: NoHtml = False,
    json: Json = None,
) -> None:
    """Predict runs that were measured and show the errors. Writes ./validate.html."""
    with guarded():
        from simgpu.cli.validate import validate_command

        validate_command(
            paths or (),
            overrides=set_ or (),
            where=where or (),
            group=group,
            jobs=jobs,
            journal=journal,
            html=html,
            no_html=no_html,
            json=json,
        )
