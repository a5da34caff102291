"""Ops of a step as tables in the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rich.text import Text

from simgpu.cli.fitted_table import Column, FittedTable, left_out
from simgpu.costs.origin import MEANING
from simgpu.units import format_bytes, format_time
from simgpu.workload.op import Attention, Gemm, GroupedGemm, MemoryBound

if TYPE_CHECKING:
    from simgpu.metrics.op_report import OpReport
    from simgpu.metrics.op_row import OpRow
    from simgpu.workload.op import Op

_OP_WIDTH: Final = 20  # characters that names of ops are not broken below
_SHAPE_WIDTH: Final = 28  # "16384 x 16384 x 16384 tn bf16", nearly
_NARROW: Final = 28  # characters of name and shape together in a narrow table
_ONLY_WIDE: Final = ("GFLOP", "memory")


def report_tables(report: OpReport, width: int) -> Iterator[FittedTable | Text]:
    """Yield one table per unit and phase, then the totals and what marks and letters mean.

    Parameters
    ----------
    report : OpReport
    width : int
        Characters of a line.

    Yields
    ------
    FittedTable or Text
    """
    shown = _shown(report.rows, width, counted=True)
    for total in report.totals:
        rows = [row for row in report.rows if (row.unit, row.phase) == (total.unit, total.phase)]
        title = total.unit if total.unit == total.phase else f"{total.unit}, {total.phase}"
        yield _op_table(rows, shown, title=title, counted=True)
    yield _totals(report)
    yield from notes(report.rows, width, counted=True)


def row_table(rows: Sequence[OpRow], width: int, *, title: str) -> FittedTable:
    """Return a table of ops.

    Parameters
    ----------
    rows : sequence of OpRow
    width : int
        Characters of a line.
    title : str

    Returns
    -------
    FittedTable
    """
    return _op_table(rows, _shown(rows, width), title=title, counted=False)


def notes(rows: Sequence[OpRow], width: int, *, counted: bool = False) -> Iterator[Text]:
    """Yield what the letters and marks of such tables mean, and what was left out of them.

    Parameters
    ----------
    rows : sequence of OpRow
    width : int
        Characters of a line.
    counted : bool
        The tables say how often each op runs in a step.

    Yields
    ------
    Text
    """
    _, absent = _shown(rows, width, counted=counted)
    flags = sorted({row.origin.flag for row in rows if row.origin.flag})
    if flags and "source" not in absent:
        legend = ", ".join(f"{flag} {MEANING[flag]}" for flag in flags)
        yield Text(f"Behind the source, the weakest of the device constants used: {legend}")
    if any(row.cached for row in rows) and "achieved" not in absent:
        yield Text("* more than the memory's nominal bandwidth: part of the traffic stays in L2")
    if absent:
        yield Text(f"Left out in {width} columns: {', '.join(absent)}; --wide prints them")


def shape_text(op: Op, kernel: str = "") -> str:
    """Write an op's shape in one line.

    Parameters
    ----------
    op : Op
    kernel : str
        Attention kernel that was priced; the op's own when empty.

    Examples
    --------
    >>> from simgpu.workload.op import Attention, Gemm
    >>> shape_text(Gemm(name="a", m=8, n=16, k=32, layout="nt", batch=4))
    '4 x (8 x 16 x 32) nt bf16'
    >>> shape_text(Attention(name="a", batch=1, sequence=64, heads=8, kv_heads=2, head_dim=128), "flash-2")
    '1 x 64 tokens, 8/2 heads of 128, causal bf16, flash-2'
    """
    if isinstance(op, Gemm):
        product = f"{op.m} x {op.n} x {op.k}"
        return f"{product if op.batch == 1 else f'{op.batch} x ({product})'} {op.layout} {op.dtype.value}"
    if isinstance(op, GroupedGemm):
        return f"{op.rows} rows in {op.groups} x {op.n} x {op.k} {op.layout} {op.dtype.value}"
    if isinstance(op, Attention):
        heads = str(op.heads) if op.kv_heads == op.heads else f"{op.heads}/{op.kv_heads}"
        keys = f" on {op.kv_sequence}" if op.kv_sequence else ""
        head = f"{op.head_dim}/{op.value_dim}" if op.value_dim else str(op.head_dim)
        causal = "full" if not op.causal else "causal" if op.window is None else f"causal, window {op.window},"
        used = kernel or op.kernel
        said = f"{op.batch} x {op.sequence}{keys} tokens, {heads} heads of {head}, {causal} {op.dtype.value}"
        return f"{said}, {used}" if used else said
    if isinstance(op, MemoryBound):
        return f"{op.pattern}, {op.kernels} kernels" if op.kernels > 1 else op.pattern
    return "-"


def _shown(rows: Sequence[OpRow], width: int, *, counted: bool = False) -> tuple[bool, tuple[str, ...]]:
    """Say whether tables of these rows are narrow ones, and which of their columns fit."""
    columns = _columns(rows, narrow=False, counted=counted)
    absent = left_out(columns, width)
    if absent in ((), ("memory",), ("GFLOP", "memory")):
        return False, absent
    columns = _columns(rows, narrow=True, counted=counted)
    return True, (*_ONLY_WIDE, *left_out(columns, width))


def _op_table(rows: Sequence[OpRow], shown: tuple[bool, tuple[str, ...]], *, title: str, counted: bool) -> FittedTable:
    narrow, absent = shown
    columns = [column for column in _columns(rows, narrow=narrow, counted=counted) if column.name not in absent]
    return FittedTable(columns=columns, title=title)


def _columns(rows: Sequence[OpRow], *, narrow: bool, counted: bool) -> tuple[Column, ...]:
    """Return the columns of a table of ops; a narrow one says name and shape in one, and one of the rates."""
    names, shapes = [row.op.name for row in rows], [shape_text(row.op, row.kernel) for row in rows]
    times = Column(name="time", cells=[format_time(row.time_ns) for row in rows], right=True)
    ends = (
        Column(name="bound", cells=[row.bound for row in rows], need=5),
        Column(name="source", cells=[_source(row) for row in rows], folds_to=8, need=3),
        *((Column(name="per step", cells=[str(row.per_step) for row in rows], right=True, need=4),) if counted else ()),
    )
    traffic = [_number(row.gb_per_s, ".0f") + "*" * row.cached for row in rows]
    if narrow:
        both = [_beside(name, shape) for name, shape in zip(names, shapes, strict=True)]
        rates = [
            f"{row.tflops:.1f} TFLOP/s" if row.op.flops else f"{rate} GB/s"
            for row, rate in zip(rows, traffic, strict=True)
        ]
        achieved = Column(name="achieved", cells=rates, right=True, need=6)
        return (Column(name="op, shape", cells=both, folds_to=_NARROW), times, achieved, *ends)
    return (
        Column(name="op", cells=names, folds_to=_OP_WIDTH),
        Column(name="shape", cells=shapes, folds_to=_SHAPE_WIDTH),
        Column(name="GFLOP", cells=[_number(row.op.flops / 1e9, ".4g") for row in rows], right=True, need=2),
        Column(name="memory", cells=[format_bytes(row.op.bytes) if row.op.bytes else "-" for row in rows],
               right=True, need=1),
        times,
        Column(name="TFLOP/s", cells=[_number(row.tflops, ".1f") for row in rows], right=True),
        Column(name="GB/s", cells=traffic, right=True),
        *ends,
    )  # fmt: skip


def _beside(name: str, shape: str) -> str:
    shape = shape.replace(" x ", "x")
    return f"{name}  {shape}" if len(name) + len(shape) + 2 <= _NARROW else f"{name}\n  {shape}"


def _totals(report: OpReport) -> FittedTable:
    step, several = report.step, len(report.stages_ns) > 1
    rows = [
        (
            total.unit,
            total.phase,
            str(total.passes),
            format_time(round(total.time_ns / total.passes)),
            format_time(total.time_ns),
            f"{total.time_ns / step.time_ns:.1%}" if step.time_ns else "-",
            _number(total.tflops, ".1f"),
        )
        for total in report.totals
    ]
    sections = {len(rows)}
    for stages, time_ns in zip(report.stages, report.stages_ns, strict=True) if several else ():
        label = f"stage{'s' if len(stages) > 1 else ''} {', '.join(map(str, stages))}"
        rows.append((label, "", "", "", format_time(time_ns), f"{time_ns / step.time_ns:.1%}", ""))
    rows.append(("step", "", "", "", format_time(step.time_ns), "100.0%", f"{step.tflops:.1f}"))
    heads = ("unit", "phase", "passes", "time per pass", "time per step", "share", "TFLOP/s")
    needs = (0, 0, 2, 1, 0, 4, 3)
    columns = [
        Column(name=head, cells=cells, right=index > 1, need=needs[index])
        for index, (head, cells) in enumerate(zip(heads, zip(*rows, strict=True), strict=True))
    ]
    title = "Kernels of a step: one rank of every pipeline stage, all micro-batches, nothing beside them"
    return FittedTable(columns=columns, title=title, sections=sections)


def _number(value: float, form: str) -> str:
    return f"{value:{form}}" if value else "-"


def _source(row: OpRow) -> str:
    if row.origin.source == "model":
        return f"model, {row.origin.flag}"
    return row.origin.source
