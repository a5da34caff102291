"""Predicted against measured times of ops as tables in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from simgpu.cli.fitted_table import Column, FittedTable, left_out
from simgpu.cli.op_tables import shape_text
from simgpu.costs.attention_kernel import attention_kernel
from simgpu.costs.origin import MEANING, WEAKEST, origin
from simgpu.metrics.mean_errors import mean_errors
from simgpu.units import format_time
from simgpu.workload.op import Attention

if TYPE_CHECKING:
    from rich.console import Console

    from simgpu.metrics.op_errors import MeasuredOps, OpErrors

_WORST: Final = 10
_OWN: Final = ("M", "S")  # flags of constants that no published step time or assumption went into
_FOLDED: Final = 16


def print_op_errors(found: OpErrors, console: Console) -> None:
    """Print errors by device and op, in total, the worst rows, what was skipped, and which columns were not read.

    Parameters
    ----------
    found : OpErrors
    console : Console
    """
    if found.groups:
        _print_groups(found, console)
        _print_worst(found, console)
    print_skipped(found, console)
    if found.unread:
        console.print(f"Columns that were not read: {', '.join(found.unread)}", markup=False)


def print_skipped(found: OpErrors, console: Console) -> None:
    """Print how many rows were not compared, and why.

    Parameters
    ----------
    found : OpErrors
    console : Console
    """
    if not found.skipped:
        return
    rows: dict[str, int] = {}
    first: dict[str, str] = {}
    for one in found.skipped:
        rows[one.reason] = rows.get(one.reason, 0) + one.rows
        first.setdefault(one.reason, one.id)
    columns = (
        Column(name="rows", cells=[str(count) for count in rows.values()], right=True),
        Column(name="reason", cells=list(rows), folds_to=_FOLDED),
        Column(name="the first", cells=[first[reason] for reason in rows], folds_to=_FOLDED),
    )
    console.print(FittedTable(columns=columns, title="Skipped"))


def _print_groups(found: OpErrors, console: Console) -> None:
    moved = any(one.rate.products for one in found.groups)
    standing = [(row, _weakest(row.measured)) for row in found.priced]
    weaker = {
        (row.measured.gpu.name, row.measured.group): f"; other constants {MEANING[flag]}"
        for row, flag in standing
        if flag not in _OWN and row.measured.gpu.rate_flag in _OWN
    }
    rows = [
        (
            one.rate.gpu.name,
            one.op,
            f"{one.rate.tflops(one.dtype):.0f}",
            one.rate.why(one.dtype) + weaker.get((one.rate.gpu.name, one.op), ""),
            *_cells(one.n, one.mape, one.bias),
            f"{one.catalogue_mape:.1%}",
        )
        for one in found.groups
    ]
    sections = {len(rows)}
    own = [row for row, flag in standing if flag in _OWN]
    rest = [row for row, flag in standing if flag not in _OWN]
    if own and rest:
        rows.append(("constants measured or scaled", "", "", "", *_cells(*mean_errors(own)), ""))
        rows.append(("with one derived, assumed or extrapolated", "", "", "", *_cells(*mean_errors(rest)), ""))
    rows.append(("all", "", "", "", *_cells(*mean_errors(found.priced)), ""))
    heads = ("gpu", "op", "TFLOP/s", "that rate is", "rows", "MAPE", "bias", "MAPE, catalogue")
    needs = (0, 0, 3, 1, 0, 0, 0, 2)
    columns = [
        Column(name=head, cells=cells, right=index in (2, 4, 5, 6, 7), need=needs[index],
               folds_to=_FOLDED if head in ("gpu", "op", "that rate is") else None)
        for index, (head, cells) in enumerate(zip(heads, zip(*rows, strict=True), strict=True))
        if moved or head != "MAPE, catalogue"
    ]  # fmt: skip
    title = "Predicted against measured time; bias above 0: predicted too slow"
    console.print(FittedTable(columns=columns, title=title, sections=sections))
    absent = left_out(columns, console.width)
    if absent:
        console.print(f"Left out in {console.width} columns: {', '.join(absent)}; --wide prints them", markup=False)
    if moved:
        console.print("Rates of matrix products; --rates sustained prices every row at the catalogue's.", markup=False)


def _weakest(row: MeasuredOps) -> str:
    """Flag of the weakest constant that a row's prediction rests on; of a played layer that of the matrix rate."""
    flags = (origin(op, row.gpu).flag for op in row.ops)
    return min((flag for flag in flags if flag), key=WEAKEST.index, default=row.gpu.rate_flag)


def _print_worst(found: OpErrors, console: Console) -> None:
    worst = found.worst(_WORST)
    columns = (
        Column(name="id", cells=[row.measured.id for row in worst], folds_to=_FOLDED),
        Column(name="shape", cells=[_shape(row.measured) for row in worst], folds_to=_FOLDED),
        Column(name="measured", cells=[format_time(round(row.measured.time_ns)) for row in worst], right=True, need=1),
        Column(name="predicted", cells=[format_time(row.time_ns) for row in worst], right=True, need=2),
        Column(name="error", cells=[f"{row.error:+.1%}" for row in worst], right=True),
    )
    console.print(FittedTable(columns=columns, title=f"The worst {len(worst)}"))


def _shape(row: MeasuredOps) -> str:
    if not row.ops:
        return row.group
    op = row.ops[0]
    return shape_text(op, attention_kernel(row.gpu, op.kernel).name if isinstance(op, Attention) else "")


def _cells(n: int, mape: float | None, bias: float | None) -> tuple[str, str, str]:
    return str(n), "-" if mape is None else f"{mape:.1%}", "-" if bias is None else f"{bias:+.1%}"
