"""Tables of measured ops as CSV: which format a file has, and SimGPU's own written out to be filled in."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from simgpu.errors import Issue, ScenarioError
from simgpu.io.csv_file import CsvFile, read_csv

OWN: Final = "ops"
"""The format that SimGPU writes and a scenario's ``costs.table`` takes."""

FORMATS: Final[Mapping[str, tuple[str, ...]]] = {
    OWN: ("kind", "time_us"),
    "gemm": ("gpu", "dtype", "m", "n", "k", "time_us"),
    "matmul efficiency": ("gpu", "peak_tflops", "efficiency", "b", "m", "k", "n", "layout", "accumulate"),
    "grouped matmul efficiency": ("gpu", "peak_tflops", "efficiency", "ng", "M", "N", "K", "stage"),
    "attention efficiency": ("gpu", "op", "peak_tflops", "efficiency", "batch", "seq_len", "head_num", "kv_head_num"),
    "attention": ("gpu", "pass", "impl", "causal", "head_dim", "seq", "tflops"),
    "layer": ("gpu", "hidden", "heads", "seq", "tp", "micro_batch", "seq_parallel", "recompute", "fwd_ms", "bwd_ms"),
}
"""Formats by the columns that tell one from another; docs/ops.md describes each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpTableFile:
    """A table as it was read.

    Parameters
    ----------
    format : str
        A key of `FORMATS`.
    csv : CsvFile
    """

    format: str
    csv: CsvFile


def read_op_table_file(path: Path) -> OpTableFile:
    r"""Read a table of measured ops and find its format.

    Parameters
    ----------
    path : Path

    Returns
    -------
    OpTableFile

    Raises
    ------
    ScenarioError
        When the file cannot be read, has no rows, or fits no format.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "x.csv"
    ...     _ = path.write_text("kind,m,n,k,time_us\ngemm,8,8,8,5\n")
    ...     read_op_table_file(path).format
    'ops'
    """
    file = read_csv(path)
    found = next((name for name, columns in FORMATS.items() if set(columns) <= set(file.header)), None)
    if found is None:
        name, columns = min(FORMATS.items(), key=lambda entry: _absent(entry[1], file.header))
        absent = [column for column in columns if column not in file.header]
        problem = f"is no table of measured ops: nearest is the {name} format, of which it lacks {', '.join(absent)}"
        allowed = "; ".join(f"{name}: {', '.join(columns)}" for name, columns in FORMATS.items())
        raise ScenarioError([Issue(field="", problem=problem, allowed=allowed, file=file.source)])
    if not file.rows:
        raise ScenarioError([Issue(field="", problem="has a header and no rows", file=file.source)])
    return OpTableFile(format=found, csv=file)


def op_table_text(rows: Iterable[Mapping[str, Any]], columns: Iterable[str]) -> str:
    r"""Write rows as CSV: empty cells for what is absent or None, ``yes`` and ``no`` for flags.

    Parameters
    ----------
    rows : iterable of mapping
    columns : iterable of str

    Returns
    -------
    str

    Examples
    --------
    >>> op_table_text([{"kind": "attention", "causal": True, "m": None}], ("kind", "m", "causal"))
    'kind,m,causal\nattention,,yes\n'
    """
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    names = tuple(columns)
    writer.writerow(names)
    writer.writerows([_cell(row.get(name)) for name in names] for row in rows)
    return out.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _absent(columns: Iterable[str], header: Iterable[str]) -> float:
    wanted = tuple(columns)
    return sum(column not in tuple(header) for column in wanted) / len(wanted)
