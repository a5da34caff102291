"""Time of flash attention: tile pairs over SMs, with the last row's tail."""

from __future__ import annotations

import math
from itertools import pairwise

from simgpu.costs.constants import device_constants
from simgpu.costs.gemm import gemm_constants
from simgpu.hardware.gpu import Gpu
from simgpu.workload.op import Attention

TAIL = 0.25  # of one full row of tile pairs that SMs idle at the end; fitted with the rates
# Backward rate over forward rate by sequence length, interpolated in log s and flat outside; middle of the published
# ranges .61-.69, .75-.80, .84-.87 for FlashAttention-2, -3 and cuDNN: Dao-AILab/flash-attention, arXiv 2407.08608
BACKWARD_RATE = ((512, 0.65), (2048, 0.775), (8192, 0.855))
BACKWARD_FLOPS = 2.5  # over forward: five products instead of two


def backward_rate(sequence: int) -> float:
    """Return the rate of the backward kernel relative to the forward one.

    Examples
    --------
    >>> [backward_rate(s) for s in (128, 512, 2048, 65536)], round(backward_rate(1024), 4)
    ([0.65, 0.65, 0.775, 0.855], 0.7125)
    """
    if sequence <= BACKWARD_RATE[0][0]:
        return BACKWARD_RATE[0][1]
    for (low, first), (high, second) in pairwise(BACKWARD_RATE):
        if sequence <= high:
            return first + (second - first) * math.log(sequence / low) / math.log(high / low)
    return BACKWARD_RATE[-1][1]


def attention_ns(op: Attention, gpu: Gpu) -> float:
    """Return the time of a flash attention kernel on an otherwise idle device.

    Parameters
    ----------
    op : Attention
    gpu : Gpu

    Returns
    -------
    float, nanoseconds

    Notes
    -----
    ::

        n    = ceil(s / q_tile)                     rows of tiles per head
        c    = 4 q_tile^2 d SM / F                  one tile pair on one SM
        work = batch heads (n (n + 1) / 2 c + n prologue)          n^2 instead when not causal
        t    = launch + max(work / SM + n c / 4, n c + prologue)

    Backward takes 2.5 times the work at `backward_rate` of the rate. Never faster than its bytes at the achieved
    memory bandwidth. Fitted at a head width of 128; heads of 64, whose softmax weighs more, take up to a sixth longer
    than this on Hopper. The constants' F is a fraction of the GEMM rate, so that it follows precision and power.
    Devices without a row of their own use an assumed fraction (flag A).

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> op = Attention(name="core", batch=2, sequence=8192, heads=32, kv_heads=8, head_dim=128)
    >>> 150 < op.flops / attention_ns(op, gpu("A100-SXM4-80GB")) / 1000 < 207  # TFLOP/s
    True
    """
    constants = device_constants("attention", gpu)
    tile = int(constants["q_tile"])
    prologue_ns = float(constants["prologue_us"]) * 1000
    rate = 1000 * gpu.sustained_tflops(op.dtype) * float(constants["rate_over_gemm"])  # FLOPs per ns
    rows = -(-op.sequence // tile)
    pair_ns = 4 * tile * tile * op.head_dim * gpu.sm_count / rate
    pairs = rows * (rows + 1) / 2 if op.causal else rows * rows
    work_ns = op.batch * op.heads * (pairs * pair_ns + rows * prologue_ns)
    time_ns = max(work_ns / gpu.sm_count + TAIL * rows * pair_ns, rows * pair_ns + prologue_ns)
    if op.backward:
        time_ns *= BACKWARD_FLOPS / backward_rate(op.sequence)
    time_ns = max(time_ns, op.bytes / (gpu.memory_gb_per_s * gpu.hbm_efficiency))
    return gemm_constants(gpu).launch_latency_ns + time_ns
