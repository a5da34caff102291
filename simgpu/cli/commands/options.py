"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Scenario = Annotated[str, typer.Argument(metavar="FILE", help="Scenario file, or the name of a bundled one.")]
Scenarios = Annotated[list[str], typer.Argument(metavar="FILE...", help="Scenario files, or names of bundled ones.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Set a field, such as cluster.gpus=4. May be repeated."),
]
Html = Annotated[str | None, typer.Option("--html", metavar="PATH", help="Where the HTML report goes.")]
NoHtml = Annotated[bool, typer.Option("--no-html", help="Write no HTML report.")]
Json = Annotated[
    str | None,
    typer.Option(
        "--json", metavar="PATH", help="Write the numbers as JSON; - is standard output, tables go to stderr."
    ),
]
Png = Annotated[
    str | None, typer.Option("--png", metavar="PATH", help="Draw the timeline as PNG; needs the static extra.")
]
Svg = Annotated[
    str | None, typer.Option("--svg", metavar="PATH", help="Draw the timeline as SVG; needs the static extra.")
]
Rank = Annotated[int | None, typer.Option("--rank", metavar="R", help="Show this rank's own step as well.")]
Advice = Annotated[
    bool | None,
    typer.Option("--advice/--no-advice", help="Try the usual levers on runs that disappoint; small ones by default."),
]
NoFold = Annotated[bool, typer.Option("--no-fold", help="Simulate every rank, even those proved alike.")]
