"""Time of an op that is limited by memory traffic."""

from __future__ import annotations

from functools import cache

from simgpu.costs.constants import device_constants
from simgpu.hardware.gpu import Gpu
from simgpu.workload.op import MemoryBound

# Rate relative to a copy, for rows of a model's width. PyTorch 2.1 fp32 kernels in sitar-lab/NeuSight operator data,
# large tensors: layer norm .64 (rows from 16 kB) to .90 (rows up to 12 kB) on A100-80GB, .65 to .74 on V100; softmax
# .82 to .97 and .69 to .98, for rows up to 32 kB. The rates without bias over the rows of both devices.
# Half-precision softmaxes and kernels that cannot read vectors, an operand being broadcast or transposed: fitted to
# PyTorch's attention at sequences 512, 2048 and 8192, with and without a mask, on A100 and H100 together: figures of
# arXiv 2307.08691 and 2407.08608; kernels of Dao-AILab/flash-attention benchmarks/benchmark_flash_attention.py.
# Maximum and sum over rows of 131072 in fp32: of Megatron's unfused cross-entropy forward, 15.8 ms for 2^30 logits on
# H100, what its copies leave (linkedin/Liger-Kernel benchmark/data/all_benchmark_data_megatron.csv).
PATTERN_RATE = {
    "copy": 1.0,
    "norm": 0.7,
    "softmax": 0.8,
    "half_softmax": 0.6,
    "half_softmax_backward": 0.5,
    "reduction": 0.5,
    "strided": 0.4,
}
UNCACHED = {"strided"}  # bound by instructions, so that what L2 holds saves nothing
# Residual adds right after the GEMM that made one operand, 0.1 to 200 MB, on A100-PCIe (L2 40 MB) and H100 (50 MB):
# microsoft/vidur data/profiling/compute/{a100,h100}. Traffic up to this share of the L2 runs at this multiple of the
# memory's rate, and what goes beyond at the memory's rate.
L2_SHARE = 0.65
L2_SPEEDUP = 1.6


@cache
def kernel_latency_ns(gpu: Gpu) -> float:
    """Return what a kernel takes without any work: its own time, and the gap to the next in a filled stream.

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> kernel_latency_ns(gpu("V100-SXM2-32GB"))
    2800.0
    """
    row = device_constants("memory", gpu)
    return 1000 * (float(row["kernel_us"]) + float(row["gap_us"]))


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
    ``kernels latency + (bytes - saved) / (hbm_efficiency pattern_rate bandwidth)``. What the kernel before left in L2
    saves 0.375 of the bytes up to 0.65 of the L2's capacity for each kernel, so that time grows with the bytes without
    a step. The optimizer's state was touched a whole step ago: nothing of it is saved, nor is anything for a kernel
    that its own instructions hold up (``strided``).

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> op = MemoryBound(name="add", bytes=2039 * 10**6, op_class="optimizer")
    >>> round(memory_bound_ns(op, gpu("A100-SXM4-80GB")) / 1000)  # 1 ms of nominal bandwidth at .869 of it
    1154
    """
    rate = gpu.memory_gb_per_s * gpu.hbm_efficiency * PATTERN_RATE[op.pattern]
    moved = float(op.bytes)
    if op.op_class != "optimizer" and op.pattern not in UNCACHED:
        moved -= (1 - 1 / L2_SPEEDUP) * min(moved, op.kernels * L2_SHARE * gpu.l2_mib * 2**20)
    return op.kernels * kernel_latency_ns(gpu) + moved / rate
