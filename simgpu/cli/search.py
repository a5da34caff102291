"""``simgpu search``: the fastest strategy that fits, why the others are not, and the winner as a scenario file."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from simgpu.cli.destination import STDOUT, DestinationError, choose_destination
from simgpu.cli.work_bar import WorkBar
from simgpu.errors import SimGPUError
from simgpu.io.text_file import check_writable, write_text
from simgpu.io.user_path import user_path

if TYPE_CHECKING:
    from rich.console import Console

    from simgpu.config.search_space import SearchSpace
    from simgpu.searches.result import SearchResult

_MOST_JOBS: Final = 512
_SHOWN: Final = 15  # rows in the terminal


class NothingFitsError(SimGPUError):
    """A space in which no strategy fits."""


def search_command(
    file: str,
    *,
    overrides: Sequence[str],
    out: str | None,
    jobs: int | None,
    journal: str | None,
    html: str | None,
    no_html: bool,
    json: str | None,
    fold: bool,
) -> None:
    """Load a space, search it, print and write.

    Parameters
    ----------
    file : str
        Scenario file or bundled name.
    overrides : sequence of str
        ``a.b=value`` settings.
    out : str or None
        Where the winner's scenario goes; ``-`` is standard output.
    jobs : int or None
        Processes.
    journal, html, json : str or None
        Paths as given.
    no_html : bool
    fold : bool

    Raises
    ------
    SimGPUError
        Before anything is simulated where the input or the output paths are at fault.
    """
    if jobs is not None and not 1 <= jobs <= _MOST_JOBS:
        raise DestinationError(f"--jobs {jobs}: is out of range; allowed: 1 to {_MOST_JOBS}")
    if out == STDOUT == json:
        raise DestinationError("--out - and --json - both are standard output; fix: name a file for one of them")
    from simgpu.config.point_case import point_files
    from simgpu.config.search_space import load_search
    from simgpu.searches.run import run_search

    space = load_search(file, overrides=overrides)
    inputs = [*([] if space.path is None else [space.path]), *point_files(space.base, space.folder)]
    destination = choose_destination(
        stem=f"{space.stem}.search", html=html, no_html=no_html, json=json, inputs=inputs
    )  # fmt: skip
    kept = None if journal is None else user_path(journal)
    out_path = None if out is None or out == STDOUT else user_path(out)
    _check_outputs(inputs, {
        "--out": out_path, "--journal": kept, "--html": destination.html, "--json": destination.json,
    })  # fmt: skip
    with closing(_Watch()) as watch:
        result = run_search(space, jobs=jobs, journal=kept, fold=fold, watch=watch)
    console = replace(destination, json_to_stdout=STDOUT in (json, out)).console()
    _print(result, console)
    page = None if destination.html is None else _page(result, space, overrides)
    text = _write(result, destination.html, page, destination.json, out_path, wanted=destination.json_to_stdout)
    if destination.html is not None:
        console.print(f"Report: {destination.html}", markup=False, soft_wrap=True)
    if out_path is not None and result.scenario is not None:
        console.print(f"Winner: {out_path}", markup=False, soft_wrap=True)
    if out == STDOUT and result.scenario is not None:
        text = _scenario_text(result)
    if text is not None:
        print(text, end="")
    if result.winner is None:
        raise NothingFitsError(f"{file}: no strategy fits; fix: use more GPUs, or list other values in search")


def _check_outputs(inputs: Sequence[Path], outputs: dict[str, Path | None]) -> None:
    """Refuse files that cannot be written, that are read, or that two options name."""
    taken: dict[Path, str] = {path.resolve(): "read for this search" for path in inputs}
    for option, path in outputs.items():
        if path is None:
            continue
        check_writable(path)
        other = taken.setdefault(path.resolve(), option)
        if other != option:
            raise DestinationError(f"{option}: {path} is {other} as well; fix: name another file")


def _page(result: SearchResult, space: SearchSpace, overrides: Sequence[str]) -> str:
    from simgpu.cli.point_basis import point_assumptions, scenario_files
    from simgpu.view.search_page import search_page

    won = result.scenario
    return search_page(
        result.to_json(),
        verdict=str(result),
        scenario="" if won is None else _scenario_text(result),
        scenarios=scenario_files(space.path, overrides),
        assumptions=() if won is None else point_assumptions(result.name, won, space.folder),
    )


def _write(
    result: SearchResult, html: Path | None, page: str | None, json: Path | None, out: Path | None, *, wanted: bool
) -> str | None:
    """Write the files; return the JSON text that is left for standard output."""
    from simgpu.io.json_file import to_json

    if out is not None and result.scenario is not None:
        write_text(out, _scenario_text(result))
    if html is not None and page is not None:
        write_text(html, page)
    text = to_json(result.to_json()) if json is not None or wanted else None
    if json is not None and text is not None:
        write_text(json, text)
    return text if wanted else None


def _scenario_text(result: SearchResult) -> str:
    from simgpu.io.scenario_yaml import to_scenario_yaml

    return to_scenario_yaml(result.scenario or {}, [*str(result).splitlines(), "", "simgpu run plays it."])


def _print(result: SearchResult, console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    from simgpu.units import format_bytes, format_time

    console.print(Text(result.name, style="bold"))
    console.print(Text(str(result)))
    ranked = result.ranked()[:_SHOWN]
    varied = [axis for axis in result.axes if len({str(one.set.get(axis)) for one in ranked}) > 1]
    grid = Table(title=f"First {len(ranked)} of {len(result.candidates):,}", title_justify="left")
    for axis in varied or list(result.axes)[:1]:
        grid.add_column(Text(axis.replace("_", " ")), justify="right", overflow="fold")
    for head in ("step", "no less than", "peak memory"):
        grid.add_column(head, justify="right", no_wrap=True)
    grid.add_column("why not", overflow="fold")
    for one in ranked:
        numbers = one.numbers
        grid.add_row(
            *(Text(_cell(one.set.get(axis))) for axis in varied or list(result.axes)[:1]),
            format_time(numbers["step_time_ns"]) if numbers else "-",
            "-" if one.bound_ns is None else format_time(one.bound_ns),
            format_bytes(numbers["peak_memory_bytes"]) if numbers else "-",
            Text(one.reason or "the winner"),
        )
    console.print(grid)


def _cell(value: object) -> str:
    return "-" if value is None else "-".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


class _Watch(WorkBar):
    """Says on standard error how a search goes."""

    def __init__(self) -> None:
        super().__init__("simulated")

    def begin(self, candidates: int) -> None:
        self.notice(f"{candidates:,} strategies")
        self.start(candidates)

    def done(self, status: str, left: int) -> None:
        self.advance()
        self.expect(left)
