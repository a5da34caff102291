"""One op with what is behind its time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from simgpu.costs.attention_kernel import attention_kernel
from simgpu.costs.bound import bound
from simgpu.costs.compute import price
from simgpu.costs.op_shape import kind_of, shape_values
from simgpu.costs.origin import Origin, origin
from simgpu.costs.table import MeasuredTable
from simgpu.hardware.gpu import Gpu
from simgpu.workload.op import Attention, Op


@dataclass(frozen=True, slots=True, kw_only=True)
class OpRow:
    """One op.

    Parameters
    ----------
    unit, phase : str
        ``block`` and ``forward``, say; empty for an op asked for by itself.
    op : Op
    time_ns : int, nanoseconds
        On an otherwise idle device.
    bound : str
        ``compute``, ``memory`` or ``launch``; `simgpu.costs.bound` has the rule.
    origin : Origin
        Where the time comes from.
    per_step : int
        How often one rank of each pipeline stage, all stages together, runs it in a step.
    kernel : str
        Of attention: the kernel whose constants were used, the device's first where it has not the op's own.
    cached : bool
        Its traffic is faster than the memory's nominal bandwidth: part of it stays in L2.
    """

    unit: str
    phase: str
    op: Op
    time_ns: int
    bound: str
    origin: Origin
    per_step: int = 1
    kernel: str = ""
    cached: bool = False

    @property
    def tflops(self) -> float:
        """Achieved TFLOP/s."""
        return self.op.flops / self.time_ns / 1e3 if self.time_ns else 0.0

    @property
    def gb_per_s(self) -> float:
        """Achieved memory traffic, GB/s."""
        return self.op.bytes / self.time_ns if self.time_ns else 0.0


def price_ops(ops: Iterable[Op], gpu: Gpu, table: MeasuredTable | None = None) -> tuple[OpRow, ...]:
    """Price ops by themselves.

    Parameters
    ----------
    ops : iterable of Op
    gpu : Gpu
    table : MeasuredTable, optional

    Returns
    -------
    tuple of OpRow

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> from simgpu.workload.op import Gemm
    >>> row, = price_ops([Gemm(name="square", m=8192, n=8192, k=8192)], gpu("H100-SXM5-80GB"))
    >>> row.bound, row.origin.source, 650 < row.tflops < 800
    ('compute', 'model', True)
    """
    return tuple(op_row(op, gpu, table) for op in ops)


def op_row(
    op: Op, gpu: Gpu, table: MeasuredTable | None, *, unit: str = "", phase: str = "", per_step: int = 1
) -> OpRow:
    """Price one op of a step; see `OpRow`."""
    time_ns = price(op, gpu, table)
    return OpRow(
        unit=unit,
        phase=phase,
        op=op,
        time_ns=time_ns,
        bound=bound(op, gpu),
        origin=origin(op, gpu, table),
        per_step=per_step,
        kernel=attention_kernel(gpu, op.kernel).name if isinstance(op, Attention) else "",
        cached=op.bytes > time_ns * gpu.memory_gb_per_s,
    )


def row_to_json(row: OpRow) -> dict[str, Any]:
    """Turn a row into plain data.

    Parameters
    ----------
    row : OpRow

    Returns
    -------
    dict
    """
    return {
        "unit": row.unit,
        "phase": row.phase,
        "op": row.op.name,
        "kind": kind_of(row.op) or "timed",
        "class": row.op.op_class,
        "shape": dict(shape_values(row.op)),
        "kernel": row.kernel or None,
        "flops": row.op.flops,
        "bytes": row.op.bytes,
        "time_us": row.time_ns / 1e3,
        "tflops": row.tflops,
        "gb_per_s": row.gb_per_s,
        "l2": row.cached,
        "bound": row.bound,
        "source": row.origin.source,
        "source_detail": row.origin.detail,
        "flag": row.origin.flag,
        "per_step": row.per_step,
    }
