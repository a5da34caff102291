"""``simgpu sweep``: every point of a scenario's grid, to a table, a page, and a journal that survives."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

from simgpu.cli.destination import DestinationError, choose_destination
from simgpu.cli.work_bar import WorkBar
from simgpu.errors import SimGPUError
from simgpu.io.text_file import check_writable, write_text
from simgpu.io.user_path import user_path

if TYPE_CHECKING:
    from rich.console import Console

    from simgpu.config.sweep_grid import SweepGrid
    from simgpu.metrics.sweep_table import SweepTable

_MOST_JOBS: Final = 512
_SHOWN: Final = 10  # rows in the terminal


class NoPointError(SimGPUError):
    """A grid of which nothing can be simulated."""


def sweep_command(
    file: str,
    *,
    overrides: Sequence[str],
    jobs: int | None,
    dask: str | None,
    journal: str | None,
    html: str | None,
    no_html: bool,
    csv: str | None,
    parquet: str | None,
    json: str | None,
    fold: bool,
) -> None:
    """Load a grid, simulate what the journal does not have, print and write.

    Parameters
    ----------
    file : str
        Scenario file or bundled name.
    overrides : sequence of str
        ``a.b=value`` settings.
    jobs : int or None
        Processes.
    dask : str or None
        Address of a Dask scheduler, in place of processes.
    journal, html, csv, parquet, json : str or None
        Paths as given.
    no_html, fold : bool

    Raises
    ------
    SimGPUError
        Before anything is simulated where the input or the output paths are at fault.
    """
    if jobs is not None and not 1 <= jobs <= _MOST_JOBS:
        raise DestinationError(f"--jobs {jobs}: is out of range; allowed: 1 to {_MOST_JOBS}")
    if jobs is not None and dask is not None:
        raise DestinationError("--jobs counts processes of this machine, --dask uses a cluster; fix: give one of them")
    if parquet is not None:
        from simgpu.io.parquet_file import require_parquet

        require_parquet()
    from simgpu.config.point_case import point_files
    from simgpu.config.sweep_grid import load_grid
    from simgpu.sweeps.run import run_grid

    grid = load_grid(file, overrides=overrides)
    stem = f"{grid.stem}.sweep"
    read = (path for point in grid.points for path in point_files(point.data, grid.folder))
    inputs = [*([] if grid.path is None else [grid.path]), *dict.fromkeys(read)]
    destination = choose_destination(stem=stem, html=html, no_html=no_html, json=json, inputs=inputs)
    kept = user_path(journal or f"{stem}.jsonl")
    csv_path = user_path(csv or f"{stem}.csv")
    parquet_path = None if parquet is None else user_path(parquet)
    _check_outputs(inputs, {
        "--journal": kept, "--csv": csv_path, "--parquet": parquet_path, "--html": destination.html,
        "--json": destination.json,
    })  # fmt: skip
    if dask is not None:
        from simgpu.executor.dask_cluster import dask_executor
    with dask_executor(dask) if dask is not None else nullcontext() as executor, closing(_Watch(kept)) as watch:
        table = run_grid(grid, jobs=jobs, executor=executor, journal=kept, fold=fold, watch=watch)
    if all(point.status != "ok" for point in table.points):
        from simgpu.metrics.sweep_verdict import reasons

        raise NoPointError("no point of the grid can be simulated:\n" + "\n".join(reasons(table)))
    page = None if destination.html is None else _page(table, grid, overrides)
    text = _write(
        table, destination.html, page, csv_path, parquet_path, destination.json, wanted=destination.json_to_stdout
    )
    console = destination.console()
    _print_table(table, console)
    for name, path in (("Report", destination.html), ("Table", csv_path), ("Parquet", parquet_path)):
        if path is not None:
            console.print(f"{name}: {path}", markup=False, soft_wrap=True)
    if text is not None:
        print(text, end="")


def _page(table: SweepTable, grid: SweepGrid, overrides: Sequence[str]) -> str:
    from simgpu.cli.point_basis import point_assumptions, scenario_files
    from simgpu.view.sweep_page import sweep_page

    ranked = table.ranked()
    rests = point_assumptions(table.name, grid.points[ranked[0].index].data, grid.folder) if ranked else ()
    return sweep_page(table, scenarios=scenario_files(grid.path, overrides), assumptions=rests)


def _check_outputs(inputs: Sequence[Path], outputs: dict[str, Path | None]) -> None:
    """Refuse files that cannot be written, that are read, or that two options name."""
    taken: dict[Path, str] = {path.resolve(): "read for this sweep" for path in inputs}
    for option, path in outputs.items():
        if path is None:
            continue
        check_writable(path)
        other = taken.setdefault(path.resolve(), option)
        if other != option:
            raise DestinationError(f"{option}: {path} is {other} as well; fix: name another file")


def _write(
    table: SweepTable,
    html: Path | None,
    page: str | None,
    csv: Path,
    parquet: Path | None,
    json: Path | None,
    *,
    wanted: bool,
) -> str | None:
    """Write the files; return the JSON text that is left for standard output."""
    from simgpu.io.json_file import to_json

    write_text(csv, table.to_csv())
    if parquet is not None:
        from simgpu.io.parquet_file import write_parquet

        write_parquet(parquet, table.columns())
    if html is not None and page is not None:
        write_text(html, page)
    text = to_json(table.to_json()) if json is not None or wanted else None
    if json is not None and text is not None:
        write_text(json, text)
    return text if wanted else None


def _print_table(table: SweepTable, console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    from simgpu.metrics.sweep_verdict import describe_sweep, reasons
    from simgpu.units import format_bytes, format_time

    console.print(Text(table.name, style="bold"))
    console.print(Text(describe_sweep(table)))
    for reason in reasons(table):
        console.print(Text(f"  {reason}"))
    ranked = table.ranked()[:_SHOWN]
    if not ranked:
        return
    grid = Table(title=f"Fastest {len(ranked)}" if len(ranked) > 1 else None, title_justify="left")
    for axis in table.axes:
        grid.add_column(Text(axis.field), justify="right", overflow="fold")
    for head in ("GPUs", "step time", "tokens/s", "MFU", "bubble", "peak memory"):
        grid.add_column(head, justify="right", no_wrap=True)
    for point in ranked:
        numbers = point.numbers
        grid.add_row(
            *(Text(label) for label in point.labels),
            f"{numbers['gpus']:,}",
            format_time(numbers["step_time_ns"]),
            f"{numbers['tokens_per_s']:,.0f}" if numbers["tokens_per_s"] else "-",
            f"{numbers['mfu']:.1%}" if numbers["mfu"] else "-",
            f"{numbers['bubble_fraction']:.1%}",
            format_bytes(numbers["peak_memory_bytes"]),
        )
    console.print(grid)


class _Watch(WorkBar):
    """Says on standard error how a sweep goes: lines everywhere, a bar with the time left on a terminal."""

    def __init__(self, journal: Path) -> None:
        super().__init__("points")
        self._journal = journal

    def begin(self, known: int, unknown: int, stale: int) -> None:
        if known:
            self.notice(f"{known:,} points are in {self._journal} already, {unknown:,} to go")
        if stale:
            results = "1 result there is" if stale == 1 else f"{stale:,} results there are"
            self.notice(f"{results} of another grid, scenario or SimGPU and not used")
        self.start(unknown)

    def done(self, status: str) -> None:
        self.advance()
