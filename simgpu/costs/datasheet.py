"""What a device's datasheet rules out: number formats it has no units for, and times that nothing reaches."""

from __future__ import annotations

from typing import Final

from simgpu.dtypes import DType
from simgpu.hardware.gpu import Gpu
from simgpu.workload.op import Attention, Gemm, GroupedGemm, MemoryBound, Op

IMPLAUSIBLE: Final = 1.5
"""A time that beats the datasheet by more is a mistake: cards run up to a sixth above their nominal clock."""

_CACHED: Final = 4  # times the L2: more than that per kernel comes from memory whatever was there before
_L2_OVER_MEMORY: Final = 10  # no L2 is faster: 5 TB/s against 1 on RTX-4090, 5.5 against 3.35 on H100 (recalled)


def formats(gpu: Gpu) -> tuple[DType, ...]:
    """Return the number formats that a device multiplies matrices in.

    Parameters
    ----------
    gpu : Gpu

    Returns
    -------
    tuple of DType

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> [dtype.value for dtype in formats(gpu("V100-SXM2-32GB"))]
    ['fp32', 'fp16']
    """
    peaks = {DType.BF16: gpu.bf16_tflops, DType.TF32: gpu.tf32_tflops, DType.FP8: gpu.fp8_tflops}
    return tuple(dtype for dtype in DType if peaks.get(dtype, gpu.fp32_tflops))


def lacking(op: Op, gpu: Gpu) -> str | None:
    """Say why an op cannot run on a device for want of arithmetic in its number format.

    Parameters
    ----------
    op : Op
    gpu : Gpu

    Returns
    -------
    str or None
        None when it can.

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> lacking(Gemm(name="gemm", m=8, n=8, k=8), gpu("V100-SXM2-32GB"))
    'V100-SXM2-32GB (Volta) has no bf16 arithmetic'
    """
    if not isinstance(op, Gemm | GroupedGemm | Attention):
        return None
    what = f"{gpu.name} ({gpu.arch}) has no"
    if op.dtype not in formats(gpu):
        return f"{what} {op.dtype.value} arithmetic"
    return None


def over_datasheet(op: Op, time_ns: float, gpu: Gpu) -> float:
    """Return how many times as fast as the datasheet allows an op would be.

    Parameters
    ----------
    op : Op
    time_ns : float, nanoseconds
        Above 0.
    gpu : Gpu

    Returns
    -------
    float
        Above `IMPLAUSIBLE` for a time that cannot be right.

    Notes
    -----
    The larger of FLOPs over the dense peak, and bytes over the memory's nominal bandwidth; ten times that bandwidth for
    kernels that move less than four times what L2 holds, which may find all of it there.

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> op = Gemm(name="gemm", m=8192, n=8192, k=8192)
    >>> round(over_datasheet(op, 111_130, gpu("H100-SXM5-80GB")), 2)  # 1.1e12 FLOPs at 989.4 TFLOP/s: 1111 us
    10.0
    """
    arithmetic = 0.0
    if isinstance(op, Gemm | GroupedGemm | Attention):
        arithmetic = op.flops / time_ns / 1e3 / gpu.peak_tflops(op.dtype)
    kernels = op.kernels if isinstance(op, MemoryBound) else 1
    cached = op.bytes <= _CACHED * kernels * gpu.l2_mib * 2**20
    traffic = op.bytes / time_ns / gpu.memory_gb_per_s / (_L2_OVER_MEMORY if cached else 1)
    return max(arithmetic, traffic)
