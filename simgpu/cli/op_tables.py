"""Ops and their errors as tables in the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

from simgpu.costs.origin import MEANING
from simgpu.metrics.mean_errors import mean_errors
from simgpu.units import format_bytes, format_time
from simgpu.workload.op import Attention, Gemm, GroupedGemm, MemoryBound

if TYPE_CHECKING:
    from rich.console import Console

    from simgpu.metrics.op_errors import OpErrors
    from simgpu.metrics.op_report import OpReport
    from simgpu.metrics.op_row import OpRow
    from simgpu.workload.op import Op

_WORST: Final = 10
_OWN_RATES: Final = ("M", "S")  # flags of rates that no published step time or assumption went into


def report_tables(report: OpReport) -> Iterator[Table | Text]:
    """Yield one table per unit and phase, then the totals.

    Parameters
    ----------
    report : OpReport

    Yields
    ------
    Table or Text
    """
    for total in report.totals:
        rows = [row for row in report.rows if (row.unit, row.phase) == (total.unit, total.phase)]
        title = total.unit if total.unit == total.phase else f"{total.unit}, {total.phase}"
        yield row_table(rows, title=title, counted=True)
    yield _totals(report)
    flags = sorted({row.origin.flag for row in report.rows if row.origin.flag})
    if flags:
        legend = ", ".join(f"{flag} {MEANING[flag]}" for flag in flags)
        yield Text(f"Behind the source, the weakest of the device constants used: {legend}")


def row_table(rows: Sequence[OpRow], *, title: str, counted: bool = False) -> Table:
    """Return a table of ops.

    Parameters
    ----------
    rows : sequence of OpRow
    title : str
    counted : bool
        Say how often each runs in a step.

    Returns
    -------
    Table
    """
    table = Table(title=title, title_justify="left")
    table.add_column("op", overflow="fold")
    table.add_column("shape", overflow="fold")
    for name in ("GFLOP", "memory", "time", "TFLOP/s", "GB/s"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("bound", no_wrap=True)
    table.add_column("source", overflow="fold")
    if counted:
        table.add_column("per step", justify="right", no_wrap=True)
    for row in rows:
        cells: list[str | Text] = [
            Text(row.op.name),
            Text(shape_text(row.op)),
            f"{row.op.flops / 1e9:.4g}" if row.op.flops else "-",
            format_bytes(row.op.bytes) if row.op.bytes else "-",
            format_time(row.time_ns),
            f"{row.tflops:.1f}" if row.op.flops else "-",
            f"{row.gb_per_s:.0f}" if row.op.bytes else "-",
            row.bound,
            Text(_source(row)),
        ]
        table.add_row(*cells, *([str(row.per_step)] if counted else []))
    return table


def shape_text(op: Op) -> str:
    """Write an op's shape in one line.

    Examples
    --------
    >>> from simgpu.workload.op import Attention, Gemm
    >>> shape_text(Gemm(name="a", m=8, n=16, k=32, layout="nt", batch=4))
    '4 x (8 x 16 x 32) nt bf16'
    >>> shape_text(Attention(name="a", batch=1, sequence=64, heads=8, kv_heads=2, head_dim=128))
    '1 x 64 tokens, 8/2 heads of 128, causal bf16'
    """
    if isinstance(op, Gemm):
        product = f"{op.m} x {op.n} x {op.k}"
        return f"{product if op.batch == 1 else f'{op.batch} x ({product})'} {op.layout} {op.dtype.value}"
    if isinstance(op, GroupedGemm):
        return f"{op.rows} rows in {op.groups} x {op.n} x {op.k} {op.layout} {op.dtype.value}"
    if isinstance(op, Attention):
        heads = str(op.heads) if op.kv_heads == op.heads else f"{op.heads}/{op.kv_heads}"
        keys = f" on {op.kv_sequence}" if op.kv_sequence else ""
        width = f"{op.head_dim}/{op.value_dim}" if op.value_dim else str(op.head_dim)
        causal = "causal" if op.causal else "full"
        return f"{op.batch} x {op.sequence}{keys} tokens, {heads} heads of {width}, {causal} {op.dtype.value}"
    if isinstance(op, MemoryBound):
        return f"{op.pattern}, {op.kernels} kernels" if op.kernels > 1 else op.pattern
    return "-"


def print_op_errors(found: OpErrors, console: Console) -> None:
    """Print errors by device and op, in total, the worst rows, and what was skipped.

    Parameters
    ----------
    found : OpErrors
    console : Console
    """
    if found.groups:
        table = Table(title="Predicted against measured time; bias above 0: predicted too slow", title_justify="left")
        moved = any(one.rate.products for one in found.groups)
        table.add_column("gpu", no_wrap=True)
        table.add_column("op", no_wrap=True)
        table.add_column("TFLOP/s", justify="right", no_wrap=True)
        table.add_column("that rate is", overflow="fold")
        for name in ("rows", "MAPE", "bias", *(("MAPE, catalogue",) if moved else ())):
            table.add_column(name, justify="right", no_wrap=True)
        for one in found.groups:
            rate = one.rate
            why = rate.why if rate.products else f"{rate.why}, {MEANING[rate.gpu.rate_flag]}"
            cells = [*_cells(one.n, one.mape, one.bias), *([f"{one.catalogue_mape:.1%}"] if moved else [])]
            table.add_row(rate.gpu.name, one.op, f"{rate.tflops:.0f}", why, *cells)
        table.add_section()
        own = [row for row in found.priced if row.measured.gpu.rate_flag in _OWN_RATES]
        rest = [row for row in found.priced if row.measured.gpu.rate_flag not in _OWN_RATES]
        if own and rest:
            table.add_row("rates measured or scaled", "", "", "", *_cells(*mean_errors(own)))
            table.add_row("rates derived or assumed", "", "", "", *_cells(*mean_errors(rest)))
        table.add_row("all", "", "", "", *_cells(*mean_errors(found.priced)))
        console.print(table)
        if moved:
            console.print("16-bit matrix rates; --rates sustained prices every row at the catalogue's.", markup=False)
        worst = Table(title=f"The worst {min(_WORST, len(found.priced))}", title_justify="left")
        worst.add_column("id", overflow="fold")
        worst.add_column("shape", overflow="fold")
        for name in ("measured", "predicted", "error"):
            worst.add_column(name, justify="right", no_wrap=True)
        for row in found.worst(_WORST):
            times = (format_time(round(row.measured.time_ns)), format_time(row.time_ns))
            shape = shape_text(row.measured.ops[0]) if row.measured.ops else row.measured.group
            worst.add_row(Text(row.measured.id), Text(shape), *times, f"{row.error:+.1%}")
        console.print(worst)
    if found.skipped:
        table = Table(title="Skipped", title_justify="left")
        table.add_column("id", overflow="fold")
        table.add_column("rows", justify="right", no_wrap=True)
        table.add_column("reason", overflow="fold")
        for skipped in found.skipped:
            table.add_row(Text(skipped.id), str(skipped.rows), Text(skipped.reason))
        console.print(table)


def _totals(report: OpReport) -> Table:
    title = "Kernels of a step: one rank of every pipeline stage, all micro-batches, nothing beside them"
    table = Table(title=title, title_justify="left")
    table.add_column("unit", no_wrap=True)
    table.add_column("phase", no_wrap=True)
    for name in ("passes", "time per pass", "time per step", "share", "TFLOP/s"):
        table.add_column(name, justify="right", no_wrap=True)
    step = report.step
    for total in report.totals:
        table.add_row(
            total.unit,
            total.phase,
            str(total.passes),
            format_time(round(total.time_ns / total.passes)),
            format_time(total.time_ns),
            f"{total.time_ns / step.time_ns:.1%}" if step.time_ns else "-",
            f"{total.tflops:.1f}" if total.flops else "-",
        )
    table.add_section()
    if len(report.stages_ns) > 1:
        for stages, time_ns in zip(report.stages, report.stages_ns, strict=True):
            label = f"stage{'s' if len(stages) > 1 else ''} {', '.join(map(str, stages))}"
            table.add_row(label, "", "", "", format_time(time_ns), f"{time_ns / step.time_ns:.1%}", "")
    table.add_row("step", "", "", "", format_time(step.time_ns), "100.0%", f"{step.tflops:.1f}")
    return table


def _source(row: OpRow) -> str:
    if row.origin.source == "model":
        return f"model, {row.origin.flag}"
    return row.origin.source


def _cells(n: int, mape: float | None, bias: float | None) -> tuple[str, str, str]:
    return str(n), "-" if mape is None else f"{mape:.1%}", "-" if bias is None else f"{bias:+.1%}"
