"""Time of a grouped matrix product: the experts of a layer, one after another or in one kernel."""

from __future__ import annotations

from typing import Final

from simgpu.costs.gemm import gemm_ns
from simgpu.hardware.gpu import Gpu
from simgpu.workload.op import Gemm, GroupedGemm

# What each group adds to a batched product of the same size: libraries start one kernel per group, on a few streams,
# whose beginnings and ends overlap in part. Fit to MooreThreads/SimuMax group_matmul, A100-PCIe and B200, 20 to 256
# groups; the fused kernels of deepseek-ai/DeepGEMM, 1 to 8 groups, fit too.
GROUP_NS: Final = 5500


def grouped_gemm_ns(op: GroupedGemm, gpu: Gpu) -> float:
    """Return the time of a grouped GEMM on an otherwise idle device.

    Parameters
    ----------
    op : GroupedGemm
    gpu : Gpu

    Returns
    -------
    float, nanoseconds

    Notes
    -----
    A batched GEMM of groups of mean size, and 5.5 us for every group after the first.

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> op = GroupedGemm(name="experts", groups=8, rows=16384, n=28672, k=4096, busiest=2048)
    >>> 200 < op.flops / grouped_gemm_ns(op, gpu("A100-SXM4-80GB")) / 1000 < 260  # TFLOP/s
    True
    """
    rows = -(-op.rows // op.groups)
    m, n, k = (op.n, op.k, rows) if op.layout == "nt" else (rows, op.n, op.k)
    alike = Gemm(
        name=op.name, m=m, n=n, k=k, batch=op.groups, dtype=op.dtype, layout=op.layout,
        accumulate_bytes=op.accumulate_bytes,
    )  # fmt: skip
    return gemm_ns(alike, gpu) + (op.groups - 1) * GROUP_NS
