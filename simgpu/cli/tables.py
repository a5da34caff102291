"""Reports as tables in the terminal: the verdict first, then the numbers behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

from simgpu.cli.advice_table import advice_table
from simgpu.cli.grid import Grid, cell_width
from simgpu.metrics.gain import gains_text
from simgpu.units import format_bytes, format_time

if TYPE_CHECKING:
    from rich.console import Console

    from simgpu.metrics.report import RankReport, Report

CLASS_LABELS: Final[dict[str, str]] = {
    "compute.gemm": "compute: matrix products",
    "compute.attention": "compute: attention",
    "compute.memory_bound": "compute: memory-bound",
    "compute.recompute": "compute: recomputation",
    "compute.optimizer": "compute: optimizer",
    "exposed.tp": "exposed communication: tp",
    "exposed.cp": "exposed communication: cp",
    "exposed.ep": "exposed communication: ep",
    "exposed.pp": "exposed communication: pp",
    "exposed.dp": "exposed communication: dp",
    "bubble": "pipeline bubble",
    "straggler": "waiting for stragglers",
    "host": "waiting for the host",
}
_NONE: Final = "-"
_SHOWN: Final = 0.0005  # of the step: less reads 0.0 %


def print_report(reports: Sequence[Report], console: Console, *, title: str, rank: int | None = None) -> None:
    """Print the verdict, the comparison, the breakdown and the memory of some runs.

    Parameters
    ----------
    reports : sequence of Report
    console : Console
    title : str
    rank : int, optional
        Whose own step to print as well.
    """
    from simgpu.metrics.comparison import compare
    from simgpu.metrics.slowest import describe_classes

    console.print(Text(title, style="bold"))
    console.print(Text(compare(reports)))
    console.print()
    console.print(comparison_table(reports))
    grids = [breakdown_grid("Where the step goes (mean over ranks)", _by_run(reports)), memory_grid(reports)]
    paths = [(r.name, r.critical_path.breakdown_ns, r.step_time_ns) for r in reports if r.critical_path is not None]
    if paths:
        grids.insert(1, breakdown_grid("Critical path: the chain of ops that decides the step", paths))
    own = [] if rank is None else [(r, found) for r in reports if (found := _rank_report(r, rank)) is not None]
    if own:
        columns = [(report.name, found.breakdown_ns, report.step_time_ns) for report, found in own]
        grids.append(breakdown_grid(f"Where rank {rank}'s step goes", columns))
    for grid in grids:
        for table in grid.tables(console.width):
            console.print(table)
    for report in reports:
        console.print(Text(f"{report.name}: {describe_classes(report)}"))
    for report, found in own:
        console.print(Text(f"{report.name}: {_rank_line(found, rank or 0)}"))
    for report in reports:
        if report.critical_path is not None:
            console.print(Text(f"{report.name}: critical path: {report.critical_path}"))
    for report in reports:
        if report.what_ifs:
            console.print(Text(f"{report.name}: what if: {gains_text(report.what_ifs)}"))
    for report in reports:
        if report.advice:
            console.print(advice_table(report))
        elif report.disappointments:
            told = "none of the usual levers helps" if report.advice is not None else "--advice tries the usual levers"
            console.print(Text(f"{report.name}: {'; '.join(report.disappointments)}; {told}"))
    for report in reports:
        if report.op_table is not None:
            console.print(Text(f"{report.name}: {report.op_table}"))
    for report in reports:
        for warning in report.warnings:
            console.print(Text.assemble(("warning: ", "yellow"), f"{report.name}: {warning}"))


def comparison_table(reports: Sequence[Report]) -> Table:
    """Return the table of headline numbers, one row per run.

    Parameters
    ----------
    reports : sequence of Report

    Returns
    -------
    Table
    """
    tokens = any(report.tokens_per_s for report in reports)  # a synthetic model has none
    hours = any(report.gpu_hours is not None for report in reports)
    prices = any(report.cost is not None for report in reports)
    table = Table(title="Runs", title_justify="left")
    table.add_column("run", overflow="fold")
    headings = ["GPUs", "step", *(("tokens/s", "tokens/s/GPU", "MFU", "HFU") if tokens else ()), "bubble", "overlap"]
    headings += ["peak memory", *(("hours", "GPU-hours") if hours else ()), *(("cost",) if prices else ())]
    rows: list[list[str | Text]] = []
    for report in reports:
        memory = f"{format_bytes(report.peak_memory_bytes)} of {format_bytes(report.capacity_bytes)}"
        cells: list[str | Text] = [Text(report.name), f"{report.gpus:,}", format_time(report.step_time_ns)]
        if tokens:
            cells += [_amount(report.tokens_per_s), _amount(report.tokens_per_s_per_gpu)]
            cells += [_percent(report.mfu), _percent(report.hfu)]
        cells += [_percent(report.bubble_fraction), _percent(report.overlap_ratio)]
        cells.append(memory if report.fits else Text(f"{memory}: OUT OF MEMORY", style="bold red"))
        if hours:
            cells += [_amount(report.hours), _amount(report.gpu_hours)]
        if prices:
            cells.append(_amount(report.cost))
        rows.append(cells)
    for heading, *column in zip(headings, *(cells[1:] for cells in rows), strict=True):
        whole = 0 if heading == "peak memory" else cell_width(heading, [str(cell) for cell in column])
        table.add_column(heading, justify="right", min_width=whole)
    for cells in rows:
        table.add_row(*cells)
    return table


def breakdown_grid(
    title: str,
    columns: Sequence[tuple[str, Mapping[str, float], int]],
    *,
    labels: Mapping[str, str] = MappingProxyType({}),
) -> Grid:
    """Return the accounting classes: time and share of the step, one column per run.

    Parameters
    ----------
    title : str
    columns : sequence of (name, class -> nanoseconds, step in nanoseconds)
    labels : mapping of str to str
        For classes that only traces have.

    Returns
    -------
    Grid
        Without the classes that would read 0.0 % everywhere; the last row is the sum of all, the step.
    """
    known = dict.fromkeys((*CLASS_LABELS, *(name for _, breakdown, _ in columns for name in breakdown)))
    names = [
        name
        for name in known
        if any(breakdown.get(name, 0) >= _SHOWN * step_ns > 0 for _, breakdown, step_ns in columns)
    ]
    return Grid(
        title=title,
        corner="class",
        labels=[*((CLASS_LABELS | dict(labels)).get(name, name) for name in names), "step"],
        columns=[
            (
                run,
                [
                    *(_share(breakdown.get(name, 0), step_ns) for name in names),
                    _share(sum(breakdown.values()), step_ns),
                ],
            )
            for run, breakdown, step_ns in columns
        ],
    )


def memory_grid(reports: Sequence[Report]) -> Grid:
    """Return peak memory by category, one column per run.

    Parameters
    ----------
    reports : sequence of Report

    Returns
    -------
    Grid
    """
    known = dict.fromkeys(name for report in reports for name in report.memory_by_category_bytes)
    names = [name for name in known if any(report.memory_by_category_bytes.get(name) for report in reports)]
    return Grid(
        title="Peak memory of the fullest rank",
        corner="category",
        labels=[*(name.replace("_", " ") for name in names), "peak", "capacity"],
        columns=[
            (
                report.name,
                [
                    *(_size(report.memory_by_category_bytes.get(name, 0)) for name in names),
                    format_bytes(report.peak_memory_bytes),
                    format_bytes(report.capacity_bytes),
                ],
            )
            for report in reports
        ],
        totals=2,
    )


def _by_run(reports: Sequence[Report]) -> list[tuple[str, Mapping[str, float], int]]:
    return [(report.name, report.breakdown_ns, report.step_time_ns) for report in reports]


def _rank_report(report: Report, rank: int) -> RankReport | None:
    return next((found for found in report.ranks if rank in found.members), None)


def _rank_line(found: RankReport, rank: int) -> str:
    stages = ", ".join(str(stage) for stage in found.stages)
    alike = f", alike on {found.count} ranks (simulated as rank {found.rank})" if found.count > 1 else ""
    where = f" of pipeline stage {stages}" if stages else ""
    return f"rank {rank}{where} on {found.device}{alike}, peak memory {format_bytes(found.peak_memory_bytes)}"


def _share(value_ns: float, step_ns: int) -> str:
    if not value_ns:
        return _NONE
    return f"{format_time(value_ns)} {_percent(value_ns / step_ns if step_ns else 0.0):>7}"


def _size(size_bytes: int) -> str:
    return format_bytes(size_bytes) if size_bytes else _NONE


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.1f} %"


def _amount(value: float | None) -> str:
    return _NONE if value is None else f"{value:,.2f}" if value < 100 else f"{value:,.0f}"
