"""``simgpu run`` and ``simgpu compare``."""

from __future__ import annotations

from typing import Annotated

import typer

from simgpu.cli.commands.options import Advice, Html, Json, NoFold, NoHtml, Png, Rank, Scenario, Scenarios, Set, Svg
from simgpu.cli.guard import guarded


def run(
    file: Scenario,
    set_: Set = None,
    html: Html = None,
    no_html: NoHtml = False,
    json: Json = None,
    png: Png = None,
    svg: Svg = None,
    rank: Rank = None,
    no_fold: NoFold = False,
    what_if: Annotated[
        str | None,
        typer.Option(
            "--what-if",
            metavar="CHANGES",
            help="Play again with changes, such as nvlink=2x,tp=free,bubble=none; the largest gains by default.",
        ),
    ] = None,
    no_what_if: Annotated[bool, typer.Option("--no-what-if", help="Look for no gains.")] = False,
    advice: Advice = None,
) -> None:
    """Simulate a scenario; with variants, compare them. Writes ./<scenario>.html."""
    pictures = (png, svg)
    gains = not no_what_if
    _play([file], set_, html, no_html, json, rank, no_fold, pictures, what_if=what_if, gains=gains, advice=advice)


def compare(
    files: Scenarios,
    set_: Set = None,
    html: Html = None,
    no_html: NoHtml = False,
    json: Json = None,
    png: Png = None,
    svg: Svg = None,
    rank: Rank = None,
    no_fold: NoFold = False,
    advice: Advice = None,
) -> None:
    """Simulate several scenarios and lay all their cases side by side. Writes ./compare.html."""
    _play(files, set_, html, no_html, json, rank, no_fold, (png, svg), advice=advice)


def _play(
    files: list[str],
    set_: list[str] | None,
    html: str | None,
    no_html: bool,
    json: str | None,
    rank: int | None,
    no_fold: bool,
    pictures: tuple[str | None, str | None],
    *,
    what_if: str | None = None,
    gains: bool = False,
    advice: bool | None = None,
) -> None:
    with guarded():
        from simgpu.cli.play import play_files

        play_files(
            files,
            overrides=set_ or (),
            html=html,
            no_html=no_html,
            json=json,
            png=pictures[0],
            svg=pictures[1],
            rank=rank,
            fold=not no_fold,
            what_if=what_if,
            gains=gains,
            advice=advice,
        )
