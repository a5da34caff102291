"""Time of an op that is limited by memory traffic."""

from __future__ import annotations

from simgpu.hardware.gpu import Gpu
from simgpu.workload.op import MemoryBound

LATENCY_NS = 2500  # per kernel, stream already filled: 2-3 us, best fit to published Megatron step times
# Rate relative to a copy. Norms: PyTorch kernels reach .52-.77 of nominal on V100 and A100, .6-.75 of copy; softmax
# .64-.78 of nominal: sitar-lab/NeuSight and microsoft/vidur operator data
PATTERN_RATE = {"copy": 1.0, "norm": 0.75, "softmax": 0.75}
L2_SPEEDUP = 2.0  # over HBM, for bytes that an earlier kernel left in the L2 cache (measured 1.5-2)


def memory_bound_ns(op: MemoryBound, gpu: Gpu) -> float:
    """Return the time of a memory-bound op on an otherwise idle device.

    Parameters
    ----------
    op : MemoryBound
    gpu : Gpu

    Returns
    -------
    float, nanoseconds

    Notes
    -----
    ``kernels latency + bytes / (hbm_efficiency pattern_rate bandwidth)``. An op all of whose bytes fit in L2 was just
    fed by the kernel before it and runs at twice that; the optimizer's state was not, and never does.

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> op = MemoryBound(name="add", bytes=2039 * 10**6)
    >>> round(memory_bound_ns(op, gpu("A100-SXM4-80GB")) / 1000)  # 1 ms of nominal bandwidth at .869 of it
    1153
    """
    rate = gpu.memory_gb_per_s * gpu.hbm_efficiency * PATTERN_RATE[op.pattern]
    if op.op_class != "optimizer" and op.bytes <= gpu.l2_mib * 2**20:
        rate *= L2_SPEEDUP
    return op.kernels * LATENCY_NS + op.bytes / rate
