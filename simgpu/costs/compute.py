"""The price of an op in nanoseconds."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from simgpu.costs.attention import attention_ns
from simgpu.costs.gemm import gemm_ns
from simgpu.costs.grouped_gemm import grouped_gemm_ns
from simgpu.costs.memory_bound import memory_bound_ns
from simgpu.hardware.gpu import Gpu
from simgpu.workload.op import Attention, Gemm, GroupedGemm, MemoryBound, Op

if TYPE_CHECKING:
    from simgpu.costs.table import MeasuredTable


@lru_cache(maxsize=65536)
def price(op: Op, gpu: Gpu, table: MeasuredTable | None = None) -> int:
    """Return how long an op takes on an otherwise idle device.

    Parameters
    ----------
    op : Op
    gpu : Gpu
    table : MeasuredTable, optional
        Measured times, which go before the model's.

    Returns
    -------
    int, nanoseconds
        Rounded up; at least 1 when there is work, 0 when the op neither computes nor moves anything.

    Notes
    -----
    A device without units for the op's number format is given those of the nearest format it has (`Gpu.peak_tflops`);
    whether it may be asked at all is for whoever names the two (`simgpu.costs.datasheet.lacking`).

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> from simgpu.workload.op import Timed
    >>> price(Timed(name="forward", duration_ns=1000), gpu("A100-SXM4-80GB"))
    1000
    >>> price(MemoryBound(name="nothing", bytes=0), gpu("A100-SXM4-80GB"))
    0
    """
    measured = None if table is None else table.time(op)
    if measured is not None:
        return max(1, math.ceil(measured.time_ns))
    if isinstance(op, Gemm):
        return math.ceil(gemm_ns(op, gpu)) if op.flops else 0
    if isinstance(op, GroupedGemm):
        return math.ceil(grouped_gemm_ns(op, gpu)) if op.flops else 0
    if isinstance(op, Attention):
        return math.ceil(attention_ns(op, gpu)) if op.flops else 0
    if isinstance(op, MemoryBound):
        return math.ceil(memory_bound_ns(op, gpu)) if op.bytes else 0
    return op.duration_ns
