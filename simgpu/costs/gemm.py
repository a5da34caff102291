"""Time of a matrix product: tiles, waves, split-K, memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from simgpu.costs.constants import device_constants
from simgpu.hardware.gpu import Gpu
from simgpu.workload.op import Gemm

# (rows, columns, CTAs resident per SM, rate relative to the sustained one); canonical over devices, fitted to
# microsoft/vidur and ai-dynamo/aiconfigurator GEMM tables
TILES = (
    (256, 128, 1, 1.0),
    (128, 256, 1, 1.0),
    (128, 128, 1, 0.97),
    (256, 64, 1, 0.88),
    (64, 256, 1, 0.88),
    (128, 64, 2, 0.82),
    (64, 128, 2, 0.82),
    (64, 64, 4, 0.65),
)
SPLITS = (1, 2, 3, 4, 6, 8)
SHORTEST_SPLIT = 256  # elements of k that a split must keep
K_STEP = 64  # elements of k that one step of the main loop takes
LAYOUT_RATE = {"tn": 1.0, "nn": 0.98, "nt": 0.95}  # A100: 242, 237, 230 TFLOP/s, MooreThreads/SimuMax efficiency tables


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmConstants:
    """What one device adds to its arithmetic: nanoseconds per tile, per launch, per split-K reduction."""

    prologue_ns: float
    launch_latency_ns: float
    splitk_latency_ns: float


@cache
def gemm_constants(gpu: Gpu) -> GemmConstants:
    """Return the GEMM constants of a device.

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> gemm_constants(gpu("H100-SXM5-80GB")).launch_latency_ns
    2400.0
    """
    row = device_constants("gemm", gpu)
    return GemmConstants(
        prologue_ns=float(row["prologue_us"]) * 1000,
        launch_latency_ns=float(row["launch_latency_us"]) * 1000,
        splitk_latency_ns=float(row["splitk_latency_us"]) * 1000,
    )


def gemm_ns(op: Gemm, gpu: Gpu) -> float:
    """Return the time of a GEMM on an otherwise idle device.

    Parameters
    ----------
    op : Gemm
    gpu : Gpu

    Returns
    -------
    float, nanoseconds

    Notes
    -----
    ::

        t       = launch + min over tiles and splits of max(t_mem, t_waves + [split > 1] (splitk + 8 split m n / bw))
        CTAs    = ceil(m / tm) ceil(n / tn) batch split
        wave    = resident 2 tm tn ceil64(k / split) SM / F + prologue        resident CTAs share an SM
        t_mem   = bytes / (bw hbm_efficiency)

    The last wave counts the CTAs that are resident in it. The minimum stands for the library's heuristic. Splits that
    would leave less than 256 of k are not tried. F is the sustained rate times the tile's and the layout's relative
    rates. Sizes that are not multiples of 64 pay by whole tiles only; the further loss seen for odd sizes (H100: 272
    against 398 TFLOP/s at a width of 10922, stas00/ml-engineering) has no usable formula and is left out.

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> op = Gemm(name="square", m=8192, n=8192, k=8192)
    >>> 240 < op.flops / gemm_ns(op, gpu("A100-SXM4-80GB")) / 1000 < 260  # TFLOP/s
    True
    """
    constants = gemm_constants(gpu)
    rate = 1000 * gpu.sustained_tflops(op.dtype) * LAYOUT_RATE[op.layout] / gpu.sm_count  # FLOPs per ns of one SM
    bytes_per_ns = gpu.memory_gb_per_s * gpu.hbm_efficiency
    fastest = math.inf
    for rows, columns, resident, efficiency in TILES:
        tiles = -(-op.m // rows) * -(-op.n // columns) * op.batch
        for split in SPLITS:
            if split > 1 and op.k < SHORTEST_SPLIT * split:
                break
            depth = -(-op.k // (split * K_STEP)) * K_STEP
            tile_ns = 2 * rows * columns * depth / (rate * efficiency)
            full, rest = divmod(tiles * split, gpu.sm_count * resident)
            depths, waves = full * resident + -(-rest // gpu.sm_count), full + (rest > 0)
            time_ns = depths * tile_ns + waves * constants.prologue_ns
            if split > 1:
                time_ns += constants.splitk_latency_ns + 8 * split * op.batch * op.m * op.n / bytes_per_ns
            fastest = min(fastest, time_ns)
    return constants.launch_latency_ns + max(fastest, op.bytes / bytes_per_ns)
