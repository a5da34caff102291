"""``simgpu``: the commands and their options. Types double as help."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from simgpu import __version__
from simgpu.cli.guard import guarded
from simgpu.cli.topology import topology_app

app = typer.Typer(
    name="simgpu",
    help="Play a multi-GPU training step and see where every nanosecond goes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(topology_app)

_Scenario = Annotated[str, typer.Argument(metavar="FILE", help="Scenario file, or the name of a bundled one.")]
_Scenarios = Annotated[list[str], typer.Argument(metavar="FILE...", help="Scenario files, or names of bundled ones.")]
_Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Set a field, such as cluster.gpus=4. May be repeated."),
]
_Html = Annotated[str | None, typer.Option("--html", metavar="PATH", help="Where the HTML report goes.")]
_NoHtml = Annotated[bool, typer.Option("--no-html", help="Write no HTML report.")]
_Json = Annotated[
    str | None,
    typer.Option(
        "--json", metavar="PATH", help="Write the numbers as JSON; - is standard output, tables go to stderr."
    ),
]
_Rank = Annotated[int | None, typer.Option("--rank", metavar="R", help="Show this rank's own step as well.")]
_NoFold = Annotated[bool, typer.Option("--no-fold", help="Simulate every rank, even those proved alike.")]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"simgpu {__version__}")
        raise typer.Exit


@app.callback()
def _simgpu(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Play a multi-GPU training step and see where every nanosecond goes."""


@app.command()
def run(
    file: _Scenario,
    set_: _Set = None,
    html: _Html = None,
    no_html: _NoHtml = False,
    json: _Json = None,
    rank: _Rank = None,
    no_fold: _NoFold = False,
) -> None:
    """Simulate a scenario; with variants, compare them. Writes ./<scenario>.html."""
    _play([file], set_, html, no_html, json, rank, no_fold)


@app.command()
def compare(
    files: _Scenarios,
    set_: _Set = None,
    html: _Html = None,
    no_html: _NoHtml = False,
    json: _Json = None,
    rank: _Rank = None,
    no_fold: _NoFold = False,
) -> None:
    """Simulate several scenarios and lay all their cases side by side. Writes ./compare.html."""
    _play(files, set_, html, no_html, json, rank, no_fold)


def _play(
    files: list[str],
    set_: list[str] | None,
    html: str | None,
    no_html: bool,
    json: str | None,
    rank: int | None,
    no_fold: bool,
) -> None:
    with guarded():
        from simgpu.cli.play import play_files

        play_files(files, overrides=set_ or (), html=html, no_html=no_html, json=json, rank=rank, fold=not no_fold)


def main() -> None:
    """Run the command line; the entry point of ``simgpu`` and ``python -m simgpu``."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Unicode gets question marks, not a traceback
    with guarded():
        app(prog_name="simgpu")


if __name__ == "__main__":
    main()
