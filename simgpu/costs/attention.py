"""Time of flash attention: tile pairs over SMs, with the last row's tail."""

from __future__ import annotations

from simgpu.costs.attention_kernel import attention_kernel, padded
from simgpu.costs.gemm import gemm_constants
from simgpu.hardware.gpu import Gpu
from simgpu.workload.op import Attention

# Fitted with the rates of data/attention_constants.csv, the same for every device and kernel.
TAIL = 0.6  # of one full row of tile pairs, which SMs idle at the end of a forward kernel
BACKWARD_TAIL = 0.3  # of a backward one
# An SM that is left with one row of tiles has nothing to hide its softmax behind: forward times of 4 heads of 4096
# tokens, fewer rows than SMs, on A100 and B200: MooreThreads/SimuMax sdp_fwd
LONE_ROW = 1.4
BACKWARD_TILE = 128  # keys of one thread block
BACKWARD_PROLOGUE = 2  # over forward: keys and values are read, their gradients written
BACKWARD_KERNELS = 3  # output times its gradient, the products, the query gradient's conversion


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

        n    = ceil(s / tile)                                  rows of tiles per head
        c    = 4 tile^2 e(d) SM / F                            one tile pair on one SM
        row  = m c + prologue d / 128                          m pairs in the longest row
        work = batch heads (pairs c + n prologue d / 128)      pairs: n (n + 1) / 2 causal, n m not
        t    = launch + max(work / SM + 0.6 r row, 1.4 row)

    r rows of tiles share an SM, and the last of them too (1 but for ``flash-2-paged``). d is the mean width of a query
    and a value head, padded to a multiple of 32; e(d) the effort per product element, which softmax makes weigh more in
    narrow heads; F the sustained matrix rate of the number format, so that attention follows precision and power. A
    sliding window of w keys leaves ``ceil(w / tile) + 1`` pairs of a row at the most.

    Backward multiplies c by ``(3 d_qk + 2 d_v) / (d_qk + d_v)`` over the backward rate, has half the tail, and walks
    over keys in rows of 128. Around it run passes at the achieved memory bandwidth: output and its gradient are read,
    the query gradient's fp32 sum is cleared, read and converted, and with grouped heads the key and value gradients of
    all query heads are added up. These make the backward rate grow with the sequence.

    Never faster than its bytes at the achieved memory bandwidth. Under a power cap (``Gpu.power_share``) only work / SM
    slows down: the clock of the last rows, when SMs idle, stays.

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> op = Attention(name="core", batch=2, sequence=8192, heads=32, kv_heads=8, head_dim=128)
    >>> 180 < op.flops / attention_ns(op, gpu("A100-SXM4-80GB")) / 1000 < 220  # TFLOP/s
    True
    """
    kernel = attention_kernel(gpu, op.kernel)
    wide, value = padded(op.head_dim), padded(op.value_dim or op.head_dim)
    width = (wide + value) / 2
    held = min(1.0, gpu.power_share)  # what a power limit leaves of the rate where all SMs are busy
    rate = 1000 * gpu.sustained_tflops(op.dtype) / held / gpu.sm_count  # FLOPs per ns of one SM
    effort, tile, tail, lone = kernel.effort(width), kernel.tile, TAIL * kernel.rows_per_sm(width), LONE_ROW
    prologue_ns = kernel.prologue_ns * width / 128
    launch_ns = gemm_constants(gpu).launch_latency_ns
    bytes_per_ns = gpu.memory_gb_per_s * gpu.hbm_efficiency
    traffic_ns = op.bytes / bytes_per_ns
    around_ns = 0.0
    if op.backward:
        effort *= (3 * wide + 2 * value) / (2 * width) / kernel.backward(width)
        tile, tail, lone = BACKWARD_TILE, BACKWARD_TAIL, 1.0
        prologue_ns *= BACKWARD_PROLOGUE
        around_ns = (BACKWARD_KERNELS - 1) * launch_ns + _around_bytes(op) / bytes_per_ns
    queries, keys = op.sequence, op.kv_sequence or op.sequence
    rows, longest = (keys, queries) if op.backward else (queries, keys)
    rows, longest = -(-rows // tile), -(-longest // tile)
    pair_ns = 4 * tile * tile * effort / rate
    pairs = rows * longest
    if op.causal:
        pairs = (pairs + max(rows, longest)) // 2  # half, and the half-empty pairs along the diagonal
    if op.causal and op.window is not None:
        longest = min(longest, -(-op.window // tile) + 1)
        pairs = min(pairs, rows * longest - longest * (longest - 1) // 2)
    row_ns = longest * pair_ns + prologue_ns
    work_ns = op.batch * op.heads * (pairs * pair_ns + rows * prologue_ns)
    time_ns = max(work_ns / gpu.sm_count + tail * row_ns, work_ns / held / gpu.sm_count, lone * row_ns, traffic_ns)
    return launch_ns + time_ns + around_ns


def _around_bytes(op: Attention) -> int:
    """Bytes of the passes before and after the backward products."""
    value, element = op.value_dim or op.head_dim, op.dtype.bytes
    queries, keys = op.batch * op.sequence, op.batch * (op.kv_sequence or op.sequence)
    outputs = queries * op.heads * 2 * element * value
    query_gradient = queries * op.heads * (4 + 4 + element) * op.head_dim
    if op.kv_heads == op.heads:
        return outputs + query_gradient
    return outputs + query_gradient + keys * (op.heads + op.kv_heads) * element * (op.head_dim + value)
