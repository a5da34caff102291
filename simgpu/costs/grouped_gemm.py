"""Time of a grouped matrix product: the experts of a layer, one after another or in one kernel."""

from __future__ import annotations

from simgpu.costs.gemm import gemm_constants, products_ns
from simgpu.hardware.gpu import Gpu
from simgpu.workload.op import Gemm, GroupedGemm


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
    A product of the busiest group's rows and one of the mean of the others for each of these, their tiles in the same
    waves, and the device's ``group_ns`` for every group after the first: libraries start one kernel per group, on a few
    streams, whose beginnings and ends overlap in part. An uneven load fills tiles less well, and a weight gradient's
    last wave waits for the busiest group's loop.

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> op = GroupedGemm(name="experts", groups=8, rows=16384, n=28672, k=4096, busiest=2048)
    >>> 200 < op.flops / grouped_gemm_ns(op, gpu("A100-SXM4-80GB")) / 1000 < 260  # TFLOP/s
    True
    """
    return products_ns(_products(op), gpu) + (op.groups - 1) * gemm_constants(gpu).group_ns


def _products(op: GroupedGemm) -> tuple[Gemm, ...]:
    mean = -(-op.rows // op.groups)
    if op.busiest <= mean or op.groups == 1:
        return (_product(op, mean, op.groups),)
    others = -(-(op.rows - op.busiest) // (op.groups - 1))
    busiest = _product(op, op.busiest, 1)
    return (busiest, _product(op, others, op.groups - 1)) if others > 0 else (busiest,)


def _product(op: GroupedGemm, rows: int, groups: int) -> Gemm:
    m, n, k = (op.n, op.k, rows) if op.layout == "nt" else (rows, op.n, op.k)
    return Gemm(
        name=op.name,
        m=m,
        n=n,
        k=k,
        batch=groups,
        dtype=op.dtype,
        layout=op.layout,
        accumulate_bytes=op.accumulate_bytes,
    )
