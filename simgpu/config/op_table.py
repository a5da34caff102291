"""Measured op tables: from a CSV file to ops with times, and to what must be set aside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from simgpu.config.gpu_name import find_gpu
from simgpu.config.near import did_you_mean
from simgpu.config.op_cells import OpCells, SkippedError
from simgpu.config.published_layers import MeasuredLayer
from simgpu.config.published_ops import NO_SHAPE, PUBLISHED, READ
from simgpu.costs.attention_kernel import device_kernels, kernel_names
from simgpu.costs.gemm import LAYOUTS
from simgpu.costs.memory_bound import PATTERN_RATE
from simgpu.costs.op_shape import KINDS, OP_CLASSES, OpShape, kind_of, shape_fields, shape_of, shape_values
from simgpu.costs.table import MeasuredTable
from simgpu.dtypes import DType
from simgpu.errors import Issue, ScenarioError
from simgpu.hardware.gpu import Gpu
from simgpu.io.op_table import FORMATS, OWN, OpTableFile, read_op_table_file
from simgpu.metrics.op_errors import MeasuredOps
from simgpu.metrics.op_row import OpRow
from simgpu.metrics.set_aside import Skipped
from simgpu.workload.op import Attention, MemoryBound, Op
from simgpu.workload.software import DEFAULT

COLUMNS: Final = (
    "kind",
    "op",
    *dict.fromkeys(name for kind in KINDS for name in shape_fields(kind)),
    "gpu",
    "time_us",
    "model_us",
    "unit",
    "phase",
)
"""Columns that SimGPU writes; docs/ops.md describes them. ``kind``, ``time_us`` and the kind's sizes are needed."""

OWN_WORDS: Final = ("id", "notes", "source")
"""Columns that people may add to them for themselves."""

_NOT_FILLED_IN: Final = "time is not filled in"
_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "layout": LAYOUTS,
    "pattern": tuple(PATTERN_RATE),
    "op_class": OP_CLASSES,
    "dtype": tuple(dtype.value for dtype in DType),
    "kernel": kernel_names(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpTable:
    """A measured table.

    Parameters
    ----------
    source : str
    rows : tuple of MeasuredOps
        What can be priced.
    layers : tuple of MeasuredLayer
        What must be played to be priced.
    skipped : tuple of Skipped
        One for every other row.
    unread : tuple of str
        Columns that are not read.
    """

    source: str
    rows: tuple[MeasuredOps, ...]
    layers: tuple[MeasuredLayer, ...]
    skipped: tuple[Skipped, ...]
    unread: tuple[str, ...] = ()


def read_op_table(path: Path) -> OpTable:
    """Read a measured table in any of its formats.

    Parameters
    ----------
    path : Path

    Returns
    -------
    OpTable
        Rows whose GPU is unstated or unknown, or whose op is not modelled, are skipped, never guessed.

    Raises
    ------
    ScenarioError
        With every cell that cannot be read.
    """
    file = read_op_table_file(path)
    cells = OpCells(source=file.csv.source, issues=_unknown_columns(file))
    rows: list[MeasuredOps | MeasuredLayer] = []
    skipped: list[Skipped] = []
    unread = () if file.format == OWN else tuple(c for c in file.csv.header if c and c not in READ[file.format])
    for name, mapping, line in zip(_ids(file), file.csv.rows, file.csv.lines, strict=True):
        cells.turn_to(mapping, line)
        try:
            if file.format == OWN:
                rows.append(_own_row(cells, name))
            else:
                _check_unread(cells, unread, file.format)
                rows += PUBLISHED[file.format](cells, name)
        except SkippedError as why:
            empty = str(why) == _NOT_FILLED_IN  # said once, not for every row
            skipped.append(Skipped(id=file.csv.source if empty else name, reason=str(why)))
    if cells.issues:
        raise ScenarioError(cells.issues)
    return OpTable(
        source=file.csv.source,
        rows=tuple(row for row in rows if isinstance(row, MeasuredOps)),
        layers=tuple(row for row in rows if isinstance(row, MeasuredLayer)),
        skipped=tuple(skipped),
        unread=tuple(column for column in unread if column not in NO_SHAPE),
    )


def scenario_table(path: Path, name: str, gpu: Gpu) -> MeasuredTable:
    """Read the table of a scenario's ``costs`` block.

    Parameters
    ----------
    path : Path
        In the format that ``simgpu ops --csv`` writes.
    name : str
        What reports call it.
    gpu : Gpu
        Rows of another device are left out.

    Returns
    -------
    MeasuredTable
        Without rows that were not filled in: no time, or the model's own as it was written.

    Raises
    ------
    ScenarioError
        With every cell that cannot be read, and for a table of another format.
    """
    file = read_op_table_file(path)
    if file.format != OWN:
        columns = ", ".join(FORMATS[OWN])
        problem = f"is a table in the {file.format} format, which names no kinds of ops; it can only be compared with"
        issue = Issue(
            field="", problem=problem, allowed=f"columns {columns} and the sizes of each kind", file=file.csv.source,
            fix="let simgpu ops SCENARIO --csv write one to fill in",
        )  # fmt: skip
        raise ScenarioError([issue])
    cells = OpCells(source=file.csv.source, issues=_unknown_columns(file))
    found: list[tuple[Op, float]] = []
    for mapping, line in zip(file.csv.rows, file.csv.lines, strict=True):
        cells.turn_to(mapping, line)
        op, device, time_us = _read_own(cells)
        if op is not None and time_us is not None and (device is None or device is gpu):
            found.append((op, time_us * 1e3))
    if cells.issues:
        raise ScenarioError(cells.issues)
    return MeasuredTable(name, found, gpu)


def export_rows(rows: Iterable[tuple[str, OpRow]]) -> Iterator[dict[str, Any]]:
    """Turn reported ops into rows of SimGPU's own format, one per shape and device, with the times of the report.

    Parameters
    ----------
    rows : iterable of (str, OpRow)
        Device and op; those of a given duration are left out.

    Yields
    ------
    dict
        By the names of `COLUMNS`.
    """
    seen: set[tuple[str, OpShape, str]] = set()
    for device, row in rows:
        shape, kind = shape_of(row.op), kind_of(row.op)
        if shape is None or kind is None or not row.time_ns:
            continue
        key = (device, shape, row.op.name if isinstance(row.op, MemoryBound) else "")
        if key in seen:
            continue
        seen.add(key)
        measured = row.origin.source == "table exact"  # anything else counts as not filled in when it is read
        kernel = {"kernel": row.kernel} if row.kernel else {}
        yield {
            "kind": kind, "op": row.op.name, **shape_values(row.op), **kernel, "gpu": device,
            "time_us": row.time_ns / 1e3,
            "model_us": None if measured else row.time_ns / 1e3, "unit": row.unit, "phase": row.phase,
        }  # fmt: skip


def _unknown_columns(file: OpTableFile) -> list[Issue]:
    """Say which columns of SimGPU's own format mean nothing: a misspelt one would silently leave its default."""
    if file.format != OWN:
        return []
    known = (*COLUMNS, *OWN_WORDS)
    return [
        Issue(
            field=column, problem="is no column of such a table", allowed=", ".join(known),
            fix=did_you_mean(column, known) or "leave it out, or call it notes", file=file.csv.source, line=1,
        )
        for column in file.csv.header
        if column and column not in known
    ]  # fmt: skip


def _own_row(cells: OpCells, name: str) -> MeasuredOps:
    op, device, time_us = _read_own(cells)
    if op is None:
        raise SkippedError("the row is wrong")  # said in full by the issues
    if time_us is None:
        raise SkippedError(_NOT_FILLED_IN)
    if device is None:
        raise SkippedError("gpu is unstated")
    group = cells.text("kind").lower()
    if isinstance(op, Attention):
        if op.kernel and op.kernel not in device_kernels(device):
            raise SkippedError(f"kernel is not modelled on {device.name}: {op.kernel}")
        op = op if op.kernel else replace(op, kernel=DEFAULT.attention_kernel)
        group += ".backward" if op.backward else ".forward"
    return MeasuredOps(id=name, gpu=device, group=group, ops=(op,), time_ns=time_us * 1e3)


def _read_own(cells: OpCells) -> tuple[Op | None, Gpu | None, float | None]:
    """Read one row of SimGPU's own format; a time that is still the model's own counts as none."""
    known = len(cells.issues)
    time_us, model_us = cells.number("time_us"), cells.number("model_us")
    device = _device(cells)
    op = _own_op(cells)
    if len(cells.issues) > known:
        return None, None, None
    return op, device, None if time_us == model_us else time_us


def _device(cells: OpCells) -> Gpu | None:
    text = cells.text("gpu")
    try:
        return find_gpu(text, field="gpu") if text else None
    except ScenarioError as error:
        (issue,) = error.issues
        cells.refuse("gpu", issue.problem, allowed=issue.allowed, fix=issue.fix)
        return None


def _own_op(cells: OpCells) -> Op | None:
    kind = cells.text("kind").lower()
    if kind not in KINDS:
        cells.refuse(
            "kind",
            "is no kind of op" if kind else "is missing",
            allowed=", ".join(KINDS),
            fix=did_you_mean(kind, KINDS) if kind else None,
        )
        return None
    known = len(cells.issues)
    values: dict[str, Any] = {"name": cells.text("op")}
    defaults = {f.name: f.default for f in fields(KINDS[kind])}
    for column in shape_fields(kind):
        default = defaults[column]
        value: Any
        if column in _WORDS:
            value = cells.word(column, _WORDS[column])
            value = DType(value) if value is not None and column == "dtype" else value
        elif isinstance(default, bool):
            value = cells.flag(column)
        elif isinstance(default, str):
            value = cells.text(column) or None
        else:
            value = cells.whole(column, least=0 if default == 0 else 1)
        if value is not None:
            values[column] = value
        elif default is MISSING and not cells.text(column):
            cells.refuse(column, f"is missing: a {kind} row needs it")
    op = None if len(cells.issues) > known else KINDS[kind](**values)
    if isinstance(op, Attention):
        if op.window is not None and not op.causal:
            cells.refuse("window", "is of causal attention only", allowed="nothing where causal is no")
        if op.heads % op.kv_heads:
            cells.refuse("kv_heads", f"does not divide the {op.heads} heads", allowed=f"a divisor of {op.heads}")
    return op


def _check_unread(cells: OpCells, unread: Iterable[str], name: str) -> None:
    """Set a row aside that says something of its shape in a column that its format does not have."""
    for column in unread:
        if column in COLUMNS and cells.text(column):
            raise SkippedError(f"column is not read in the {name} format: {column}")


def _ids(file: OpTableFile) -> Iterator[str]:
    """Call rows by their ids, else by op and device; by their line too where that leaves several of one name."""
    names = [
        cells.get("id") or " ".join(cells[column] for column in ("gpu", "op", "stage") if cells.get(column))
        for cells in file.csv.rows
    ]
    often = Counter(names)
    for name, line in zip(names, file.csv.lines, strict=True):
        place = f"{Path(file.csv.source).name}:{line}"
        yield place if not name else name if often[name] == 1 else f"{name} ({place})"
