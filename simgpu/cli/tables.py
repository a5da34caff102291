"""Reports as tables in the terminal: the verdict first, then the numbers behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

from simgpu.units import format_bytes, format_time

if TYPE_CHECKING:
    from rich.console import Console

    from simgpu.metrics.report import RankReport, Report

CLASS_LABELS: Final[Mapping[str, str]] = {
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

    console.print(Text(title, style="bold"))
    console.print(Text(compare(reports)))
    console.print()
    console.print(comparison_table(reports))
    console.print(breakdown_table("Where the step goes (mean over ranks)", _by_run(reports)))
    console.print(memory_table(reports))
    if rank is not None:
        own = [(report, _rank_report(report, rank)) for report in reports]
        columns = [(report.name, found.breakdown_ns, report.step_time_ns) for report, found in own if found is not None]
        console.print(breakdown_table(f"Where rank {rank}'s step goes", columns))
        for report, found in own:
            if found is not None:
                console.print(Text(f"{report.name}: {_rank_line(found, rank)}"))
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
    for heading in headings:
        table.add_column(heading, justify="right")
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
        table.add_row(*cells)
    return table


def breakdown_table(title: str, columns: Sequence[tuple[str, Mapping[str, float], int]]) -> Table:
    """Return the table of accounting classes: time and share of the step, one column per run.

    Parameters
    ----------
    title : str
    columns : sequence of (name, class -> nanoseconds, step in nanoseconds)

    Returns
    -------
    Table
        Without the classes that are zero everywhere; the last row is their sum, the step.
    """
    table = Table(title=title, title_justify="left")
    table.add_column("class")
    for name, _, _ in columns:
        table.add_column(Text(name), justify="right", overflow="fold")
    names = dict.fromkeys((*CLASS_LABELS, *(name for _, breakdown, _ in columns for name in breakdown)))
    for name in names:
        values = [(breakdown.get(name, 0), step_ns) for _, breakdown, step_ns in columns]
        if any(value for value, _ in values):
            table.add_row(CLASS_LABELS.get(name, name), *(_share(value, step_ns) for value, step_ns in values))
    table.add_section()
    table.add_row("step", *(_share(sum(breakdown.values()), step_ns) for _, breakdown, step_ns in columns))
    return table


def memory_table(reports: Sequence[Report]) -> Table:
    """Return the table of peak memory by category, one column per run.

    Parameters
    ----------
    reports : sequence of Report

    Returns
    -------
    Table
    """
    table = Table(title="Peak memory of the fullest rank", title_justify="left")
    table.add_column("category")
    for report in reports:
        table.add_column(Text(report.name), justify="right", overflow="fold")
    for category in dict.fromkeys(name for report in reports for name in report.memory_by_category_bytes):
        sizes = [report.memory_by_category_bytes.get(category, 0) for report in reports]
        if any(sizes):
            table.add_row(category.replace("_", " "), *(format_bytes(size) if size else _NONE for size in sizes))
    table.add_section()
    table.add_row("peak", *(format_bytes(report.peak_memory_bytes) for report in reports))
    table.add_row("capacity", *(format_bytes(report.capacity_bytes) for report in reports))
    return table


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


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.1f} %"


def _amount(value: float | None) -> str:
    return _NONE if value is None else f"{value:,.2f}" if value < 100 else f"{value:,.0f}"
