"""Profiler traces as a table of measured ops that ``costs.table`` takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from simgpu.config.gpu_name import gpus_named
from simgpu.costs.op_shape import OpShape, kind_of, shape_of, shape_values
from simgpu.io.kineto_ops import TracedOp, TracedOps
from simgpu.workload.op import Attention, Gemm


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedTable:
    """Rows of SimGPU's own format, and what was left out.

    Parameters
    ----------
    rows : tuple of mapping
        By the names of `simgpu.config.op_table.COLUMNS`; one per shape and device, the median of its calls.
    calls : int
        Calls behind them.
    left : mapping of str to int
        Why other calls were left out, and how many.
    """

    rows: tuple[Mapping[str, Any], ...]
    calls: int
    left: Mapping[str, int]


def traced_table(traces: Iterable[tuple[str, TracedOps]]) -> TracedTable:
    """Gather the ops of some traces by shape.

    Parameters
    ----------
    traces : iterable of (str, TracedOps)
        What the profiler calls the device, and its ops. A device that is no GPU of the catalogue is left empty, which
        holds on every GPU.

    Returns
    -------
    TracedTable

    Examples
    --------
    >>> calls = tuple(TracedOp(op=Gemm(name="aten::mm", m=8, n=8, k=8), time_ns=ns) for ns in (4000, 9000, 5000))
    >>> table = traced_table([("NVIDIA H100 80GB HBM3", TracedOps(ops=calls, left={}))])
    >>> [(row["kind"], row["m"], row["gpu"], row["time_us"]) for row in table.rows]
    [('gemm', 8, 'H100-SXM5-80GB', 5.0)]
    """
    groups: dict[tuple[str, OpShape], list[TracedOp]] = {}
    left: dict[str, int] = {}
    for device, found in traces:
        names = gpus_named(device)
        name = names[0] if len(names) == 1 else ""
        for one in found.ops:
            shape = shape_of(one.op)
            if shape is not None:
                groups.setdefault((name, shape), []).append(one)
        for reason, count in found.left.items():
            left[reason] = left.get(reason, 0) + count
    rows = tuple(_rows(groups))
    return TracedTable(rows=rows, calls=sum(map(len, groups.values())), left=left)


def _rows(groups: Mapping[tuple[str, OpShape], Sequence[TracedOp]]) -> Iterator[dict[str, Any]]:
    for (device, _), calls in groups.items():
        op: Gemm | Attention = calls[0].op
        time_us = median(call.time_ns for call in calls) / 1e3
        yield {"kind": kind_of(op), "op": op.name, **shape_values(op), "gpu": device, "time_us": time_us}
