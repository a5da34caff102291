"""Which term of the cost model decides an op's time: arithmetic, memory traffic, or what a launch costs anyway."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Final

from simgpu.costs.compute import price
from simgpu.hardware.gpu import Gpu
from simgpu.workload.op import Op, Timed

_UNLIMITED: Final = 1e9  # times the device's own rate


def bound(op: Op, gpu: Gpu) -> str:
    """Return what limits an op on an otherwise idle device.

    Parameters
    ----------
    op : Op
    gpu : Gpu

    Returns
    -------
    str
        ``launch``, ``memory``, ``compute``; ``given`` for an op of a given duration, ``nothing`` for one without
        work.

    Notes
    -----
    The cost model is asked again for devices without a limit: ``launch`` when more than half of the time is left on
    one whose arithmetic and whose memory take no time (kernel launches, starts of tiles); else ``memory`` when
    unlimited arithmetic leaves more of the time than unlimited memory does, and ``compute`` otherwise.

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> from simgpu.workload.op import Gemm, MemoryBound
    >>> h100 = gpu("H100-SXM5-80GB")
    >>> [bound(Gemm(name="x", m=m, n=n, k=n), h100) for m, n in ((8192, 8192), (64, 8192), (64, 64))]
    ['compute', 'memory', 'launch']
    >>> bound(MemoryBound(name="add", bytes=2**30), h100), bound(MemoryBound(name="add", bytes=2**10), h100)
    ('memory', 'launch')
    """
    if isinstance(op, Timed):
        return "given"
    whole_ns = price(op, gpu)
    if not whole_ns:
        return "nothing"
    if 2 * price(op, _unlimited(gpu, arithmetic=True, memory=True)) > whole_ns:
        return "launch"
    traffic_ns = price(op, _unlimited(gpu, arithmetic=True, memory=False))
    arithmetic_ns = price(op, _unlimited(gpu, arithmetic=False, memory=True))
    return "memory" if traffic_ns > arithmetic_ns else "compute"


@lru_cache(maxsize=1024)
def _unlimited(gpu: Gpu, *, arithmetic: bool, memory: bool) -> Gpu:
    rate, bandwidth = _UNLIMITED if arithmetic else 1.0, _UNLIMITED if memory else 1.0
    return replace(
        gpu,
        gemm_tflops=gpu.gemm_tflops * rate,
        fp32_tflops=gpu.fp32_tflops * rate,
        fp8_gemm_tflops=None if gpu.fp8_gemm_tflops is None else gpu.fp8_gemm_tflops * rate,
        memory_gb_per_s=gpu.memory_gb_per_s * bandwidth,
    )
